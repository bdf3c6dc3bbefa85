"""Control instructions as numbers for compiled loops; other instructions have theirs from their semantics."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gpuemu.isa.opcodes import Kind
from gpuemu.isa.operands import parse_integer
from gpuemu.sass.compiled.columns import (
    ALL_OF,
    ALONE_PASSES,
    BARRIER,
    BRANCH,
    COLLECTIVE,
    DIVERGE,
    EVERY,
    EXIT,
    EXPECT,
    FORGET,
    IS_WIDE,
    JUMP,
    MEET,
    MOST_LOOK_ROWS,
    NOTHING,
    NUMBER,
    OP,
    PAUSE,
    READ,
    SYNC,
    THREADS,
    TRUTH,
    TRUTHS,
    UNIFORM_ROW,
    UNIFORM_ROWS_END,
    UNIFORM_TRUTH,
    VOTES,
    WAITS,
    WARPSYNC,
    WHOLE,
    YIELDS,
)
from gpuemu.sass.machine.operands import Site
from gpuemu.sass.machine.scheduling.jumps import WHOLE_WARP, jumps_whole, predicates_of
from gpuemu.sass.machine.scheduling.polls import registers_named
from gpuemu.sass.semantics.lanewise import Columns, Place, plain_word, truth
from gpuemu.trace.listing import INSTRUCTION_BYTES
from gpuemu.trace.model import Instruction


def control_columns(site: Site, index_of: Mapping[int, int], codeless: Mapping[int, str]) -> Columns | None:
    """Return a control instruction as numbers, if its form is one that the loops know."""
    kind, mnemonic = site.instruction.operation.kind, site.mnemonic
    predicates = predicates_of(site)
    if kind is Kind.EXIT:
        return _with_predicates({OP: EXIT}, site, predicates)
    if kind is Kind.BARRIER:
        return _cta_barrier(site, predicates)
    if mnemonic in ("BRA", "JMP") and not site.has("DIV", "CONV", "ANY") and not jumps_whole(site):
        target = index_of.get(_number(site.instruction.operands[-1]))
        return None if target is None else _with_predicates({OP: BRANCH, NUMBER: target}, site, predicates)
    if mnemonic == "BRA" and site.has("DIV") and not site.has("CONV", "ANY"):
        return _diverging(site, index_of, predicates)
    if mnemonic == "BREAK":
        return _with_predicates({OP: FORGET, NUMBER: _barrier(site.instruction)}, site, predicates)
    if predicates:
        return None
    if mnemonic in ("YIELD", "NANOSLEEP"):
        return {OP: PAUSE, EVERY: 1 if mnemonic == "NANOSLEEP" else YIELDS}
    if mnemonic in ("CALL", "RET", "BRX", "BRXU"):
        return _jump(site, index_of, codeless)
    if guard_column(site.instruction):
        return None
    match mnemonic:
        case "BSSY":
            return {OP: EXPECT, NUMBER: _barrier(site.instruction)}
        case "BSYNC":
            return {OP: MEET, NUMBER: _barrier(site.instruction)}
        case "WARPSYNC":
            return _sync(site)
        case "ENDCOLLECTIVE":
            return {OP: NOTHING}
    return None


def _diverging(site: Site, index_of: Mapping[int, int], predicates: Sequence[int]) -> Columns | None:
    """Return BRA.DIV of a CTA that consists of whole warps."""
    target = index_of.get(_number(site.instruction.operands[-1]))
    place = Place(-1, 0, int(WHOLE_WARP))
    if len(site.operands) > 1:
        given = plain_word(site, 0, site.source(0)).place
        if given is None or given.decorations:
            return None
        place = given
    if target is None or not site.lanes.exists.all():
        return None
    found = {OP: DIVERGE, NUMBER: target, READ: place.row, READ + 2: place.bits}
    return _with_predicates(found, site, predicates)


def _cta_barrier(site: Site, predicates: Sequence[int]) -> Columns | None:
    """Return BAR.SYNC, BAR.ARV or BAR.RED if its number and its threads are immediates."""
    operands = [k for k in range(len(site.operands)) if k not in predicates]
    if site.mnemonic != "BAR" or len(operands) > 2 or any(site.operands[k].register for k in operands):
        return None
    numbers = [parse_integer(site.instruction.operands[k]) for k in operands]
    if None in numbers:
        return None
    number, threads = ([*numbers, 0, 0] if numbers else [0, 0])[:2]
    place = truth(site, predicates[-1]).place if predicates else Place(7)
    if place is None or number is None:
        return None
    waits = not site.has("ARV")
    alone = waits and len(operands) < 2 and not guard_column(site.instruction)
    return {
        OP: BARRIER, NUMBER: number & 15, THREADS: threads or -1, WAITS: waits, ALL_OF: site.has("AND"),
        ALONE_PASSES: alone, VOTES: len(predicates) > 0, TRUTH: 4 * place.row + place.decorations,
    }  # fmt: skip


def _sync(site: Site) -> Columns | None:
    """Return WARPSYNC: the lanes that it names are all, or in a register."""
    found = {OP: SYNC, NUMBER: COLLECTIVE if site.has("COLLECTIVE") else WARPSYNC}
    if site.has("ALL"):
        return found | {WHOLE: 1, READ + 2: int(WHOLE_WARP)}
    register = site.operands[0].register
    if register is not None and not register.is_predicate:
        return found | {WHOLE: 0, READ: register.number + (UNIFORM_ROW if register.file == "UR" else 0)}
    named = parse_integer(site.instruction.operands[0])
    return None if named is None else found | {WHOLE: 1, READ + 2: named & 0xFFFFFFFF}


def _jump(site: Site, index_of: Mapping[int, int], codeless: Mapping[int, str]) -> Columns | None:
    """Return a call, a return or a branch through a register."""
    texts = site.instruction.operands
    address = parse_integer(texts[0])
    if address is not None:
        target = index_of.get(address)
        if site.mnemonic != "CALL" or len(texts) > 1 or target is None or address in codeless:
            return None
        return {OP: BRANCH, NUMBER: target}
    register = site.operands[0].register
    if register is None or register.is_predicate or site.operands[0].negative or site.operands[0].inverted:
        return None
    base = 0
    if len(texts) == 2:
        base = int(texts[1], 16)
        if site.mnemonic in ("BRX", "BRXU"):
            base += site.instruction.offset + INSTRUCTION_BYTES
    wide = site.has("ABS") and site.mnemonic in ("CALL", "RET") and base == 0
    if (site.has("ABS") and not wide) or (not wide and len(texts) != 2) or len(texts) > 2:
        return None
    row = register.number + (UNIFORM_ROW if register.file == "UR" else 0)
    return None if register.is_constant else {OP: JUMP, READ: row, NUMBER: base, IS_WIDE: int(wide)}


def look_rows(instruction: Instruction) -> list[int]:
    """Return the rows of the registers that a load or an atomic names, in the order of `Polls`; none for others."""
    if instruction.mnemonic not in ("LDG", "LD", "LDS", "ATOM", "ATOMG", "ATOMS"):
        return []
    starts = {"R": 0, "UR": UNIFORM_ROW, "P": UNIFORM_ROWS_END, "UP": UNIFORM_ROWS_END + UNIFORM_TRUTH}
    rows = [starts[file] + number for file, number in registers_named(instruction)]
    return rows if len(rows) <= MOST_LOOK_ROWS else []


def _with_predicates(found: Columns, site: Site, predicates: Sequence[int]) -> Columns | None:
    for number, k in enumerate(predicates):
        place = truth(site, k).place
        if place is None:
            return None
        found[TRUTH + number] = 4 * place.row + place.decorations
    return found | {TRUTHS: len(predicates)}


def _number(text: str) -> int:
    return int(text, 16) if re.fullmatch(r"0x[0-9a-f]+", text) else -1


def _barrier(instruction: Instruction) -> int:
    return next(int(operand[1:]) for operand in instruction.operands if re.fullmatch(r"B\d+", operand))


def guard_column(instruction: Instruction) -> int | None:
    """Return the column GUARD of an instruction; None for a guard that is not understood."""
    found = re.fullmatch(r"@(!?)(U?)P([0-9T])", instruction.guard)
    if found is None:
        return None if instruction.guard else 0
    row = (7 if found[3] == "T" else int(found[3])) + (8 if found[2] else 0)
    return 0 if row in (7, 15) and not found[1] else 1 + 2 * row + bool(found[1])
