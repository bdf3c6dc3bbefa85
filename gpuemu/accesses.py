"""What each execution of a memory instruction asks of the load/store path, counted once and in bulk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuemu import banks
from gpuemu.errors import GpuemuError, Problem
from gpuemu.isa import Kind, Row

if TYPE_CHECKING:
    from gpuemu.arch import Architecture
    from gpuemu.program import Op
    from gpuemu.trace.model import Trace

GLOBAL_SEGMENT_BYTES = 128
"""The bytes of one L1 line: a global access occupies the data stage once for each line it touches."""


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """What one execution of a memory instruction asks of the load/store path.

    `data_stage_cycles` it holds the data stage (every group of lanes holds it at least once);
    `sectors` it moves from or to global memory; `return_cycles` its data takes longer to come back.
    """

    wavefronts: int
    ideal_wavefronts: int
    data_stage_cycles: int
    sectors: int = 0
    return_cycles: int = 0


SHUFFLE_ACCESS = Access(0, 0, 1)
"""A shuffle crosses the lanes in one pass of the data stage and touches no bank."""


def lower_accesses(trace: Trace, arch: Architecture, ops: Sequence[Op]) -> dict[int, dict[int, Access]]:
    """For each memory instruction the Access of each address row that it was executed with."""
    rows_of: dict[int, set[int]] = {i.index: set() for i in ops if i.kind in (Kind.SHARED, Kind.GLOBAL)}
    memory = np.zeros(len(ops), dtype=bool)
    memory[list(rows_of)] = True
    for warp in trace.warps:
        indices = warp.path[memory[warp.path]]
        if len(indices) != len(warp.rows):
            raise GpuemuError.one(
                trace.file, None, f"warp {warp.warp} of CTA {warp.cta}",
                f"{len(warp.rows)} address rows for {len(indices)} memory instructions", "one for each is right",
            )  # fmt: skip
        if len(indices):
            for index, row in np.unique(np.stack([indices, warp.rows]), axis=1).T.tolist():
                rows_of[index].add(row)
    geometry = banks.BankGeometry.of(arch)
    sector = arch.global_memory.sector_bytes
    lowered: dict[int, dict[int, Access]] = {}
    for index, row_set in rows_of.items():
        rows = sorted(row_set)
        instruction = trace.code[index]
        operation = instruction.operation
        addresses, active = trace.addresses[rows], trace.active[rows]
        if operation.kind is Kind.GLOBAL and operation.row is not Row.COPY:
            width = operation.width_bits // 8
            sectors = _distinct(addresses, active, width, sector)
            lines = _distinct(addresses, active, width, GLOBAL_SEGMENT_BYTES)
            lowered[index] = {
                row: Access(0, 0, max(1, n_lines), n_sectors)
                for row, n_sectors, n_lines in zip(rows, sectors.tolist(), lines.tolist(), strict=True)
            }
            continue
        if operation.row is Row.COPY:
            # The trace has the shared side of an asynchronous copy, whose lanes share no words (CIC); its
            # global side is taken to be contiguous.
            kind, width = banks.AccessKind.ATOMIC, operation.width_bits
        else:
            kind, width = banks.parse_op(instruction.opcode)
        try:
            counts = banks.count(geometry, kind, width, addresses, active)
        except GpuemuError as error:
            raise GpuemuError(
                Problem(trace.file, instruction.line, f"code at {instruction.offset:#06x}", p.found, p.right)
                for p in error.problems
            ) from None
        sectors = np.zeros(len(rows), dtype=np.int64)
        if operation.row is Row.COPY:
            sectors = -(-active.sum(axis=1) * (width // 8) // sector)
        returned = np.zeros(len(rows), dtype=np.int64)
        if operation.row is Row.LOAD:
            # A lane's words come in one wavefront, but a register goes back in one piece: so many more cycles.
            returned = (counts.groups - 1) * arch.shared_memory.cycles_per_further_group
        columns = (counts.wavefronts, counts.ideal, counts.data_stage_cycles, sectors, returned)
        lowered[index] = {
            row: Access(*numbers) for row, *numbers in zip(rows, *(c.tolist() for c in columns), strict=True)
        }
    return lowered


def _distinct(addresses: np.ndarray, active: np.ndarray, width_bytes: int, block_bytes: int) -> np.ndarray:
    """How many distinct blocks of `block_bytes` the active lanes of each row touch."""
    first, last = addresses // block_bytes, (addresses + width_bytes - 1) // block_bytes
    blocks = np.concatenate([np.where(active, first, -1), np.where(active, last, -1)], axis=1)
    blocks.sort(axis=1)
    new = np.diff(blocks, axis=1, prepend=-1) != 0
    distinct: np.ndarray = np.count_nonzero(new & (blocks >= 0), axis=1)
    return distinct
