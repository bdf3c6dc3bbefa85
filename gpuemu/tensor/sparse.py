"""Find the rows of B that the elements of a sparse A belong to: metadata selects two of each four along a row of A."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.isa.fragments import Index, Registers


def sparse_rows(metadata: Registers, k: int, group: int, selector: int, integer: bool) -> Index:
    """Return the row of B that each element of a sparse A belongs to: [warps, 16, elements of A].

    `metadata`: a register [warps, 32]. `k`: the rows of B. `group`: rows of B that share metadata. A group of 4 rows
    has two elements of A with 2 bits of metadata each. A group of 2 (tf32) has one element with 4 bits, and a group of
    8 (4-bit integers) two pairs of elements. `selector`: selects which threads of each four lanes hold the metadata,
    for their row and the row 8 below it. For floats, each thread has both rows, the upper row in its lower half, and
    successive threads hold successive parts of K. For integers, even threads have the upper row and odd threads the
    lower one.

    Source: PTX manual. All groups except 4-bit integers were run on an H200.
    """
    warps, threads = len(metadata), k // group // 4
    by_row: Any
    words: Any = metadata.reshape(warps, 8, 4)[:, :, selector * threads : (selector + 1) * threads]
    if integer:
        by_row, width = words.reshape(warps, 8, threads // 2, 2).transpose(0, 3, 1, 2), 32
    else:
        by_row, width = np.stack([words & np.uint32(0xFFFF), words >> np.uint32(16)], axis=1), 16
    return chosen_by(by_row.reshape(warps, 16, -1), width, group)


def chosen_by(metadata: Registers, width: int, group: int) -> Index:
    """Return the row of B for each stored element of rows of A, [..., elements], from `metadata` [..., words].

    `width`: the low bits of a word that hold metadata, 4 for each group. `group`: see `sparse_rows`.
    """
    shape = metadata.shape[:-1]
    nibbles = metadata[..., None].astype(np.uint32) >> np.arange(0, width, 4, dtype=np.uint32) & np.uint32(15)
    nibbles = nibbles.reshape(*shape, -1).astype(np.intp)
    first = np.arange(nibbles.shape[-1]) * group
    if group == 2:
        # 0b0100 selects the first of two and 0b1110 the second: each is a pair of adjacent 16-bit halves of four.
        return np.asarray(first + (nibbles >> 1 & 1))
    both = np.stack([nibbles & 3, nibbles >> 2], axis=-1)
    if group == 4:
        return np.asarray((first[:, None] + both).reshape(*shape, -1))
    pairs = first[:, None] + 2 * both
    return np.asarray(np.stack([pairs, pairs + 1], axis=-1).reshape(*shape, -1))
