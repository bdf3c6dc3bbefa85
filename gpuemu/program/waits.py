"""Reads the numbers of instructions that wait: BAR, DEPBAR, WARPGROUP.DEPBAR and NANOSLEEP.

The engine counts and indexes with these numbers, so this module refuses numbers that no instruction has room for.
"""

from __future__ import annotations

import re
from typing import Any

from gpuemu.isa.opcodes import CLUSTER_BARRIER
from gpuemu.isa.operands import parse_integer, parse_operand
from gpuemu.trace.model import COUNTERS, Instruction

MOST_THREADS, MOST_KEPT, MOST_NANOSECONDS = 0xFFF, 63, (1 << 32) - 1
"""Most threads of a BAR, most results or groups that a wait leaves unfinished, and longest NANOSLEEP."""


class UnreadableBarrierError(ValueError):
    """A barrier's number or thread count is in a register; the text says which."""


def barrier(instruction: Instruction) -> dict[str, Any]:
    """The fields of a barrier: BAR.SYNC 0x1, 0x40 is barrier 1 for 64 threads.

    UCGABAR_WAIT uses the cluster's barrier, whose number follows those of the CTA.
    """
    found: dict[str, Any] = {"arrives_only": instruction.has("ARV")}
    if instruction.opcode == "UCGABAR_WAIT":
        return {**found, "barrier_id": CLUSTER_BARRIER}
    threads = 0
    for name, operand in zip(("barrier_id", "threads"), instruction.operands, strict=False):
        register, number = parse_operand(operand).register, parse_integer(operand)
        if register is not None and not register.is_predicate:
            raise UnreadableBarrierError("its barrier" if name == "barrier_id" else "its thread count")
        if number is not None and name == "threads":
            threads = number
        elif number is not None:
            found[name] = number
    if not 0 <= threads <= MOST_THREADS:
        raise ValueError(f"{instruction} waits for more threads than it has room to say")
    if not 0 <= found.get("barrier_id", 0) < CLUSTER_BARRIER:
        raise ValueError(f"{instruction} names a barrier that there is not")
    return {**found, "barrier_warps": -(-threads // 32)}


def counter_wait(instruction: Instruction) -> tuple[tuple[int, ...], int]:
    """The counters of a wait, and the value that the last of them may keep.

    DEPBAR.LE SB0, 0x1 waits until counter 0 is at most 1, `DEPBAR {4,3}` until these counters are 0.
    """
    named, _, braced = ",".join(instruction.operands).partition("{")
    waits = tuple(int(counter) for counter in re.findall(r"\d", braced))
    counter, _, keep = named.partition(",")
    if counter.startswith("SB"):
        waits = (*waits, int(counter[2:]))
    if any(number >= COUNTERS for number in waits):
        raise ValueError(f"{instruction} names a counter that there is not")
    return waits, number_in(instruction, keep.strip(","), MOST_KEPT) if counter.startswith("SB") else 0


def awaited(mask: int, counters: tuple[int, ...], keep: int) -> dict[str, int]:
    """The fields of an Op that waits for `counters` besides those of `mask`; the last of them may `keep` results."""
    for counter in counters[:-1] if keep else counters:
        mask |= 1 << counter
    if not keep:
        return {"wait_mask": mask, "awaits": mask.bit_count()}
    return {"wait_mask": mask, "awaits": mask.bit_count() + 1, "keep": keep, "keep_counter": counters[-1]}


def number_in(instruction: Instruction, text: str, most: int) -> int:
    """An operand's number, or 0 if it is none. Raises ValueError for one that the instruction has no room for."""
    number = parse_integer(text) or 0
    if not 0 <= number <= most:
        raise ValueError(f"{instruction} has no room for such a number")
    return number
