"""What each execution of a memory instruction asks of the load/store path, counted once and in bulk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.banks import wavefronts as banks
from gpuemu.banks.operations import AccessKind, parse_op
from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.isa.opcodes import Kind, Operation, Row
from gpuemu.isa.warp import LANES
from gpuemu.program.generic import IN_GLOBAL, IN_LOCAL, IN_SHARED, Variant, as_shared
from gpuemu.program.program import Access
from gpuemu.trace.model import LOCAL, SHARED, ZEROS, Instruction, Trace

_LOCAL_LINES = 1 << 52
"""Where local memory is put behind global memory for an access to both."""


def lower_accesses(
    trace: Trace,
    arch: Architecture,
    variants: Sequence[Variant],
    executed: NDArray[np.int64],
    rows_of: NDArray[np.int64],
) -> tuple[list[Access], NDArray[np.int64]]:
    """The distinct accesses, and for each execution of a memory instruction the number of its own.

    `executed` are numbers in `variants`, `rows_of` the address rows that they were executed with, [executions].
    """
    many = max(1, len(trace.addresses))
    keys, numbers = np.unique(executed * many + rows_of, return_inverse=True)
    made: list[Access] = []
    for index in np.unique(keys // many).tolist():
        rows = (keys[keys // many == index] % many).tolist()
        variant = variants[index]
        addresses, active = trace.addresses[rows], trace.active[rows]
        if variant.spaces == IN_GLOBAL or variant.spaces == IN_SHARED:
            generic = variant.spaces == IN_SHARED
            zeros = np.zeros_like(active) if trace.spaces is None else trace.spaces[rows] == ZEROS
            made += _accesses_of(trace.file, arch, variant.instruction, addresses, active, zeros, generic=generic)
        else:
            assert trace.spaces is not None
            made += _generic_accesses(trace.file, arch, variant, addresses, active, trace.spaces[rows])
    return made, numbers


def _generic_accesses(
    file: str,
    arch: Architecture,
    variant: Variant,
    addresses: NDArray[np.int64],
    active: NDArray[np.bool_],
    spaces: NDArray[np.uint8],
) -> list[Access]:
    """What lanes ask that mean local memory, or several memories: those of shared memory, then the others."""
    operation = variant.instruction.operation
    in_local = active & (spaces == LOCAL)
    if variant.spaces == IN_LOCAL:
        return _global_accesses(variant.instruction, replace(operation, local=True), addresses, active, arch)
    addresses = np.where(
        in_local, _LOCAL_LINES + _interleaved(addresses, arch.global_memory.local_word_bytes), addresses
    )
    in_shared = active & (spaces == SHARED)
    beyond = _global_accesses(variant.instruction, operation, addresses, active & ~in_shared, arch)
    if not variant.is_mixed:
        return beyond
    shared = _accesses_of(file, arch, as_shared(variant.instruction), addresses, in_shared, generic=True)
    return [
        replace(
            there,
            has_lanes=True,
            wavefronts=here.wavefronts,
            ideal_wavefronts=here.ideal_wavefronts,
            data_stage_cycles=here.data_stage_cycles + there.data_stage_cycles,
            return_cycles=here.return_cycles + there.return_cycles,
            unmerged_wavefronts=here.unmerged_wavefronts,
        )
        for here, there in zip(shared, beyond, strict=True)
    ]


def _accesses_of(
    file: str,
    arch: Architecture,
    instruction: Instruction,
    addresses: NDArray[np.int64],
    active: NDArray[np.bool_],
    zeros: NDArray[np.bool_],
    *,
    generic: bool,
) -> list[Access]:
    """What one instruction asks with each of these rows of addresses; `generic`: it stands for one by generic ones.

    `zeros` [rows, 32]: lanes of a copy that read nothing.
    """
    geometry = banks.BankGeometry.of(arch)
    sector = arch.global_memory.sector_bytes
    operation = instruction.operation
    if operation.kind is Kind.GLOBAL and operation.row is not Row.COPY:
        return _global_accesses(instruction, operation, addresses, active, arch)
    if operation.row is Row.COPY:
        # The trace has the shared side of an asynchronous copy; its global side is taken to be contiguous, and to
        # begin with a line.
        kind, width = AccessKind.COPY, operation.width_bits
    else:
        kind, width = parse_op(instruction.opcode)
    unmerged = np.zeros(len(addresses), dtype=np.int64)
    try:
        counts = banks.count(geometry, kind, width, addresses, active)
        if generic and kind is AccessKind.LOAD:
            merged = counts.wavefronts
            counts = banks.count(geometry, AccessKind.GENERIC_LOAD, width, addresses, active)
            unmerged = counts.wavefronts - merged
    except GpuemuError as error:
        raise GpuemuError(
            Problem(file, instruction.line, f"code at {instruction.offset:#06x}", p.found, p.right)
            for p in error.problems
        ) from None
    sectors = np.zeros(len(addresses), dtype=np.int64)
    if operation.row is Row.COPY:
        sectors = -(-(active & ~zeros).sum(axis=1) * (width // 8) // sector)
    returned = np.zeros(len(addresses), dtype=np.int64)
    if operation.row is Row.LOAD:
        # A lane's words come in one wavefront, but a register goes back in one piece: so many more cycles.
        returned = (counts.groups - 1) * arch.shared_memory.cycles_per_further_group
    held, pieces = counts.data_stage_cycles, np.zeros(len(addresses), dtype=np.int64)
    if operation.row is Row.COPY and "BYPASS" in instruction.opcode.split("."):
        held, pieces = pieces, _copy_pieces(addresses, active, width // 8, arch)
    columns = (counts.wavefronts, counts.ideal, held, sectors, returned, pieces, active.any(axis=1), unmerged)
    return [
        Access(
            wavefronts, ideal, cycles, moved, back, copy_pieces=piece, ideal_sectors=moved, has_lanes=lanes,
            unmerged_wavefronts=more,
        )
        for wavefronts, ideal, cycles, moved, back, piece, lanes, more in zip(
            *(c.tolist() for c in columns), strict=True
        )
    ]  # fmt: skip


def _global_accesses(
    instruction: Instruction,
    operation: Operation,
    addresses: NDArray[np.int64],
    active: NDArray[np.bool_],
    arch: Architecture,
) -> list[Access]:
    """An Access for each row. The lanes go through in the groups of a shared access of that width, and each group
    holds the data stage once for every L1 line that it touches. An atomic by generic addresses has a wavefront of
    shared memory even where no lane means that (H200, counted)."""
    memory, groups_of = arch.global_memory, arch.shared_memory.lanes_per_group
    width = operation.width_bits // 8
    ends = [addresses, addresses + (width - 1)]
    if operation.local:
        ends = [_interleaved(addresses + n, memory.local_word_bytes) for n in range(0, width, memory.local_word_bytes)]
    lanes = groups_of.bits_32 if width <= 4 else groups_of.bits_64 if width <= 8 else groups_of.bits_128
    passes = np.zeros(len(addresses), dtype=np.int64)
    for first in range(0, LANES, lanes):
        part = slice(first, first + lanes)
        touched = _blocks([end[:, part] for end in ends], active[:, part], memory.l1.line_bytes)
        passes += np.maximum(1, _distinct(touched))
    returns = not operation.store
    returned = (LANES // lanes - 1) * arch.shared_memory.cycles_per_further_group if returns else 0
    sectors = _blocks(ends, active, memory.sector_bytes)
    sectors_per_line = memory.l1.line_bytes // memory.sector_bytes
    masks = (
        _written_in_part(ends[0], active, width, arch)
        if operation.store and not operation.local
        else [frozenset[int]()] * len(addresses)
    )
    least = -(-active.sum(axis=1) * width // memory.sector_bytes)
    made = []
    has_lanes: NDArray[np.bool_] = np.any(active, axis=1)
    in_vain = has_lanes & np.bool_(operation.atomic and instruction.takes_generic_addresses)
    for row, held, partly, fewest, lanes, vain in zip(
        sectors.tolist(), passes.tolist(), masks, least.tolist(), has_lanes.tolist(), in_vain.tolist(),
        strict=True,
    ):  # fmt: skip
        distinct = sorted({sector for sector in row if sector >= 0})
        lines: dict[int, list[int]] = {}
        for sector in distinct:
            lines.setdefault(sector // sectors_per_line, []).append(sector)
        held_lines = tuple((line, tuple(inside)) for line, inside in lines.items())
        made.append(
            Access(
                int(vain), int(vain), held, len(distinct), returned, held_lines,
                written_in_part=partly, ideal_sectors=min(fewest, len(distinct)), has_lanes=lanes,
            )
        )  # fmt: skip
    return made


def _written_in_part(
    addresses: NDArray[np.int64], active: NDArray[np.bool_], width_bytes: int, arch: Architecture
) -> list[frozenset[int]]:
    """Of stores to these addresses [rows, 32] the lines that have sectors of which not all bytes are written."""
    sector_bytes, line_bytes = arch.global_memory.sector_bytes, arch.global_memory.l1.line_bytes
    found = []
    for row, lanes in zip(addresses, active, strict=True):
        written = np.unique(row[lanes][:, None] + np.arange(width_bytes))
        sectors, bytes_of = np.unique(written // sector_bytes, return_counts=True)
        partial = sectors[bytes_of < sector_bytes]
        found.append(frozenset((partial * sector_bytes // line_bytes).tolist()))
    return found


def _copy_pieces(
    addresses: NDArray[np.int64], active: NDArray[np.bool_], width_bytes: int, arch: Architecture
) -> NDArray[np.int64]:
    """In how many pieces copies to these shared addresses [rows, 32] are sent on, [rows].

    Sectors of one line of global memory that go into one line of shared memory, turned by the same number of sectors,
    are a piece. A sector whose lanes go to different sectors counts lane by lane: its first lanes are in other pieces
    than its second ones. (H200, copies of 128 bits by 8 warps: one every 4 cycles if rows of 128 bytes stay whole,
    every 10 if they lie 144 bytes apart, 15 if rows of 64 bytes lie 80 apart, and 32 if lanes lie 32, 64 or 128 apart.)
    """
    sector_bytes, line_bytes = arch.global_memory.sector_bytes, arch.global_memory.l1.line_bytes
    lane = np.arange(LANES)
    own = lane * width_bytes // sector_bytes
    goes_to = addresses // sector_bytes
    turn = (goes_to - own) % (line_bytes // sector_bytes)
    lanes = max(1, sector_bytes // width_bytes)
    by_sector = goes_to.reshape(-1, LANES // lanes, lanes)
    there = active.reshape(by_sector.shape)
    first = np.where(there, by_sector, np.iinfo(np.int64).max).min(axis=2, keepdims=True)
    split = (there & (by_sector != first)).any(axis=2).repeat(lanes, axis=1)
    where = (addresses // line_bytes * LANES + turn) * LANES + np.where(split, 1 + lane % lanes, 0)
    pieces = np.zeros(len(addresses), dtype=np.int64)
    together = max(1, line_bytes // width_bytes)
    for start in range(0, LANES, together):
        part = slice(start, start + together)
        pieces += _distinct(np.sort(np.where(active, where, -1)[:, part], axis=1))
    return np.maximum(1, pieces)


def _interleaved(addresses: NDArray[np.int64], word_bytes: int) -> NDArray[np.int64]:
    """Where the words of a warp's lanes lie that have these addresses in local memory: those of one offset together."""
    words = addresses // word_bytes * LANES + np.arange(LANES)
    return words * word_bytes + addresses % word_bytes


def _blocks(addresses: list[NDArray[np.int64]], active: NDArray[np.bool_], block_bytes: int) -> NDArray[np.int64]:
    """The blocks of `block_bytes` that the active lanes of each row touch, in ascending order; -1 for none."""
    blocks = np.concatenate([np.where(active, a // block_bytes, -1) for a in addresses], axis=1)
    blocks.sort(axis=1)
    return blocks


def _distinct(blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many distinct blocks stand in each row."""
    new = np.diff(blocks, axis=1, prepend=-1) != 0
    distinct: NDArray[np.int64] = np.count_nonzero(new & (blocks >= 0), axis=1)
    return distinct
