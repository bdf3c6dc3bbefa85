"""How many 32-bit general registers hold a value that is still to be read, at each instruction of a kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuemu.trace.model import Instruction

_GENERAL = 255
"""General registers are numbered below this; uniform ones and predicates above."""
_TARGET = re.compile(r"0x([0-9a-f]+)\Z")


def live_registers(code: Sequence[Instruction]) -> list[int]:
    """Of each instruction, registers live before it or written by it.

    Follows branches whose target stands in the code; what is called or jumped to by register is taken to need nothing.
    Where no target is told, the code behind the branch is taken to follow.
    """
    index = {instruction.offset: i for i, instruction in enumerate(code)}
    reads, writes, follows = [], [], []
    for i, instruction in enumerate(code):
        written, read = instruction.registers
        reads.append(_bits(read))
        writes.append(_bits(written))
        branches = instruction.mnemonic in ("BRA", "JMP")
        target = _TARGET.search(instruction.operands[-1]) if branches and instruction.operands else None
        goes_on = "leaves" not in instruction.parsed.row.notes or bool(instruction.guard)
        goes_on |= branches and not instruction.operands  # of an imported trace, which has no guards either
        next_ones = [i + 1] if goes_on and i + 1 < len(code) else []
        if target is not None and int(target[1], 16) in index:
            next_ones.append(index[int(target[1], 16)])
        follows.append(next_ones)
    before = [0] * len(code)
    after = [0] * len(code)
    changed = True
    while changed:
        changed = False
        for i in reversed(range(len(code))):
            after[i] = 0
            for following in follows[i]:
                after[i] |= before[following]
            # A guarded instruction may leave what it would write as it was.
            kept = after[i] if code[i].guard else after[i] & ~writes[i]
            now = reads[i] | kept
            changed |= now != before[i]
            before[i] = now
    return [(b | w).bit_count() for b, w in zip(before, writes, strict=True)]


def _bits(registers: Sequence[int]) -> int:
    found = 0
    for register in registers:
        if register < _GENERAL:
            found |= 1 << register
    return found
