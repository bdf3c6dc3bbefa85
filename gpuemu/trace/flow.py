"""The targets of branches in a kernel's code, and the registers whose values are still needed.

Sets of registers are integers with one bit per register number (`isa.registers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuemu.isa.opcodes import Kind
from gpuemu.isa.operands import parse_integer
from gpuemu.isa.registers import PREDICATES
from gpuemu.trace.model import Instruction

EVERY = (1 << 600) - 1
"""The set of all registers."""
_GENERAL = (1 << PREDICATES) - 1
_BY_NUMBER = ("BRA", "JMP")
_ELSEWHERE = ("BRX", "BRXU", "RET", "CALL", "JMX", "JMXU")


def bits(registers: Iterable[int]) -> int:
    """Return a set of registers."""
    found = 0
    for register in registers:
        found |= 1 << register
    return found


def targets(code: Sequence[Instruction]) -> list[int | None]:
    """Return the target of each branch as an index into the code; None for other instructions and unknown targets."""
    places: dict[int | None, int] = {instruction.offset: k for k, instruction in enumerate(code)}
    return [
        places.get(parse_integer(i.operands[-1])) if i.operands and i.mnemonic in _BY_NUMBER else None for i in code
    ]


def ways(code: Sequence[Instruction]) -> list[list[int]]:
    """Return the indices at which each instruction may continue; jumps by a register have none.

    A branch without a target, as in an imported trace, continues with the code after it, too.
    """
    found = []
    for k, (instruction, target) in enumerate(zip(code, targets(code), strict=True)):
        branches = instruction.mnemonic in _BY_NUMBER
        conditional = bool(instruction.guard) or (branches and len(instruction.operands) != 1)
        goes_on = conditional or "leaves" not in instruction.parsed.row.notes
        found.append([*([k + 1] if goes_on else []), *([] if target is None else [target])])
    return found


def goes_elsewhere(instruction: Instruction) -> bool:
    """Whether an instruction jumps, calls or returns by a register."""
    return instruction.mnemonic in _ELSEWHERE


def living(code: Sequence[Instruction], elsewhere: int, acting: bool = False) -> list[int]:
    """Return the registers live before each instruction, and after the last one.

    `elsewhere`: the registers that are assumed to be read after a call, a return or a jump by register. `acting`: an
    instruction that only computes a value reads nothing if that value is never read.
    """
    kills, reads, next_ = [], [], ways(code)
    makes: list[int | None] = []
    for instruction, target in zip(code, targets(code), strict=True):
        written, read = instruction.registers
        branches = instruction.mnemonic in _BY_NUMBER
        # A guarded instruction may leave its destination unchanged.
        kills.append(0 if instruction.guard else bits(written))
        unknown = goes_elsewhere(instruction) or (branches and target is None)
        reads.append(bits(read) | (elsewhere if unknown else 0))
        makes.append(bits(written) if acting and instruction.operation.kind is Kind.FIXED and written else None)
    live = [0] * (len(code) + 1)
    changed = True
    while changed:
        changed = False
        for k in reversed(range(len(code))):
            behind = 0
            for way in next_[k]:
                behind |= live[way]
            made = makes[k]
            now = (reads[k] if made is None or made & behind else 0) | (behind & ~kills[k])
            changed |= now != live[k]
            live[k] = now
    return live


def live_registers(code: Sequence[Instruction]) -> list[int]:
    """Return for each instruction the number of general registers that are live before it or written by it.

    Code that is called or jumped to by register is assumed to need no registers.
    """
    live = zip(living(code, 0), code, strict=False)
    return [((before | bits(instruction.registers[0])) & _GENERAL).bit_count() for before, instruction in live]
