"""Products of the tensor core that mma.sync's dense modes do not have: sparse ones, and those of 8-bit floats.

The arithmetic is that of `tensor.mma`, block by block. In a sparse product, A has half of the columns of B's rows:
the metadata says of each element which row of B it belongs to, so that the rows of D multiply other rows of B.

Matrices are raw numbers: A [warps, 16, k], B [warps, k, 8], C and D [warps, 16, 8].
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpuemu.isa.fragments import Index, UintArray
from gpuemu.tensor.numbers import Numerics, decode
from gpuemu.tensor.sums import any_block


def float_product(
    kept: int, block: int, accumulator: str, types: tuple[str, str], a: UintArray, b: UintArray, c: UintArray,
    rows: Index | None = None,
) -> UintArray:  # fmt: skip
    """D = A x B + C. `rows`: the row of B that each element of A belongs to [warps, 16, k]; its own without it.

    `kept`, `block`: the fraction bits kept of an addend, and the products that are summed at once.
    """
    warps, _, k = a.shape
    left = decode(types[0], a.transpose(2, 1, 0).reshape(k, 1, -1))
    if rows is None:
        wide = np.broadcast_to(b.transpose(1, 2, 0)[:, :, None, :], (k, 8, 16, warps)).reshape(k, 8, -1)
    else:
        chosen = b[np.arange(warps)[:, None, None], rows]  # [warps, 16, k, 8]
        wide = chosen.transpose(2, 3, 1, 0).reshape(k, 8, -1)
    right = decode(types[1], wide)
    d: Any = np.ascontiguousarray(c.transpose(2, 1, 0)).reshape(8, -1)
    for start in range(0, k, block):
        part = slice(start, start + block)
        d = any_block(kept, accumulator, left.part(part), right.part(part), decode(accumulator, d))
    result: UintArray = d.reshape(8, 16, warps).transpose(2, 1, 0)
    return result


def eight_bit_product(
    numerics: Numerics, accumulator: str, types: tuple[str, str], a: UintArray, b: UintArray, c: UintArray,
    rows: Index | None = None,
) -> UintArray:  # fmt: skip
    """D = A x B + C of e4m3 and e5m2. An f32 result has fewer fraction bits than it could."""
    block = min(numerics.products_per_block_8_bit, a.shape[2])
    d = float_product(numerics.kept_fraction_bits_8_bit, block, accumulator, types, a, b, c, rows)
    if accumulator == "f16":
        return d
    finite = d & np.uint32(0x7F800000) != np.uint32(0x7F800000)
    cut = d & np.uint32(0xFFFFFFFF << (23 - numerics.result_fraction_bits_8_bit) & 0xFFFFFFFF)
    return np.where(finite, cut, d)


def integer_product(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64], rows: Index) -> npt.NDArray[np.int64]:
    """A x B of integers; `rows` as above."""
    chosen = b[np.arange(len(a))[:, None, None], rows]
    total: npt.NDArray[np.int64] = np.einsum("wrk,wrkc->wrc", a, chosen)
    return total


def sparse_rows(metadata: npt.NDArray[np.uint32], k: int, group: int, selector: int, integer: bool) -> Index:
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
