"""Which rows of B the elements of a sparse A belong to: of each four along a row of A, metadata name two."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.isa.fragments import Index, Registers


def sparse_rows(metadata: Registers, k: int, group: int, selector: int, integer: bool) -> Index:
    """Which row of B each element of a sparse A belongs to: [warps, 16, elements of A].

    `metadata`: a register [warps, 32]. `k`: the rows of B. `group`: of 4 rows there are two elements of A, with 2
    bits of metadata each; of 2 (tf32) there is one, with 4 bits; of 8 (4-bit integers) there are two pairs.
    `selector`: which threads of four hold the metadata, those of a group of four lanes for its row and the row 8 below.
    Of floats, each thread has both rows, the upper one's in its lower half, and threads follow each other along K; of
    integers, even threads have the upper row and odd ones the lower.

    Source: PTX manual; all but those of 4-bit integers were run on an H200.
    """
    warps, threads = len(metadata), k // group // 4
    by_row: Any
    words: Any = metadata.reshape(warps, 8, 4)[:, :, selector * threads : (selector + 1) * threads]
    if integer:
        by_row, width = words.reshape(warps, 8, threads // 2, 2).transpose(0, 3, 1, 2), 32
    else:
        by_row, width = np.stack([words & np.uint32(0xFFFF), words >> np.uint32(16)], axis=1), 16
    by_row = by_row.reshape(warps, 16, -1)
    nibbles = (by_row[..., None] >> np.arange(0, width, 4, dtype=np.uint32) & np.uint32(15)).reshape(warps, 16, -1)
    nibbles = nibbles.astype(np.intp)
    first = np.arange(k // group) * group
    if group == 2:
        # 0b0100 is the first of two, 0b1110 the second: of four 16-bit halves the two that belong together.
        return np.asarray(first + (nibbles >> 1 & 1))
    both = np.stack([nibbles & 3, nibbles >> 2], axis=-1)
    if group == 4:
        return np.asarray((first[:, None] + both).reshape(warps, 16, -1))
    pairs = first[:, None] + 2 * both
    return np.asarray(np.stack([pairs, pairs + 1], axis=-1).reshape(warps, 16, -1))
