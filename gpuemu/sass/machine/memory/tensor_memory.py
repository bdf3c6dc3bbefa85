"""Tensor memory of sm_100: 128 lanes of 512 columns of 32 bits for each CTA, which code allocates by columns.

An address has the lane in its upper 16 bits and the column in its lower 16. The lane counts modulo 128: public products
of pairs that have right values on a B200 name lanes 128 to 255 in the second CTA. The allocator is a word with a bit
for each 32 columns. `tcgen05.alloc` finds free bits in a row and sets them; `tcgen05.dealloc` clears them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.operands import Site

LANES, COLUMNS, UNIT_COLUMNS = 128, 512, 32
UNITS = COLUMNS // UNIT_COLUMNS
_COLUMN_BITS = 16
_SLAB = 32
SHIFTED_COLUMNS = 8
"""Columns of 32 bits that a shift of rows moves."""
ROWS_OF_CELL = 16
CELLS = LANES // ROWS_OF_CELL * COLUMNS
"""Observers learn of cells: 16 lanes of a column, which instructions access together."""


class TensorMemory:
    """The tensor memory of a CTA: its `cells` [lane, column], and a bit of `taken` for each 32 columns in use."""

    def __init__(self) -> None:
        self.cells: NDArray[np.uint32] = np.zeros((LANES, COLUMNS), np.uint32)
        self.taken = 0

    def places(self, site: Site, lane: int, address: int, columns: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
        """Return the first lane of an address, and its column plus `columns`.

        `lane` of the CTA executes the instruction. Raises ExecutionError for columns that nobody has allocated.
        """
        first = address & ((1 << _COLUMN_BITS) - 1)
        found: NDArray[np.int64] = first + columns
        low, high = int(found.min()), int(found.max())
        units = range(low // UNIT_COLUMNS, high // UNIT_COLUMNS + 1)
        if high >= COLUMNS or not all(self.taken >> unit & 1 for unit in units):
            error = ExecutionError(
                site.instruction, lane, f"columns {low} to {high} of tensor memory, which are not allocated",
                "Allocate them first (tcgen05.alloc), and use them before tcgen05.dealloc",
            )  # fmt: skip
            error.title = "Invalid tensor memory access"
            raise error
        return (address >> _COLUMN_BITS) % LANES, found


def find_and_set(memories: Sequence[TensorMemory], units: int, aligned: bool) -> int | None:
    """Take the first units in a row that are free in all of these; return the first one's number, or None."""
    mask = (1 << units) - 1
    for first in range(0, UNITS - units + 1, units if aligned and units else 1):
        if not any(memory.taken >> first & mask for memory in memories):
            for memory in memories:
                memory.taken |= mask << first
            return first
    return None


def tell(
    site: Site, lane: int, rank: int | None, access: str, lanes: NDArray[np.int64], columns: NDArray[np.int64]
) -> None:
    """Tell the observer that a lane's instruction accesses cells: "load", "store", "alloc" or "free".

    `rank`: the CTA whose tensor memory it is, or None for the executing one.
    """
    environment = site.environment
    if environment.observer is None:
        return
    cells = np.unique(lanes // ROWS_OF_CELL * COLUMNS + columns)
    environment.observer.tensor(site, lane, environment.memory.rank if rank is None else rank, cells, access)


def tell_units(site: Site, lane: int, rank: int | None, access: str, units: int) -> None:
    """Tell the observer of allocated or freed columns, of which `units` has a bit for each 32."""
    columns = np.array([n for n in range(COLUMNS) if units >> n // UNIT_COLUMNS & 1], np.int64)
    tell(site, lane, rank, access, np.arange(0, LANES, ROWS_OF_CELL)[:, None], columns)


def tensor_memory_of(site: Site, rank: int | None = None) -> TensorMemory:
    """Return the tensor memory of the executing CTA, or of the CTA with this rank in its cluster."""
    memory = site.environment.memory
    kept: dict[int, TensorMemory] = memory.tensor if memory.cluster is None else memory.cluster.tensor
    return kept.setdefault(memory.rank if rank is None else rank, TensorMemory())


def shift_down(site: Site, lane: int, rank: int, address: int, rows: int) -> None:
    """Move 32 bytes of each of so many rows one row down, in lanes from an address on.

    Row r gets row r + 1. The last of each 32 lanes stays.
    """
    tensor = tensor_memory_of(site, rank)
    first, columns = tensor.places(site, lane, address, np.arange(SHIFTED_COLUMNS))
    row = np.arange(rows)
    lanes = (first + row[row % _SLAB != _SLAB - 1])[:, None]
    tell(site, lane, rank, "load", lanes + 1, columns)
    tell(site, lane, rank, "store", lanes, columns)
    tensor.cells[lanes, columns] = tensor.cells[lanes + 1, columns]
