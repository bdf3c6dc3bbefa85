"""The sums of the tensor core in NumPy, the reference: every element of D of many warps at once.

Matrices are raw numbers: A [warps, 16, columns], B [warps, k, 8], C and D [warps, 16, 8]. For a sparse A, `rows` gives
the row of B that each element of A belongs to, [warps, 16, columns]. Without `rows`, the elements are consecutive. All
arithmetic is float64, which holds every product and every sum of a block exactly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuemu.isa.fragments import Index, MmaMode, UintArray
from gpuemu.tensor.numbers import FORMATS, HIGHEST, LOWEST, Format, Numbers, Numerics, decode

Float64 = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_KEPT_OF_F32 = np.int64(-(1 << 29))
"""Mask that keeps 23 of the 52 fraction bits of a float64."""


class Sums(NamedTuple):
    """How a mode sums floats: see `gpuemu.tensor.mma`."""

    kept: int
    """Fraction bits of an addend that are kept below the largest exponent."""
    block: int
    """Number of products that are summed at once."""
    result_bits: int
    """Mask of the 32 bits of an f32 result that are kept."""


def sums_of(numerics: Numerics, mode: MmaMode) -> Sums:
    """Return how a mode sums floats."""
    bits, count = FORMATS[mode.a_type].bits, mode.a.columns
    if bits == 8:
        lost = 23 - numerics.result_fraction_bits_8_bit
        block = min(numerics.products_per_block_8_bit, count)
        return Sums(numerics.kept_fraction_bits_8_bit, block, 0xFFFFFFFF << lost & 0xFFFFFFFF)
    most = numerics.products_per_block_tf32 if bits == 32 else numerics.products_per_block_16_bit
    return Sums(numerics.kept_fraction_bits, min(most, count), 0xFFFFFFFF)


def float_product(
    sums: Sums, mode: MmaMode, a: UintArray, b: UintArray, c: UintArray, rows: Index | None = None
) -> UintArray:
    """Compute D = A x B + C."""
    left = decode(mode.a_type, a.transpose(2, 0, 1)[..., None])
    right = decode(mode.b_type, b.transpose(1, 0, 2)[:, :, None] if rows is None else chosen_rows(b, rows))
    d: Any = c
    for start in range(0, len(left.values), sums.block):
        part = slice(start, start + sums.block)
        d = block_sum(sums.kept, mode.accumulator, left[part], right[part], decode(mode.accumulator, d))
    if mode.accumulator == "f32" and sums.result_bits != 0xFFFFFFFF:
        finite = d & np.uint32(0x7F800000) != np.uint32(0x7F800000)
        d = np.where(finite, d & np.uint32(sums.result_bits), d)
    result: UintArray = d
    return result


def chosen_rows(b: Any, rows: Index) -> Any:
    """Select rows of B for each row of A: [columns of A, warps, 16, 8]."""
    return b[np.arange(len(b))[:, None, None], rows].transpose(2, 0, 1, 3)


def block_sum(kept: int, accumulator: str, left: Numbers, right: Numbers, addend: Numbers) -> UintArray:
    """Sum a block and return bits: left [k, warps, 16, 1], right [k, warps, 1 or 16, 8], addend [warps, 16, 8]."""
    top = np.maximum((left.exponents + right.exponents).max(axis=0), addend.exponents)
    if (top > HIGHEST).any():
        finite = block_sum(kept, accumulator, left.finite(), right.finite(), addend.finite())
        return _with_specials(FORMATS[accumulator], finite, left, right, addend)
    top[top < LOWEST] = 0  # all addends are zero
    units = ((kept - top.astype(np.int64) + 1023) << 52).view(np.float64)  # units per 1
    products = np.multiply(left.values, right.values, dtype=np.float64)
    products *= units
    # Each addend is below 2^(kept + 2) units, so the sum is exact.
    total: Float64 = np.trunc(products, out=products).sum(axis=0)
    total += np.trunc(addend.values * units)
    total /= units
    total += 0.0  # -0 becomes +0
    return _nearest_f16(total) if accumulator == "f16" else _cut_to_f32(total)


def _nearest_f16(total: Float64) -> UintArray:
    with np.errstate(over="ignore", under="ignore"):
        bits = total.astype(np.float16).view(np.uint16)
    bits[bits == 0x8000] = 0
    return bits


def _cut_to_f32(total: Float64) -> UintArray:
    """Cut toward zero; values from 2^128 become infinity."""
    unit = 2.0**-149
    small = np.abs(total) < 2.0**-126
    if small.any():
        total = np.where(small, np.trunc(total / unit) * unit + 0.0, total)
    cut = (total.view(np.int64) & _KEPT_OF_F32).view(np.float64)
    with np.errstate(over="ignore"):
        return cut.astype(np.float32).view(np.uint32)


def _with_specials(form: Format, finite: UintArray, left: Numbers, right: Numbers, addend: Numbers) -> UintArray:
    """Return the bits, with the results of IEEE arithmetic where not all addends are finite."""
    with np.errstate(invalid="ignore"):
        products = np.multiply(left.values, right.values, dtype=np.float64)
        total = products.sum(axis=0) + addend.values
    infinity = np.where(total > 0, form.infinity, form.infinity | 1 << (form.bits - 1))
    special = np.where(np.isnan(total), form.nan, infinity).astype(finite.dtype)
    return np.where(np.isfinite(total), finite, special)


def integer_product(
    a: npt.NDArray[Any], b: npt.NDArray[Any], c: UintArray, saturates: bool, rows: Index | None = None
) -> UintArray:
    """Compute D = A x B + C of integers of up to 8 bits, where C and D have 32 bits and wrap or saturate.

    Float64 holds the sums exactly.
    """
    left: Any = a.astype(np.float64)
    right: Any = b.astype(np.float64)
    product = left @ right if rows is None else np.einsum("wrk,kwrc->wrc", left, chosen_rows(right, rows))
    total: Integers = product.astype(np.int64) + c.astype(np.uint32).view(np.int32)
    if saturates:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return (total & 0xFFFFFFFF).astype(np.uint32)
