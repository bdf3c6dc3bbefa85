"""Which registers an instruction writes and reads, from its SASS text: what a register scoreboard needs.

Machine code with control words never asks this; traces written by hand or imported without them do.
Registers are small integers: R0..R254 as 0..254, P0..P6 from 300, UR0..UR62 from 400, UP0..UP6 from 500.
RZ, PT, URZ and UPT hold constants and never appear. SASS names the first register of a 64- or 128-bit value;
how many follow it is known from the mnemonic's row in `isa.table` and the modifiers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain

from gpuemu.isa.opcodes import Kind, describe
from gpuemu.isa.operands import Register, parse_operand
from gpuemu.isa.products import fragment_registers
from gpuemu.isa.table import Opcode, parse_opcode

PREDICATES, UNIFORM = 300, 400
"""Where those begin; general registers are below both."""
_BASES = {"R": 0, "P": PREDICATES, "UR": UNIFORM, "UP": 500}
_PREDICATES = 7
_REGISTER_FILES, _PREDICATE_FILES = ("R", "UR"), ("P", "UP")
_FRAGMENTS = ("A", "B", "C")
_DESCRIPTOR_WORDS = 4
"""Of the descriptor of a matrix in shared memory, gdesc[UR4]."""


def register_number(register: Register) -> int:
    """The number of a register that is no constant one."""
    return _BASES[register.file] + register.number


def register_name(number: int) -> str:
    """R4, P0, UR2."""
    file = max((file for file, base in _BASES.items() if number >= base), key=lambda file: _BASES[file])
    return f"{file}{number - _BASES[file]}"


def is_number(number: int) -> bool:
    """Whether a register, by its number, holds 32 bits, and no truth value."""
    return number < PREDICATES or UNIFORM <= number < _BASES["UP"]


def _registers(text: str, words: int = 1) -> tuple[int, ...]:
    """Every register named in an operand; a general or uniform one starts a value of `words` words."""
    if text == "PR":
        return tuple(_BASES["P"] + i for i in range(_PREDICATES))
    found: list[int] = []
    for register, pair in parse_operand(text).registers:
        span = 1 if register.is_predicate else 2 if pair else words
        found.extend(register_number(register) + i for i in range(span))
    return tuple(found)


def _words(code: str, opcode: Opcode) -> int:
    """The 32-bit words of a width of the table, with the modifiers of an opcode."""
    if code.isdecimal():
        return int(code)
    match code:
        case "n":
            return 4 if opcode.has("128") else 2 if opcode.has("64") else 1
        case "m":
            return opcode.matrices
        case "d":
            return 2 if opcode.has("64", "S64", "U64", "M832") else 1
        case "w":
            return 2 if opcode.has("WIDE") else 1
        case "h":  # both add a 64-bit source to the product; .HI keeps the sum's upper half
            return 2 if opcode.has("WIDE", "HI") else 1
        case "c":
            return 1 if opcode.has("32") else 2
        case "s":
            return 2 if opcode.has("SF") and opcode.has("SP") else 1
        case "t" | "f":
            return _converted(opcode)["tf".index(code)]
    return fragment_registers(opcode).get(code, 1)


def _converted(opcode: Opcode) -> tuple[int, int]:
    """32-bit words of (result, source) of F2F.F64.F32, I2F.F64.S64, F2I.U64.F64.TRUNC and their kin."""
    types = [m for m in opcode.modifiers if m in ("F16", "BF16", "F32", "F64")]
    floating, integer = 2 if "F64" in types else 1, 2 if opcode.has("S64", "U64") else 1
    match opcode.mnemonic.removeprefix("U"):
        case "F2I":
            return integer, floating
        case "I2F":
            return floating, integer
        case "F2F":
            return 2 if types[:1] == ["F64"] else 1, 2 if types[1:2] == ["F64"] else 1
    return floating, floating


def destination_count(opcode: str, operands: tuple[str, ...]) -> int:
    """How many operands, from the first, are destinations: predicates, a register, predicates behind it."""
    return len(_destinations(parse_opcode(opcode), operands))


def _destinations(opcode: Opcode, operands: tuple[str, ...]) -> list[str]:
    """Of each destination, from the first operand on, its width."""
    found: list[str] = []
    for what in opcode.row.writes:
        file = parse_operand(operands[len(found)]).bare if len(found) < len(operands) else ""
        if what == "m" or (what == "p" and file in _PREDICATE_FILES):
            found.append("1")
        elif what[0] == "r":
            if file not in _REGISTER_FILES:
                break
            found.append(what[1:] or "1")
    return found


def _sources(opcode: Opcode, operands: tuple[str, ...], whole: bool = False) -> Iterator[tuple[str, int]]:
    """The source operands, and how many words the register of each has; of a fragment that is not `whole` one."""
    widths = opcode.row.reads
    for position, operand in enumerate(operands[len(_destinations(opcode, operands)) :]):
        if operand.startswith("gdesc"):
            yield operand, _DESCRIPTOR_WORDS
            continue
        width = widths[min(position, len(widths) - 1)]
        single = "[" in operand or (width in _FRAGMENTS and not whole)
        yield operand, 1 if single else _words(width, opcode)


def has_destination(mnemonic: str) -> bool:
    """Whether instructions of that name write a register at all, general, uniform or of predicates."""
    return bool(parse_opcode(mnemonic).row.writes)


@lru_cache(maxsize=65536)
def written_and_read(opcode: str, operands: tuple[str, ...], guard: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The registers that the instruction writes, and those it reads (its guard among them).

    `operands` are the comma-separated operand texts; `guard` is such as "@!P0" or "".
    """
    parsed = parse_opcode(opcode)
    results = zip(operands, _destinations(parsed, operands), strict=False)
    written = [_registers(text, _words(code, parsed)) for text, code in results]
    read = [_registers(guard.removeprefix("@")), *(_registers(*source) for source in _sources(parsed, operands, True))]
    return tuple(dict.fromkeys(chain(*written))), tuple(dict.fromkeys(chain(*read)))


@lru_cache(maxsize=65536)
def source_registers(opcode: str, operands: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """The general registers of each source operand, in the order of the operands; the first of a fragment."""
    return tuple(_general(_registers(*source)) for source in _sources(parse_opcode(opcode), operands))


def general_results(opcode: str, operands: tuple[str, ...]) -> tuple[int, ...]:
    """The general registers that it writes: no predicates, no uniform ones."""
    return _general(written_and_read(opcode, operands, "")[0])


def _general(registers: Iterable[int]) -> tuple[int, ...]:
    return tuple(register for register in registers if register < PREDICATES)


def mma_registers(opcode: str, operands: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """The registers of A, B and C of a tensor instruction; those of an RZ are none."""
    return tuple(_registers(*source) for source in _sources(parse_opcode(opcode), operands, True))[:3]


def sent_registers(opcode: str, operands: tuple[str, ...]) -> tuple[int, ...]:
    """The general registers that a memory or special-function instruction sends, in that order.

    H200, by which bank's FFMA wait for them: data before the address, of addresses the last half first; of SHFL the
    value, the mask, the lane.
    """
    slots = source_registers(opcode, operands)
    registers = list(zip(operands[len(operands) - len(slots) :], slots, strict=True))
    data = [sent for text, sent in registers if "[" not in text]
    if "reversed" in parse_opcode(opcode).row.notes:
        data[1:] = reversed(data[1:])
    address = [register for text, sent in registers if "[" in text for register in sent]
    return (*(register for sent in data for register in sent), *reversed(address))


MOST_FETCHED = 8
"""Registers that arithmetic reads at most, one that is named twice counted twice: three pairs, as code has them, and
two that are to spare. The operand collector has room for as many."""
MOST_SOURCE_WORDS = 12
"""Registers that an instruction sends at most: CAS of 128 bits has an address of two and twice four."""


def source_words(opcode: str, operands: tuple[str, ...]) -> int:
    """How many 32-lane registers a memory instruction sends to the load/store unit: address and data.

    Uniform registers and immediates travel with the instruction and cost nothing here. A data operand
    counts at its full width even when it is RZ. An instruction that sends no register still takes one slot.
    """
    general = 0
    for operand, words in _sources(parse_opcode(opcode), operands):
        if "[" in operand:
            general += len(_general(_registers(operand)))
        elif parse_operand(operand).bare == "R":
            general += words
    return max(1, general)


def indexes_constants(opcode: str, operands: tuple[str, ...]) -> bool:
    """Whether it is an LDC that has a register in its address."""
    named = (r for o in map(parse_operand, operands) if o.is_constant for r in o.brackets[1].registers)
    return parse_opcode(opcode).mnemonic == "LDC" and any(r.file == "R" and not r.is_constant for r in named)


def mistake(opcode: str, operands: tuple[str, ...]) -> tuple[str, str] | None:
    """What is wrong with the operands, and what would be right; None if nothing is."""
    operation, parsed = describe(opcode), parse_opcode(opcode)
    waits = parsed.mnemonic == "WARPGROUP" and parsed.has("DEPBAR")
    fewest = 2 if operation.warpgroup_columns else int(waits or operation.kind in (Kind.SHARED, Kind.GLOBAL))
    if operation.tensor:
        fewest = 4 + parsed.has("SP") + 2 * parsed.has("SF")  # D, A, B, C, where a sparse A has zeros, scales
    if len(operands) < fewest:
        return f"{opcode} with {len(operands)} operands", f"expected at least {fewest}"
    for operand in map(parse_operand, operands):
        if operand.mistake:
            return f"{opcode} with the operand {operand.text}", operand.mistake
    if operation.kind is Kind.FIXED and not operation.tensor:
        fetched = sum(map(len, source_registers(opcode, operands)))
        if fetched > MOST_FETCHED:
            return f"{opcode} that reads {fetched} registers", f"expected at most {MOST_FETCHED}"
    return None
