"""Counts what asynchronous copies (LDGSTS) ask of the load/store path: L1's tags, the data stage, and the way to L2."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.banks import copies
from gpuemu.banks.wavefronts import BankGeometry, refuse_misaligned
from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.isa.warp import LANES
from gpuemu.program.program import UNKNOWN, WHOLE, Accesses, accesses_of
from gpuemu.trace.model import ZEROS, Instruction, Trace


def copies_of(trace: Trace, arch: Architecture, instruction: Instruction, rows: NDArray[np.int64]) -> Accesses:
    """An access for each of these rows of the trace; copies of unknown sources read without gaps from 0 on.

    Copies through L1 hold the data stage for their wavefronts, copies past it the stage that sends them on.
    """
    geometry = BankGeometry.of(arch)
    width = instruction.operation.width_bits // 8
    to, active = trace.addresses[rows], trace.active[rows]
    place = f"code at {instruction.offset:#06x}"
    try:
        refuse_misaligned(width, to, active, trace.file)
    except GpuemuError as error:
        raise GpuemuError(
            Problem(trace.file, instruction.line, place, p.found, p.right) for p in error.problems
        ) from None
    zeros = np.zeros_like(active) if trace.spaces is None else (trace.spaces[rows] == ZEROS) & active
    known = np.zeros(len(rows), dtype=np.bool_)
    source = np.broadcast_to(np.arange(LANES) * width, to.shape)
    if trace.sources is not None:
        # The low bits are not part of the address: they may give the number of bytes that are zeros.
        there = trace.sources[rows]
        known = np.asarray(((there >= 0) | ~active).all(axis=1))
        source = np.where(known[:, None], there // width * width, source)
    groups = arch.shared_memory.lanes_per_group
    lanes = groups.bits_32 if width <= 4 else groups.bits_64 if width <= 8 else groups.bits_128
    bypass = instruction.has("BYPASS")
    counts = copies.count(geometry, width, lanes, to, source, active, zeros, bypass=bypass)
    nothing = np.zeros(len(rows), dtype=np.int64)
    lines = _lines(to, source, active & ~zeros & known[:, None], geometry)
    banked = _banked(width, lanes, source, active, zeros, bypass)
    if trace.sources is not None:  # the number of bytes that are zeros is not always known
        partly = active & ~zeros & (trace.sources[rows] % width != 0)
        banked["bank_reads"] = np.where(partly.any(axis=1), UNKNOWN, banked["bank_reads"])
    return accesses_of(
        len(rows), wavefronts=counts.by_instruction, ideal_wavefronts=counts.ideal,
        data_stage_cycles=nothing if bypass else counts.wavefronts, sectors=counts.sectors,
        copy_pieces=np.maximum(1, counts.by_instruction) if bypass else nothing, ideal_sectors=counts.ideal_sectors,
        has_lanes=active.any(axis=1), counted_wavefronts=counts.wavefronts, counted_conflicts=counts.conflicts,
        conflicts=counts.conflicts_by_instruction, sectors_by_instruction=counts.sectors_by_instruction, **lines,
        **banked,
    )  # fmt: skip


def _banked(
    width: int, lanes: int, source: NDArray[np.int64], active: NDArray[np.bool_], zeros: NDArray[np.bool_], bypass: bool
) -> dict[str, NDArray[np.int64]]:
    """The words of banks: the words that copies write, and the words that they read.

    Copies through L1 read there; a group of lanes writes its zeros once. Copies past L1 read the zeros that they write
    (H100).
    """
    words = max(1, width // 4)
    writes = active.sum(axis=1) * words
    if bypass:
        return {"bank_reads": (active & zeros).sum(axis=1) * words, "bank_writes": writes}
    place = np.where(active, np.where(zeros, 0, 1 + source // width), -1).reshape(len(source), -1, lanes)
    place.sort(axis=2)
    new = (np.diff(place, axis=2, prepend=-1) != 0) & (place >= 0)
    return {"bank_reads": new.sum(axis=(1, 2)) * words, "bank_writes": writes}


def _lines(
    to: NDArray[np.int64], source: NDArray[np.int64], reads: NDArray[np.bool_], geometry: BankGeometry
) -> dict[str, NDArray[np.int64]]:
    """The lines and sectors that each copy reads, as `Accesses` has them."""
    sectors = np.where(reads, source // geometry.sector_bytes, -1)
    sectors.sort(axis=1)
    row, lane = np.nonzero((np.diff(sectors, axis=1, prepend=-1) != 0) & (sectors >= 0))
    sector = sectors[row, lane]
    line = sector * geometry.sector_bytes // geometry.line_bytes
    begins = np.ones(len(row), dtype=np.bool_)
    begins[1:] = (np.diff(row) != 0) | (np.diff(line) != 0)
    of_row, its = row[begins], line[begins]
    lanes = reads[of_row] & (source[of_row] // geometry.line_bytes == its[:, None])
    there = to[of_row] // geometry.line_bytes
    last = np.where(lanes, there, -1).max(axis=1, initial=-1)
    return {
        "first_line": np.searchsorted(of_row, np.arange(len(source) + 1)),
        "line": its,
        "in_part": (lanes & (there != last[:, None])).any(axis=1).astype(np.int64),
        "first_sector": np.append(np.flatnonzero(begins), len(row)),
        "sector": sector,
        "asked": np.full(len(sector), WHOLE),
    }
