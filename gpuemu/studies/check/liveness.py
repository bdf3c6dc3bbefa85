"""Which registers hold a value that is still to be read, before each instruction of a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from gpuemu.trace.model import Instruction

ALL = (1 << 600) - 1
"""Every register, as bits."""
_ELSEWHERE = ("BRX", "BRXU", "RET", "CALL", "JMX", "JMXU", "JMP")


def bits(registers: Sequence[int]) -> int:
    """Registers as bits."""
    found = 0
    for register in registers:
        found |= 1 << register
    return found


def targets(code: Sequence[Instruction]) -> list[int | None]:
    """Where each branch goes, as a place in the code; None for what is none, or does not say."""
    places = {instruction.offset: k for k, instruction in enumerate(code)}
    found: list[int | None] = []
    for instruction in code:
        named = instruction.operands[-1] if instruction.operands and instruction.mnemonic == "BRA" else ""
        found.append(places.get(int(named, 16)) if named.startswith("0x") else None)
    return found


def living(code: Sequence[Instruction], branches: Sequence[int | None]) -> list[int]:
    """The registers that are read from each instruction on before they are written, as bits; and behind the last."""
    kills, reads, ways = [], [], []
    for k, instruction in enumerate(code):
        written, read = instruction.registers
        mnemonic = instruction.mnemonic
        conditional = bool(instruction.guard) or (mnemonic == "BRA" and len(instruction.operands) > 1)
        kills.append(0 if instruction.guard else bits(written))
        reads.append(bits(read))
        on = () if mnemonic in ("BRA", "EXIT") and not conditional else (k + 1,)
        if mnemonic in _ELSEWHERE or (mnemonic == "BRA" and branches[k] is None):
            reads[-1] = ALL
        ways.append((*on, *(() if branches[k] is None else (branches[k],))))
    live = [0] * (len(code) + 1)
    changed = True
    while changed:
        changed = False
        for k in range(len(code) - 1, -1, -1):
            behind = 0
            for way in ways[k]:
                behind |= live[way]
            now = reads[k] | (behind & ~kills[k])
            if now != live[k]:
                live[k] = now
                changed = True
    return live
