"""The sums of the tensor core: blocks of products, and the accumulator, of many warps at once.

Two ways lead to the same bits. `exact_product`: where no addend has bits below what the hardware keeps, nothing is
cut off, and where every partial sum fits in float32 besides, a matrix product in float32 gives the result. That is
so of whole numbers and other short ones. `blocks_of_products`: all else; exponents and values of all elements are
laid out as [k, column, row, warp], so that each step is one NumPy operation over contiguous memory. Where no product
can leave the range of float32, products are float32 and aligned addends int32; else all are float64, which is exact
for every input.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gpuemu.isa.fragments import Index, Registers, UintArray, mma_mode
from gpuemu.tensor.numbers import (
    FORMATS,
    HIGHEST,
    LOWEST,
    NOTHING,
    Bounds,
    Format,
    Numbers,
    Numerics,
    bounds_of,
    decode,
    decode_exponents,
    decode_values,
)
from gpuemu.tensor.operands import Operand, places

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]

_BIAS = 127
_KEPT_OF_F32 = np.array(-(1 << 29), dtype=np.int64)
"""23 of the 52 fraction bits of a float64."""
# Array operations take an array without dimensions faster than a number.
_LEAST_NARROW, _NARROW = np.array(27, dtype=np.int32), np.array(252 - 27, dtype=np.uint32)
"""The least exponent, counted from -127, of which float32 holds what must be exact, and how many more there are: see
`_narrow_block`."""
_NO_EXPONENT = np.array(0, dtype=np.int8)
_POSITIVE_ZERO = np.array(0, dtype=np.float32)
_FIELD, _LOW_FIELD = np.array(23, dtype=np.uint32), np.array(0xFF, dtype=np.uint32)
_SHIFT = np.array(23, dtype=np.int32)
_FOUR_COLUMNS, _EIGHT_COLUMNS = np.dtype((np.void, 16)), np.dtype((np.void, 32))


# ---- nothing is cut off ---------------------------------------------------------------------------------


def exact_product(
    numerics: Numerics, left: Operand, right: Operand, c: Registers, c_bounds: Bounds | None
) -> tuple[Registers, Bounds] | None:
    """D and its bounds if nothing is cut off or rounded, else None; c as registers [registers, 32 x warps].

    `c_bounds`: the bounds of C if they are known. Those of a result are carried along, and wider than the result's
    own in the end: then they are looked up anew.
    """
    a, b = left.bounds, right.bounds
    if a is None or b is None:
        return None
    products = Bounds(a.low + b.low, a.high + b.high, left.mode.k * a.most * b.most)
    half = left.mode.accumulator == "f16"
    kept = numerics.kept_fraction_bits
    d_bounds = None if c_bounds is None else _together(kept, products, c_bounds, half)
    if d_bounds is None:
        if _together(kept, products, NOTHING, half) is None:
            return None
        found = bounds_of(left.mode.accumulator, _elements(c, half))
        d_bounds = None if found is None else _together(kept, products, found, half)
        if d_bounds is None:
            return None
    product = np.matmul(left.matrix, right.matrix)
    # Eight columns of 16 bits, or four of 32, are next to each other in the registers, too.
    units = product.view(_EIGHT_COLUMNS if half else _FOUR_COLUMNS).reshape(-1).take(_unit_order(half, left.warps))
    total = units.view(np.float32)
    total += decode_values("f16", c.view(np.uint16)).reshape(-1) if half else c.view(np.float32).reshape(-1)
    total += _POSITIVE_ZERO  # -0 becomes +0
    words = _exact_halves(total).view(np.uint32) if half else total.view(np.uint32)
    return words.reshape(c.shape), d_bounds


def _elements(c: Registers, half: bool) -> UintArray:
    """The accumulator's elements in the order of the registers, two in each if they have 16 bits."""
    return c.view(np.uint16).reshape(-1) if half else c.reshape(-1)


def _together(kept: int, products: Bounds, c: Bounds, half: bool) -> Bounds | None:
    """The bounds of the sum if it is exact in float32 and in the accumulator's type, else None.

    All addends are multiples of 2^low, and no unit of the hardware's sums is above that. No partial sum, in any
    order, exceeds `most`: up to 2^24 times 2^low float32 holds them all.
    """
    low, high, most = min(products.low, c.low), max(products.high, c.high), products.most + c.most
    digits, least, largest = (11, -24, 65504.0) if half else (24, -126, 2.0**127)
    if low < high - kept or low < least or most > largest or most > math.ldexp(1.0, low + digits):
        return None
    return Bounds(low, math.frexp(most)[1] - 1, most)


@lru_cache(maxsize=16)
def _unit_order(half: bool, warps: int) -> Index:
    """Which units of [warp, row, unit of columns] the registers have: [register, warp, group of four lanes]."""
    rows = np.arange(16 * warps, dtype=np.intp).reshape(warps, 2, 8).swapaxes(0, 1)
    if half:
        return np.ascontiguousarray(rows).reshape(-1)
    return np.ascontiguousarray(2 * rows[:, None] + np.arange(2)[None, :, None, None]).reshape(-1)


def _exact_halves(values: Float32) -> UintArray:
    """The bits of float16 of values that it holds."""
    bits = values.view(np.uint32)
    # The exponent's bias is lowered by a product; what float16 has as a subnormal number is one of float32 then.
    half = (values * np.float32(2.0**-112)).view(np.uint32) >> np.uint32(13)
    half &= np.uint32(0x7FFF)
    half |= bits >> np.uint32(16) & np.uint32(0x8000)
    return half.astype(np.uint16)


def integer_product(left: Operand, right: Operand, c: Registers) -> Registers:
    """D of integers. Sums of at most 32 products of 8 bits stay below 2^24, so float32 holds them exactly."""
    product = (left.matrix @ right.matrix).view(np.dtype((np.void, 16))).reshape(-1)
    total = product.take(_unit_order(False, left.warps)).view(np.float32).astype(np.int32).reshape(c.shape)
    if left.mode.saturates:
        wide = total.astype(np.int64) + c.view(np.int32)
        return wide.clip(-(1 << 31), (1 << 31) - 1).astype(np.int32).view(np.uint32)
    total += c.view(np.int32)
    return total.view(np.uint32)


# ---- blocks of products ---------------------------------------------------------------------------------


def blocks_of_products(numerics: Numerics, left: Operand, right: Operand, c: Registers) -> Registers:
    """D from A, B and C in registers [registers, 32 x warps]."""
    mode, warps = left.mode, left.warps
    order, back = _accumulator_order(mode.name, warps)
    d = _elements(c, mode.accumulator == "f16").take(order).reshape(8, 16 * warps)
    tf32 = mode.a_type == "tf32"
    products = numerics.products_per_block_tf32 if tf32 else numerics.products_per_block_16_bit
    for start in range(0, mode.k, products):
        d = _block(numerics.kept_fraction_bits, left, right, slice(start, start + products), d)
    return d.reshape(-1).take(back).view(np.uint32).reshape(c.shape)


@lru_cache(maxsize=16)
def _accumulator_order(name: str, warps: int) -> tuple[Index, Index]:
    """Where in registers [register, lane of all warps] [column, row, warp] are, and the other way round."""
    mode = mma_mode(name)
    order = places(mode.c, mode.c.position.T, warps).reshape(-1)
    return order, np.argsort(order)


def _block(kept: int, left: Operand, right: Operand, part: slice, d: UintArray) -> UintArray:
    """One block: some of the products and d [8, n] to bits [8, n]; n is rows x warps."""
    narrow = _narrow_block(kept, left, right, part, d)
    if narrow is not None:
        return narrow
    accumulator = left.mode.accumulator
    return any_block(kept, accumulator, left.grid.part(part), right.grid.part(part), decode(accumulator, d))


def _narrow_block(kept: int, left: Operand, right: Operand, part: slice, d: UintArray) -> UintArray | None:
    """A block of products that float32 holds, all of it finite; None if it is not known to be one.

    A unit is 2^(top - kept), so that products are below 2^(kept + 2) units: their sum fits int32. Only a product
    below 2^-127 may lose bits in float32, and then it is below a unit, which is at least 2^-126; no product
    reaches 2^128. Exponents are counted as float32's bits have them, 127 above the exponent.
    """
    x, y = left.small_exponents, right.small_exponents
    if x is None or y is None:
        return None
    exponents = x.wide[part] + y.wide[part]
    if kept > 26 or len(exponents) > 1 << (29 - kept):
        return None
    small = np.maximum.reduce(exponents, axis=0)
    nothing = small < _NO_EXPONENT  # no product but zeros
    top = np.add(small, _number(x.base + y.base + _BIAS), dtype=np.int32)
    if _any(nothing):
        top[nothing] = 0
    half = left.mode.accumulator == "f16"
    if half:
        addend = decode_values("f16", d)
        np.maximum(top, decode_exponents("f16", d) + np.int16(_BIAS), out=top)
    else:
        addend = d.view(np.float32)
        field = d >> _FIELD
        field &= _LOW_FIELD
        np.maximum(top, field.view(np.int32), out=top)
    outside = (top - _LEAST_NARROW).view(np.uint32) > _NARROW
    if _any(outside):
        if not (nothing & (addend == 0))[outside].all():
            return None
        top[outside] = _LEAST_NARROW  # of nothing but zeros, any unit will do
    np.subtract(_number(kept + 2 * _BIAS), top, out=top)
    top <<= _SHIFT
    scale = top.view(np.float32)  # units in 1
    products = left.values[part] * right.values[part]
    products *= scale
    total = np.add.reduce(products.astype(np.int32), axis=0, dtype=np.int32).astype(np.float64)
    total += (addend * scale).astype(np.int32).astype(np.float64)
    if half:
        total /= scale
        return _nearest_f16(total)
    bits = total.view(np.int64)
    bits &= _KEPT_OF_F32
    cut: Float32 = total.astype(np.float32)
    cut /= scale
    return cut.view(np.uint32)


@lru_cache(maxsize=1024)
def _number(value: int) -> npt.NDArray[np.int32]:
    """A number as an array without dimensions."""
    return np.array(value, dtype=np.int32)


def _any(chosen: npt.NDArray[np.bool_]) -> bool:
    """Whether any is true; Python finds a byte faster than NumPy starts a reduction."""
    return 1 in chosen.tobytes()


def any_block(kept: int, accumulator: str, left: Numbers, right: Numbers, addend: Numbers) -> UintArray:
    """Any block: left [k, 1, n], right [k, 8, n], addend [8, n] to bits [8, n]."""
    top = np.maximum.reduce(left.exponents + right.exponents, axis=0)
    np.maximum(top, addend.exponents, out=top)
    highest, lowest = int(top.max()), int(top.min())
    if highest > HIGHEST:
        finite = any_block(kept, accumulator, left.finite(), right.finite(), addend.finite())
        return _with_specials(FORMATS[accumulator], finite, left, right, addend)
    if lowest < LOWEST:  # nothing but zeros
        top[top < LOWEST] = 0
        lowest = int(top.min())
    units = ((kept - top.astype(np.int64) + 1023) << 52).view(np.float64)  # units in 1
    products = np.multiply(left.values, right.values, dtype=np.float64)
    products *= units
    # Below 2^(kept + 2) units each, they are summed exactly.
    total: Float64 = np.add.reduce(np.trunc(products, out=products), axis=0)
    total += np.trunc(addend.values * units)
    total /= units
    total += 0.0  # -0 becomes +0
    if accumulator == "f16":
        return _nearest_f16(total)
    return _cut_to_f32(total, exact=lowest - kept >= -149)


def _nearest_f16(total: Float64) -> UintArray:
    with np.errstate(over="ignore", under="ignore"):
        bits = total.astype(np.float16).view(np.uint16)
    bits[bits == 0x8000] = 0
    return bits


def _cut_to_f32(total: Float64, exact: bool) -> UintArray:
    """Toward zero; infinity from 2^128. `exact`: all totals are multiples of the smallest subnormal."""
    if not exact:
        unit = 2.0**-149
        small = np.abs(total) < 2.0**-126
        total = np.where(small, np.trunc(total / unit) * unit + 0.0, total)
    cut = (total.view(np.int64) & _KEPT_OF_F32).view(np.float64)
    with np.errstate(over="ignore"):
        return cut.astype(np.float32).view(np.uint32)


def _with_specials(form: Format, finite: UintArray, left: Numbers, right: Numbers, addend: Numbers) -> UintArray:
    """The bits, but what IEEE arithmetic makes of them where not all addends are finite."""
    with np.errstate(invalid="ignore"):
        products = np.multiply(left.values, right.values, dtype=np.float64)
        total = np.add.reduce(products, axis=0) + addend.values
    infinity = np.where(total > 0, form.infinity, form.infinity | 1 << (form.bits - 1))
    special = np.where(np.isnan(total), form.nan, infinity).astype(finite.dtype)
    return np.where(np.isfinite(total), finite, special)
