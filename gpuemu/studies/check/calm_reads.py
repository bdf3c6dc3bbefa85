"""Reads of shared memory that race with nothing, because no thread can write between the same two barriers."""

from __future__ import annotations

from collections.abc import Sequence

from gpuemu.trace.flow import goes_elsewhere, targets, ways
from gpuemu.trace.model import Instruction

_ONLY_READ = ("LDS", "LD", "LDG", "LDL")
_OTHER_MEMORY = ("STG", "STL", "RED", "ATOMG")


def calm_reads(code: Sequence[Instruction]) -> frozenset[int]:
    """Return the numbers of such LDS instructions, if all threads of a CTA meet at barrier 0, each time at one place.

    Between two of these barriers, threads execute only what they can reach from the first one without another.
    """
    jumps = [target for i, target in zip(code, targets(code), strict=True) if i.mnemonic in ("BRA", "JMP")]
    if None in jumps or any(goes_elsewhere(i) or i.has("COLLECTIVE") for i in code):
        return frozenset()
    next_ = ways(code)
    barriers = {k for k, i in enumerate(code) if _is_for_all(i)}
    calm, restless = set[int](), set[int]()
    for starts in ([0], *(next_[k] for k in barriers)):
        reached = _reached(starts, next_, barriers)
        reads = {k for k in reached if code[k].mnemonic == "LDS"}
        (restless if any(_writes(code[k]) for k in reached) else calm).update(reads)
    return frozenset(calm - restless)


def _reached(starts: Sequence[int], next_: Sequence[Sequence[int]], barriers: set[int]) -> set[int]:
    """Return what a thread may execute from these instructions on, until it reaches a barrier."""
    found, left = set[int](), list(starts)
    while left:
        k = left.pop()
        if k < len(next_) and k not in found:
            found.add(k)
            left += () if k in barriers else next_[k]
    return found


def _is_for_all(instruction: Instruction) -> bool:
    """Whether an instruction is barrier 0 for all threads of the CTA, in each lane that reaches it."""
    return (
        instruction.mnemonic == "BAR" and instruction.has("SYNC") and not instruction.guard
        and tuple(instruction.operands) in ((), ("0x0",))
    )  # fmt: skip


def _writes(instruction: Instruction) -> bool:
    """Whether an instruction may write shared memory."""
    return instruction.accesses_memory and instruction.mnemonic not in (*_ONLY_READ, *_OTHER_MEMORY)
