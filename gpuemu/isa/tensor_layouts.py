"""Where a tcgen05.mma finds D, A and the metadata of a sparse A in tensor memory (sm_100).

A product has one of three arrangements in a CTA, by its rows, and whether it is of a pair, sparse or weight-stationary
(.ws):

    128 rows                                row r is in lane r
    64 rows; 64 of a pair if A is sparse    row r is in lane r % 16 + 32 (r / 16), or 16 lanes further
    64 of a pair, 64 and 32 of .ws          row r is in lane r; lanes in two (or four) banks have equal parts of columns

In the third arrangement, a bank multiplies its own copy of A and of the metadata, from its own lanes.

Metadata has 4 bits for each group of elements, lower groups in lower bits. Row r of f16, bf16 and tf32 has two halves
of 16 bits: half h is in the lane of row 16 (r / 16) plus 8 h + r % 8, in the upper 16 bits of a column if r % 16 is 8
or more. The selector names one of two columns. Rows of other types have 64 bits in two columns of their lane.

Source: the PTX manual (data path layout, sparsity selector), and CUTLASS's tmem_frg_ws, tmem_e_frg and tmem_e_frg_ws.
The lanes of metadata for 64 rows without .ws follow from the manual's rule that they are aligned as those of D.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]
LANES, SLAB = 128, 32
"""Lanes of tensor memory, and those that a warp reaches."""
_GROUP, _CORE = 16, 8
METADATA_COLUMNS = 2


class TensorLayout(NamedTuple):
    """The rows of a product in one CTA, the banks that share its columns, and whether 16 rows take 32 lanes."""

    rows: int
    banks: int = 1
    spread: bool = False

    def lanes(self) -> Index:
        """Return the lane of each row in each bank: [banks, rows]."""
        row = np.arange(self.rows)
        if self.spread:
            return (row % _GROUP + SLAB * (row // _GROUP))[None]
        return np.arange(self.banks)[:, None] * (LANES // self.banks) + row

    def starts_at(self, lane: int) -> bool:
        """Whether a matrix in this arrangement may start in a lane."""
        return lane in ((0, _GROUP) if self.spread else (0,))


def layout_of(m: int, ctas: int, stationary: bool, sparse: bool) -> TensorLayout:
    """Return the arrangement of a product with `m` rows in all CTAs. `stationary`: .ws."""
    rows = m // ctas
    if stationary:
        return TensorLayout(rows, LANES // rows)
    if rows == LANES:
        return TensorLayout(rows)
    return TensorLayout(rows, 2) if ctas == 2 and not sparse else TensorLayout(rows, spread=True)


@lru_cache(maxsize=64)
def result_places(layout: TensorLayout, columns: int) -> tuple[Index, Index]:
    """Return the lanes and the columns of D, each [rows, columns]."""
    each = columns // layout.banks
    column = np.arange(columns)
    lanes = layout.lanes()[column // each].T
    return lanes, np.broadcast_to(column % each, lanes.shape)


@lru_cache(maxsize=64)
def metadata_lanes(layout: TensorLayout, halves: bool) -> tuple[Index, Index]:
    """Return the lanes [banks, rows, parts] of metadata, and the first bit [rows, parts] of each part in its column.

    `halves`: two parts of 16 bits in one column; otherwise a part is a whole column.
    """
    lanes, row = layout.lanes(), np.arange(layout.rows)
    if not halves:
        whole = np.broadcast_to(lanes[..., None], (*lanes.shape, METADATA_COLUMNS))
        return whole, np.zeros((layout.rows, METADATA_COLUMNS), np.int64)
    first = lanes[:, row // _GROUP * _GROUP] + row % _CORE
    both = first[..., None] + np.arange(2) * _CORE
    return both, np.broadcast_to((row % _GROUP // _CORE * 16)[:, None], (layout.rows, 2))
