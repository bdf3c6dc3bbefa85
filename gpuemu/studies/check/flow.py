"""What becomes of a value that a load brings, told from the code: who uses it, a compare-and-swap, a loop that waits.

Compilers let all lanes load what a few of them use; a load that goes nowhere in a lane is idle there, and no read of the
program. `later_uses` names the instructions that tell: a lane has read once it executes one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuemu.isa.opcodes import Kind, UnknownOpcodeError
from gpuemu.isa.registers import written_and_read
from gpuemu.trace.model import Instruction

_LOADS = ("LDS", "LDG", "LD")
_GENERAL = 255
"""Registers from here on hold predicates, or belong to a warp."""
_FURTHEST = 64
"""Instructions among which a value is followed."""
_MOST_BRANCHES = 6
_LONGEST_POLL = 24
"""Instructions of a loop that does nothing but wait, and before it those among which its first look is found."""
_ORDERS = ("WARPSYNC", "BSYNC", "MEMBAR", "SYNCS", "ARRIVES", "DEPBAR", "CALL", "RET", "BRX", "JMX", "JMP", "BREAK")
_WAITING = ("LDS", "LD", "BRA", "NANOSLEEP", "YIELD", "WARPSYNC", "BSYNC", "BSSY", "NOP", "MEMBAR", "ERRBAR", "CCTL")


def later_uses(code: Sequence[Instruction]) -> dict[int, frozenset[int]]:
    """Loads that lanes execute which do not use what they bring, and the instructions that use it, by offsets."""
    places = {instruction.offset: k for k, instruction in enumerate(code)}
    found = {}
    for k, load in enumerate(code):
        if _mnemonic(load) in _LOADS:
            uses = _uses(code, places, k)
            if uses:
                found[load.offset] = frozenset(uses)
    return found


def _uses(code: Sequence[Instruction], places: dict[int, int], load: int) -> set[int] | None:
    """Who uses a load's value in some lanes only; None if all lanes may, or it cannot be told."""
    first = code[load]
    uses: set[int] = set()
    ways = [(load + 1, frozenset(_written(first)), False)]
    branches = 0
    while ways:
        at, live, parted = ways.pop()
        for step in range(_FURTHEST + 1):
            if not live:
                break
            if step == _FURTHEST or at >= len(code):
                return None
            instruction = code[at]
            written, read = written_and_read(instruction.opcode, instruction.operands, instruction.guard)
            kind, mnemonic = _kind(instruction), _mnemonic(instruction)
            if kind is None or kind is Kind.BARRIER or mnemonic in _ORDERS:
                return None
            used = not live.isdisjoint(read)
            if used and (instruction.guard or parted) and (instruction.guard or not _passes_on(kind, written)):
                uses.add(instruction.offset)
            elif used and not _passes_on(kind, written):
                return None
            elif used:
                live |= set(written)
            if not used and not instruction.guard:
                live -= set(written)
            if kind is Kind.EXIT and not instruction.guard:
                break
            if kind is Kind.EXIT:
                parted = True
            if mnemonic == "BRA":
                target = _target(instruction, places)
                branches += 1
                if target is None or target <= at or branches > _MOST_BRANCHES:
                    return None
                if not instruction.guard:
                    at = target
                    continue
                ways.append((target, live, True))
                parted = True
            at += 1
    return uses


def guesses(code: Sequence[Instruction]) -> set[int]:
    """The loads whose value a compare-and-swap compares with, which tells whether it still holds: as good as atomic."""
    found = set()
    for k, swap in enumerate(code):
        if not swap.opcode.startswith("ATOM") or ".CAS" not in swap.opcode:
            continue
        address = next((i for i, text in enumerate(swap.operands) if "[" in text), len(swap.operands))
        wanted = set(written_and_read("MOV", ("RZ", *swap.operands[address + 1 : address + 2]), "")[1])
        for instruction in reversed(code[max(0, k - _FURTHEST) : k]):
            written, read = written_and_read(instruction.opcode, instruction.operands, "")
            if wanted.isdisjoint(written):
                continue
            if _mnemonic(instruction) in _LOADS:
                found.add(instruction.offset)
            if instruction.opcode.split(".")[0] != "MOV" and not instruction.opcode.startswith("IMAD.MOV"):
                break
            wanted = wanted - set(written) | set(read)
    return found


def polls(code: Sequence[Instruction]) -> set[int]:
    """The loads of shared memory that wait for another thread: of one place, in a loop that does nothing else.

    In machine code a volatile variable in shared memory looks like any other; but a compiler would take the load of any
    other out of a loop that neither changes the address nor stores. Whether the loop goes on has to hang on the value:
    one that counts its rounds waits for nobody. A first look before the loop is of its kind.
    """
    found = set()
    places = {instruction.offset: k for k, instruction in enumerate(code)}
    for k, branch in enumerate(code):
        start = _target(branch, places) if _mnemonic(branch) == "BRA" else None
        if start is None or start >= k or k + 1 - start > _LONGEST_POLL:
            continue
        loop = code[start : k + 1]
        if not all(map(_only_waits, loop)):
            continue
        written = {r for i in loop for r in _written(i)}
        deciding = _deciding(loop)
        for load in (i for i in loop if _mnemonic(i) == "LDS"):
            address = written_and_read("LDS", ("RZ", *load.operands[1:]), "")[1]
            if written.isdisjoint(address) and not deciding.isdisjoint(_written(load)):
                before = code[max(0, start - _LONGEST_POLL) : start]
                found |= {
                    i.offset for i in (load, *before) if (i.opcode, i.operands[1:]) == (load.opcode, load.operands[1:])
                }
    return found


def _deciding(loop: Sequence[Instruction]) -> set[int]:
    """The registers on which it hangs whether a loop goes on."""
    found = {
        r for i in loop if _mnemonic(i) == "BRA" for r in written_and_read(i.opcode, i.operands, i.guard)[1]
    }  # fmt: skip
    before = -1
    while before != len(found):
        before = len(found)
        for instruction in reversed(loop):
            written, read = written_and_read(instruction.opcode, instruction.operands, instruction.guard)
            if not found.isdisjoint(written) and _mnemonic(instruction) != "LDS":
                found |= set(read)
    return found


def _only_waits(instruction: Instruction) -> bool:
    return _kind(instruction) is Kind.FIXED or _mnemonic(instruction) in _WAITING


def _passes_on(kind: Kind, written: Iterator[int] | tuple[int, ...]) -> bool:
    """Whether an instruction does nothing but make another value of it, in each lane by itself."""
    return kind is Kind.FIXED and all(register < _GENERAL for register in written)


def _mnemonic(instruction: Instruction) -> str:
    return instruction.opcode.partition(".")[0]


def _written(instruction: Instruction) -> tuple[int, ...]:
    return written_and_read(instruction.opcode, instruction.operands, instruction.guard)[0]


def _kind(instruction: Instruction) -> Kind | None:
    try:
        return instruction.operation.kind
    except UnknownOpcodeError:
        return None


def _target(branch: Instruction, places: dict[int, int]) -> int | None:
    """Where a branch goes, as a place in the code; None where it does not say."""
    target = branch.operands[-1] if branch.operands else ""
    return places.get(int(target, 16)) if target.startswith("0x") else None
