"""Which instructions may be looks at memory that wait for another thread, and what a loop around one waits for.

Strong loads and atomics that give back what was there always may. Of plain loads, and of those of shared memory, only
what a loop reads from one address again and again: a compiler would have taken any other such load out of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuemu.isa.opcodes import UnknownOpcodeError
from gpuemu.isa.operands import parse_operand
from gpuemu.isa.registers import written_and_read
from gpuemu.trace.flow import targets
from gpuemu.trace.model import Instruction

_LONGEST_LOOP = 48
_TEST_BEHIND = 16
"""Instructions behind a look among which its test and the branch are found."""
_OPPOSITE = {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}
_MIRRORED = {"EQ": "EQ", "NE": "NE", "LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}
_WORDS = {
    "EQ": "is", "NE": "is other than", "LT": "is below", "GE": "is at least", "GT": "is above", "LE": "is at most",
}  # fmt: skip


def looks(code: Sequence[Instruction]) -> frozenset[int]:
    """The numbers of the instructions that may be looks."""
    found = {k for k, instruction in enumerate(code) if always_looks(instruction)}
    for k, start in enumerate(targets(code)):
        if start is None or not 0 <= k - start <= _LONGEST_LOOP:
            continue
        loop = code[start : k + 1]
        plain = [n for n in range(start, k + 1) if code[n].mnemonic in ("LDG", "LD", "LDS")]
        if not plain:
            continue
        written = {register for instruction in loop for register in _registers(instruction)[0]}
        for n in plain:
            if written.isdisjoint(_registers(code[n], address_only=True)[1]):
                found.add(n)
    return frozenset(found)


def always_looks(instruction: Instruction) -> bool:
    """Whether an instruction may be a look wherever it stands."""
    match instruction.mnemonic:
        case "LDG" | "LD":
            return instruction.has("STRONG", "MMIO")
        case "ATOM" | "ATOMG" | "ATOMS":
            return "RZ" not in instruction.operands[:2]
        case "SYNCS":
            return instruction.has("PHASECHK")
        case "USETMAXREG":
            return instruction.has("TRY_ALLOC")
    return False


def _registers(instruction: Instruction, address_only: bool = False) -> tuple[tuple[int, ...], tuple[int, ...]]:
    operands = ("RZ", *instruction.operands[1:]) if address_only else instruction.operands
    try:
        written, read = written_and_read(instruction.opcode, operands, instruction.guard)
    except UnknownOpcodeError:
        return (), ()
    return tuple(written), tuple(read)


def awaited(code: Sequence[Instruction], look: int) -> tuple[str, int, int] | None:
    """What ends the loop around a look: how its value must compare, in words, and to what: instruction and operand.

    None where the code behind it is not plainly a comparison and a branch back.
    """
    value = parse_operand(code[look].operands[0]).register
    branches = targets(code)
    test: tuple[str, str, int, int] | None = None
    for k in range(look + 1, min(look + _TEST_BEHIND, len(code))):
        instruction = code[k]
        if test is None and instruction.mnemonic == "ISETP" and value is not None:
            names = [parse_operand(operand).register for operand in instruction.operands]
            compare = next((m for m in instruction.parsed.modifiers if m in _OPPOSITE), None)
            if compare is None or value not in names or instruction.operands[-1] != "PT":
                continue
            at = names.index(value)
            test = instruction.operands[0], compare if at == 2 else _MIRRORED[compare], k, 3 if at == 2 else 2
        elif test is not None and instruction.mnemonic == "BRA" and instruction.guard.lstrip("@!") == test[0]:
            start = branches[k]
            if start is None:
                return None
            # A branch back goes on waiting where its predicate is true; one ahead ends it there.
            waits = (start <= look) != instruction.guard.startswith("@!")
            return _WORDS[_OPPOSITE[test[1]] if waits else test[1]], *test[2:]
    return None
