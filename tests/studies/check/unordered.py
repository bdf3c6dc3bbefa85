"""Which accesses to shared memory nothing orders, told from a trace alone: what `gpuemu check` is held against.

It shares no code with racecheck. Between two barriers every byte has the warps that wrote it and those that read it:
two warps of which one writes are a race, for warps run as they like, unless both are atomics; and so are two lanes of
one store at one byte. Lanes of a warp that touch a byte without a synchronisation between are told as well: lockstep
orders them, the program does not. It is for kernels whose warps do not part, and raises BeyondMeError for other means of order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.opcodes import Kind
from gpuemu.trace.model import Instruction, Trace, WarpTrace

MATRIX_ROW_BYTES = 16
SYNCHRONISES = ("NOP", "WARPSYNC", "BAR", "MEMBAR")
"""What orders the lanes of a warp; NOP is what a __syncwarp() leaves of itself."""


class BeyondMeError(Exception):
    """The kernel orders its warps by something else than barriers that all of them come to."""


@dataclass
class Unordered:
    """What races in a CTA: bytes that several warps touch, that lanes of one warp do, and that one store writes twice."""

    between_warps: set[int] = field(default_factory=set)
    between_lanes: set[int] = field(default_factory=set)
    in_one_store: set[int] = field(default_factory=set)
    touched: set[tuple[int, int, int, int]] = field(default_factory=set)
    """Every access: which stretch between barriers, offset of the instruction, warp, row of the trace."""


def writes(instruction: Instruction) -> bool:
    """Whether it writes shared memory."""
    return instruction.operation.store or instruction.opcode.startswith("LDGSTS")


def touches(trace: Trace, instruction: Instruction, row: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The lanes [n] of an access, and the bytes [n, size] that each touches."""
    operation = instruction.operation
    lanes, size = np.flatnonzero(trace.active[row]), operation.width_bits // 8
    if operation.matrices:
        lanes, size = lanes[lanes < 8 * operation.matrices], MATRIX_ROW_BYTES
    return lanes, trace.addresses[row][lanes][:, None] + np.arange(size)


def walk(trace: Trace, warp: WarpTrace) -> tuple[list[tuple[int, Instruction, int]], list[tuple[str, ...]]]:
    """The accesses of a warp to shared memory (stretch between barriers, instruction, row), and its barriers."""
    accesses, barriers, at = [], [], 0
    for index in warp.path.tolist():
        instruction = trace.code[index]
        kind = instruction.operation.kind
        if kind is Kind.BARRIER:
            if ".SYNC" not in instruction.opcode:
                raise BeyondMeError(instruction)
            barriers.append(instruction.operands)
        if instruction.accesses_memory:
            if instruction.opcode.startswith("SYNCS"):
                raise BeyondMeError(instruction)
            if kind is Kind.SHARED or instruction.opcode.startswith("LDGSTS"):
                accesses.append((len(barriers), instruction, int(warp.rows[at])))
            at += 1
    return accesses, barriers


def exchanged(trace: Trace, warp: WarpTrace) -> set[int]:
    """The bytes that lanes of a warp touch, one of them writing, by different accesses without a synchronisation between.

    What a matrix load reads is every lane's.
    """
    found: set[int] = set()
    size, at = trace.launch.shared_bytes, 0

    def fresh() -> tuple[NDArray[np.int64], ...]:
        return tuple(np.zeros(size, np.int64) for _ in range(4))

    wrote, changed, read, times = fresh()
    for index in warp.path.tolist():
        instruction = trace.code[index]
        if instruction.opcode.startswith(SYNCHRONISES) and times.any():
            found |= _of_lanes(wrote, changed, read, times)
            wrote, changed, read, times = fresh()
        if not instruction.accesses_memory:
            continue
        at += 1
        if instruction.operation.kind is not Kind.SHARED and not instruction.opcode.startswith("LDGSTS"):
            continue
        lanes, places = touches(trace, instruction, int(warp.rows[at - 1]))
        who = np.where(instruction.operation.matrices > 0, (1 << 32) - 1, 1 << lanes)[:, None] + 0 * places
        into = changed if instruction.operation.atomic else wrote if writes(instruction) else read
        np.bitwise_or.at(into, places, who)
        times[places] += 1  # once for a byte that several lanes touch
    return found | _of_lanes(wrote, changed, read, times)


def _of_lanes(
    wrote: NDArray[np.int64], changed: NDArray[np.int64], read: NDArray[np.int64], times: NDArray[np.int64]
) -> set[int]:
    often = np.flatnonzero(times > 1)
    wrote, changed, read = wrote[often], changed[often], read[often]
    racing = several(wrote, wrote | changed | read) | several(changed, wrote | read)
    return set(often[racing].tolist())


def several(some: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where a warp of `some` is another than one of `others`; a bit for each warp."""
    one = (some & (some - 1)) == 0
    return (some != 0) & np.where(one, (others & ~some) != 0, others != 0)


def unordered(trace: Trace) -> Unordered:
    """What races in the first CTA of a trace."""
    found = Unordered()
    accesses: dict[int, dict[tuple[int, int], int]] = {}
    sequences: set[tuple[tuple[tuple[str, ...], ...], int]] = set()
    for warp in trace.warps:
        if warp.cta != trace.warps[0].cta:
            continue
        of_warp, barriers = walk(trace, warp)
        found.between_lanes |= exchanged(trace, warp)
        sequences.add((tuple(barriers), of_warp[-1][0] if of_warp else 0))
        for stretch, instruction, row in of_warp:
            found.touched.add((stretch, instruction.offset, warp.warp, row))
            of_stretch = accesses.setdefault(stretch, {})
            key = instruction.offset, row
            of_stretch[key] = of_stretch.get(key, 0) | 1 << warp.warp
    longest = max(barriers for barriers, _ in sequences)
    for barriers, last in sequences:
        if barriers != longest[: len(barriers)] or (barriers != longest and last >= len(barriers) > 0):
            raise BeyondMeError("warps that touch shared memory come to different barriers")
    code = {instruction.offset: instruction for instruction in trace.code}
    for of_stretch in accesses.values():
        wrote, changed, read = (np.zeros(trace.launch.shared_bytes, np.int64) for _ in range(3))
        for (offset, row), warps in of_stretch.items():
            instruction = code[offset]
            places, times = np.unique(touches(trace, instruction, row)[1], return_counts=True)
            if instruction.operation.atomic:
                changed[places] |= warps
            elif writes(instruction):
                found.in_one_store.update(places[times > 1].tolist())
                wrote[places] |= warps
            else:
                read[places] |= warps
        racing = several(wrote, wrote | changed | read) | several(changed, wrote | read)
        found.between_warps.update(np.flatnonzero(racing).tolist())
    return found
