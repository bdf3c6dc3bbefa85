"""The zero-column mask of tcgen05.mma.ws (sm_100): 64 bits that say which columns of B count as zero.

    bits 0-31   first columns that are skipped, a byte for each part of the columns
    bits 32-35  whether each part begins with zeros
    bit  39     whether there is a mask
    bits 40-47  columns in a row that are zero, less one
    bits 48-55  columns in a row that come from B, less one
    bits 56-61  the column of B that is the product's first

The columns of the product have as many equal parts as tensor memory has banks. In each, spans of zeros and of B take
turns, and the part begins so many columns later as its first byte says.

Source: the four examples of the PTX manual, and CUTLASS's MaskAndShiftB. The manual's table names both spans the other
way round.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class ColumnMask(NamedTuple):
    """Which of the product's columns are zero, and the column of B that is the first."""

    zero: NDArray[np.bool_]
    shift: int


def decode(bits: int, columns: int, parts: int) -> ColumnMask:
    """Decode a descriptor for a product of so many columns in equal parts."""
    shift, zeros, kept = bits >> 56 & 63, (bits >> 40 & 255) + 1, (bits >> 48 & 255) + 1
    found = np.zeros((parts, columns // parts), np.bool_)
    if bits >> 39 & 1:
        for part in range(parts):
            begins_with_zeros, skipped = bits >> 32 + part & 1, bits >> 8 * part & 255
            at = np.arange(columns // parts) + skipped + (0 if begins_with_zeros else zeros)
            found[part] = at % (zeros + kept) < zeros
    return ColumnMask(found.reshape(-1), shift)
