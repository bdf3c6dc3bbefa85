"""Products with block scales: D = (A x its scales) (B x its scales) + C, for many warps at once.

The stored columns of A are divided into as many equal parts as a row has scales, and so are the rows of B. The sums
follow `gpuemu.tensor.mma`, with all of K in one block and two differences:

* For 8-bit floats, and narrower floats that occupy a byte each, an exponent includes those of both scales.
* For packed 4-bit floats, sixteen products are added exactly and multiplied by their scales. Such a group is one
  addend; its exponent is that of the two scales alone, and `kept_fraction_bits_4_bit` bits are kept below the largest
  exponent.

Source: MMA-Sim (arXiv 2511.10909), whose rule matches an RTX Blackwell card bit for bit. Sparse products are assumed to
follow the same rule.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.isa.fragments import Index, UintArray
from gpuemu.tensor.numbers import SPECIAL, ZERO, Numbers, Numerics, decode
from gpuemu.tensor.sums import block_sum, chosen_rows

_GROUP = 16
_ONE = Numbers(np.ones(1, np.float32), np.zeros(1, np.int16))


def decode_scales(kind: str, raw: UintArray) -> Numbers:
    """Decode bytes of type ue8m0 (powers of two and one NaN) or of type ue4m3, whose sign bit is not read."""
    if kind == "ue4m3":
        return decode("e4m3", raw & np.uint8(0x7F))
    powers = raw.astype(np.int16) - np.int16(127)
    no_number = raw == 0xFF
    values: Any = np.where(no_number, np.nan, np.ldexp(1.0, powers))
    return Numbers(values, np.where(no_number, np.int16(SPECIAL), powers))


def scaled_product(
    numerics: Numerics, types: tuple[str, str], a: UintArray, b: UintArray, c: UintArray,
    scales: tuple[Numbers, Numbers], packed: bool, rows: Index | None = None,
) -> UintArray:  # fmt: skip
    """Compute D [warps, 16, 8] from A [warps, 16, columns], B [warps, k, 8] and C.

    `scales`: scales of A [parts, warps, 16, 1] and of B [parts, warps, 1, 8]. `packed`: both types are packed 4-bit
    types. `rows`: the rows of B for a sparse A, see `gpuemu.tensor.sums`.
    """
    left = decode(types[0], a.transpose(2, 0, 1)[..., None])
    right = decode(types[1], b.transpose(1, 0, 2)[:, :, None] if rows is None else chosen_rows(b, rows))
    addend, columns = decode("f32", c), len(left.values)
    if not packed:
        left, right = (_times(x, _repeated(scale, columns)) for x, scale in zip((left, right), scales, strict=True))
        return block_sum(numerics.kept_fraction_bits_8_bit, "f32", left, right, addend)
    products = np.multiply(left.values, right.values, dtype=np.float64)
    sums = products.reshape(columns // _GROUP, _GROUP, *products.shape[1:]).sum(axis=1)
    factors = _times(*(_repeated(scale, len(sums)) for scale in scales))
    nothing = (sums == 0) & (factors.exponents != SPECIAL)
    values: Any = sums * factors.values
    groups = Numbers(values, np.where(nothing, np.int16(ZERO), factors.exponents))
    return block_sum(numerics.kept_fraction_bits_4_bit, "f32", groups, _ONE, addend)


def _repeated(scales: Numbers, count: int) -> Numbers:
    """Repeat scales along the first axis until there are `count`."""
    each = count // len(scales.values)
    return Numbers(scales.values.repeat(each, axis=0), scales.exponents.repeat(each, axis=0))


def _times(x: Numbers, y: Numbers) -> Numbers:
    special = (x.exponents == SPECIAL) | (y.exponents == SPECIAL)
    values: Any = np.multiply(x.values, y.values, dtype=np.float64)
    return Numbers(values, np.where(special, np.int16(SPECIAL), x.exponents + y.exponents))
