"""What instructions that wait say in numbers: BAR, DEPBAR, WARPGROUP.DEPBAR and NANOSLEEP.

The engines count by them and index with them, so numbers that no instruction has room for end here.
"""

from __future__ import annotations

import re
from typing import Any

from gpuemu.isa.opcodes import CLUSTER_BARRIER
from gpuemu.isa.operands import parse_integer, parse_operand
from gpuemu.trace.model import COUNTERS, Instruction

MOST_THREADS, MOST_KEPT, MOST_NANOSECONDS = 0xFFF, 63, (1 << 32) - 1
"""Threads of a BAR, results or groups that a wait leaves undone, and what a NANOSLEEP asks for."""


class UnreadableBarrierError(ValueError):
    """Which number of a barrier is in a register."""


def barrier(instruction: Instruction) -> dict[str, Any]:
    """BAR.SYNC 0x1, 0x40: barrier 1, for 64 threads. UCGABAR_WAIT: that of the cluster, one more than CTAs have."""
    found: dict[str, Any] = {"arrives_only": instruction.has("ARV")}
    if instruction.opcode == "UCGABAR_WAIT":
        return {**found, "barrier_id": CLUSTER_BARRIER}
    for name, operand in zip(("barrier_id", "threads"), instruction.operands, strict=False):
        register, number = parse_operand(operand).register, parse_integer(operand)
        if register is not None and not register.is_predicate:
            raise UnreadableBarrierError("its barrier" if name == "barrier_id" else "its thread count")
        if number is not None:
            found[name] = number
    if not 0 <= found.get("threads", 0) <= MOST_THREADS:
        raise ValueError(f"{instruction} waits for more threads than it has room to say")
    if not 0 <= found.get("barrier_id", 0) < CLUSTER_BARRIER:
        raise ValueError(f"{instruction} names a barrier that there is not")
    return found


def counter_wait(instruction: Instruction) -> tuple[tuple[int, ...], int]:
    """Counters and the value that the last may keep.

    DEPBAR.LE SB0, 0x1 waits until counter 0 is at most 1, `DEPBAR {4,3}` until these are 0.
    """
    named, _, braced = ",".join(instruction.operands).partition("{")
    waits = tuple(int(counter) for counter in re.findall(r"\d", braced))
    counter, _, keep = named.partition(",")
    if counter.startswith("SB"):
        waits = (*waits, int(counter[2:]))
    if any(number >= COUNTERS for number in waits):
        raise ValueError(f"{instruction} names a counter that there is not")
    return waits, number_in(instruction, keep.strip(","), MOST_KEPT) if counter.startswith("SB") else 0


def each_once(counters: tuple[int, ...], keep: int) -> tuple[int, ...]:
    """Counters to wait for: a mask has room for each once. The last stays the last where it may `keep` results."""
    head = dict.fromkeys(counters[:-1] if keep else counters)
    return (*head, *counters[-1:]) if keep else tuple(head)


def number_in(instruction: Instruction, text: str, most: int) -> int:
    """An operand's number, 0 where it is none. Raises ValueError for one that the instruction has no room for."""
    number = parse_integer(text) or 0
    if not 0 <= number <= most:
        raise ValueError(f"{instruction} has no room for such a number")
    return number
