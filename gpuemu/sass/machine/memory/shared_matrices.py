"""Matrices in the shared memory of a CTA that tcgen05 instructions of sm_100 read by a descriptor."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.matrix_descriptor import decode_tcgen05, places, swizzled
from gpuemu.sass.machine.environment import ExecutionError, Fault
from gpuemu.sass.machine.lanes import WARP
from gpuemu.sass.machine.memory import clusters
from gpuemu.sass.machine.memory.storage import WRITTEN
from gpuemu.sass.machine.operands import Site

Matrix = NDArray[np.unsignedinteger[Any]]
UNIT = 16


def shared_matrix(
    site: Site, lane: int, rank: int, descriptor: int, shape: tuple[int, int], size: int, across: bool = False,
    lines: NDArray[np.int64] | None = None,
) -> Matrix:  # fmt: skip
    """Return elements [lines, k] of `size` bytes that a lane's instruction reads in the CTA with this rank.

    `across`: K runs along the rows of shared memory. `lines`: the lines of the matrix that it reads, if not all. Raises
    ExecutionError for bytes outside and for unwritten ones.
    """
    memory = site.environment.memory
    said = decode_tcgen05(descriptor)
    if said is None or (said.base_offset and said.swizzle):
        raise site.unsupported("a swizzled matrix with a base offset, or a leading offset that is an address")
    count, k = shape
    if not across and said.swizzle and (said.chunk > UNIT or k * size > said.swizzle):
        told = "in chunks of 32 bytes" if said.chunk > UNIT else f"of {said.swizzle} bytes"
        raise site.unsupported(f"a matrix with {k * size} bytes of K in a row, and a swizzle {told}")
    form = said.leading, said.stride, said.swizzle, count, k, size, across, said.lines
    chosen = places(*form) if lines is None else places(*form)[lines]
    at = swizzled(said.address + chosen, said.swizzle, said.chunk) - memory.shared_base
    outside = (at < 0) | (at + size > memory.shared_bytes)
    if outside.any():
        found = f"a matrix that reaches to byte {int(at[outside][0])} of shared memory"
        right = f"Stay within the CTA's {memory.shared_bytes} bytes of shared memory"
        raise ExecutionError(site.instruction, lane, found, right)
    shared, written = memory.shared, memory.written
    other = memory.cluster is not None and rank != memory.rank
    if other:
        assert memory.cluster is not None
        shared, written = clusters.part_of(memory.cluster.shared, rank, site)
    if other or not memory.all_written:
        _refuse_unwritten(site, lane, at, size, written[1][at] != WRITTEN)
    observer = site.environment.observer
    if observer is not None and at.size:
        read = (np.unique(at)[:, None] + np.arange(size)).reshape(-1)
        observer.block(site, lane, read, False, [rank])
        observer.operand(site, lane, at, size, said, across)
    found_elements: Matrix = shared[size][at // size]
    return found_elements


def _refuse_unwritten(site: Site, lane: int, at: NDArray[np.int64], size: int, unwritten: NDArray[np.bool_]) -> None:
    if not unwritten.any():
        return
    first = int(at[unwritten][0])
    found = f"an element at byte {first} of shared memory, which was never written by the CTA"
    error = ExecutionError(site.instruction, lane, found, "Store to it first")
    missing = (at[unwritten][:, None] + np.arange(size)).reshape(-1)
    warp = lane // WARP * WARP
    error.fault = Fault("shared", "load", size, "unwritten", first, warp + np.arange(WARP), missing)
    raise error


def unpacked(units: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Return a byte for each number of 6 or 4 bits in units of 16 bytes, [lines, bytes]; 4 bits get their position.

    Sixteen numbers are in the first 12 or 8 bytes of a unit.
    """
    lines = units.reshape(len(units), -1, UNIT)[..., : UNIT * bits // 8]
    stream = np.unpackbits(lines, axis=-1, bitorder="little").reshape(*lines.shape[:2], UNIT, bits)
    numbers = (stream << np.arange(bits, dtype=np.uint8)).sum(axis=-1, dtype=np.uint8)
    shift = np.uint8(2 if bits == 4 else 0)
    found: NDArray[np.uint8] = (numbers << shift).reshape(len(units), -1)
    return found
