"""Arithmetic and comparisons of pairs of 16-bit floats in one lane's registers.

`how` says which halves of a word an operand has, and with which signs: see `LOW_FROM_HIGH`. `kind` has bits: 1 for
bfloat16 instead of float16, 2 if subnormal numbers are zeros (.FTZ), 4 if results are clamped to [0, 1], 8 if negative
results are 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.sass.lane.arrays import (
    bits64_of,
    bits_of,
    canonical,
    double,
    double_of,
    float_of,
    low,
    select,
    signed64,
    single,
    unsigned64,
)
from gpuemu.sass.lane.floats import float_compare, narrow_brain, narrow_half
from gpuemu.sass.lane.integers import joined

LOW_FROM_HIGH, HIGH_FROM_HIGH, LOW_NEGATIVE, HIGH_NEGATIVE, IS_MAGNITUDE, IS_NEGATIVE = (1 << bit for bit in range(6))
"""Bits of `how`: the low half is the high one of the word, the high half is; the signs of both, and of each."""
BRAIN, FLUSH, SATURATE, POSITIVE = (1 << bit for bit in range(4))
"""Bits of `kind`."""
_HALF_MASK, _HALF_SIGN, _HALF_SIZE, _SIXTEEN = np.uint32(0xFFFF), np.uint32(0x8000), np.uint32(0x7FFF), np.uint32(16)
_INFINITY, _BRAIN_INFINITY, _NAN16, _NONE = np.uint32(0x7C00), np.uint32(0x7F80), np.uint32(0x7FFF), np.uint32(0)
_INFINITY32, _THIRTEEN, _ONE = np.uint32(0x7F800000), np.uint32(13), np.uint32(1)
_SCALE, _ZERO64, _ONE64 = np.float32(2.0**112), np.float64(0), np.float64(1)
_LAST64, _STEP64 = np.uint64(1), np.int64(1)
_ZERO32, _ONE32 = np.float32(0), np.float32(1)


def _half(word: Any, how: int, high: int, kind: int) -> Any:
    """The bits of a half of an operand, with its signs."""
    from_high = how & 2 if high else how & 1
    bits = low(word >> _SIXTEEN) if from_high else low(word & _HALF_MASK)
    if kind & 2:
        exponent = low(bits & (_BRAIN_INFINITY if kind & 1 else _INFINITY))
        bits = select(exponent == _NONE, low(bits & _HALF_SIGN), bits)
    if how & 16:
        bits = low(bits & _HALF_SIZE)
    if how & 32:
        bits = low(bits ^ _HALF_SIGN)
    if (how & 8 if high else how & 4) != 0:
        bits = low(bits ^ _HALF_SIGN)
    return bits


def _number(bits: Any, kind: int) -> Any:
    """The float64 of 16 bits."""
    if kind & 1:
        return double(float_of(low(bits << _SIXTEEN)))
    size = low(bits & _HALF_SIZE)
    words = low(size << _THIRTEEN)
    found = bits_of(single(float_of(words) * _SCALE))
    found = select(size >= _INFINITY, low(words | _INFINITY32), found)
    return double(float_of(low(found | low(low(bits & _HALF_SIGN) << _SIXTEEN))))


def _toward_odd(total: Any, error: Any) -> Any:
    """A sum and its error as one float64, rounded to odd."""
    bits = signed64(bits64_of(total))
    cut = select((error > _ZERO64) == (total > _ZERO64), bits, bits - _STEP64)
    odd = double_of(unsigned64(cut) | _LAST64)
    return select((error > _ZERO64) | (error < _ZERO64), odd, total)


def _sum(a: Any, b: Any) -> Any:
    """a + b of float64, rounded to odd (Knuth)."""
    total = a + b
    t = total - a
    return _toward_odd(total, (a - (total - t)) + (b - t))


def _narrow(x: Any, kind: int) -> Any:
    """The bits of the nearest 16-bit float of a float64."""
    if kind & 4:
        x = select(x > _ZERO64, select(x < _ONE64, x, _ONE64), _ZERO64)
    elif kind & 8:
        x = select(x <= _ZERO64, _ZERO64, x)
    near = single(x)
    bits, back = bits_of(near), double(near)
    beyond = select(x < _ZERO64, back < x, back > x)
    odd = low(select(beyond, low(bits - _ONE), bits) | _ONE)
    near = float_of(select((back < x) | (back > x), odd, bits))
    bits = narrow_brain(near) if kind & 1 else narrow_half(near)
    if kind & 2:
        exponent = low(bits & (_BRAIN_INFINITY if kind & 1 else _INFINITY))
        bits = select(exponent == _NONE, low(bits & _HALF_SIGN), bits)
    return bits


def _joined_halves(lower: Any, upper: Any) -> Any:
    return low(low(upper << _SIXTEEN) | lower)


def _multiplied(a: Any, b: Any, c: Any, hows: int, high: int, kind: int) -> Any:
    x = _number(_half(a, hows & 63, high, kind), kind)
    y = _number(_half(b, hows >> 6 & 63, high, kind), kind)
    z = _number(_half(c, hows >> 12 & 63, high, kind), kind)
    return _narrow(_sum(x * y, z), kind)


def half_multiply_add(a: Any, b: Any, c: Any, hows: int, kind: int) -> Any:
    """a x b + c of each half, rounded once; `hows`: those of a, b and c, six bits each."""
    return _joined_halves(_multiplied(a, b, c, hows, 0, kind), _multiplied(a, b, c, hows, 1, kind))


def _two(a: Any, b: Any, hows: int, multiplies: int, high: int, kind: int) -> Any:
    x = _number(_half(a, hows & 63, high, kind), kind)
    y = _number(_half(b, hows >> 6 & 63, high, kind), kind)
    return _narrow(x * y if multiplies else _sum(x, y), kind)


def half_combine(a: Any, b: Any, hows: int, multiplies: int, kind: int) -> Any:
    """a + b of each half, or a x b."""
    return _joined_halves(_two(a, b, hows, multiplies, 0, kind), _two(a, b, hows, multiplies, 1, kind))


def half_widen(a: Any, b: Any, hows: int, multiplies: int, kind: int) -> Any:
    """a + b or a x b of the low halves, as float32."""
    x, y = single(_number(_half(a, hows & 63, 0, 0), 0)), single(_number(_half(b, hows >> 6 & 63, 0, 0), 0))
    total = x * y if multiplies else x + y
    if kind & 4:
        total = select(total > _ZERO32, select(total < _ONE32, total, _ONE32), _ZERO32)
    return canonical(total)


def _compared_half(a: Any, b: Any, hows: int, code: int, high: int, kind: int) -> Any:
    x = _number(_half(a, hows & 63, high, kind), kind)
    return float_compare(x, _number(_half(b, hows >> 6 & 63, high, kind), kind), code)


def half_predicates(a: Any, b: Any, p: Any, hows: int, code: int, way: int, kind: int) -> Any:
    """Comparisons of the low and of the high halves, each joined with p."""
    lower = joined(_compared_half(a, b, hows, code, 0, kind), p, way)
    return lower, joined(_compared_half(a, b, hows, code, 1, kind), p, way)


def half_truths(a: Any, b: Any, p: Any, hows: int, code: int, way: int, kind: int, true: int) -> Any:
    """`true` in each half where a comparison, joined with p, holds, else 0."""
    lower, upper = half_predicates(a, b, p, hows, code, way, kind)
    return _joined_halves(select(lower, low(true), _NONE), select(upper, low(true), _NONE))


def _extreme_half(a: Any, b: Any, p: Any, hows: int, any_nan: int, high: int, kind: int) -> Any:
    x, y = _half(a, hows & 63, high, kind), _half(b, hows >> 6 & 63, high, kind)
    infinity = _BRAIN_INFINITY if kind & 1 else _INFINITY
    nan_x, nan_y = low(x & _HALF_SIZE) > infinity, low(y & _HALF_SIZE) > infinity
    key_x = select(x >= _HALF_SIGN, low(_HALF_MASK - x), low(x | _HALF_SIGN))
    key_y = select(y >= _HALF_SIGN, low(_HALF_MASK - y), low(y | _HALF_SIGN))
    chosen = select((key_x < key_y) == p, x, y)
    if any_nan:
        return select(nan_x | nan_y, _NAN16, chosen)
    return select(nan_x & nan_y, _NAN16, select(nan_x, y, select(nan_y, x, chosen)))


def half_extremes(a: Any, b: Any, p: Any, hows: int, any_nan: int, kind: int) -> Any:
    """The smaller number of each half where p, else the larger; a number before NaN, unless `any_nan`."""
    lower = _extreme_half(a, b, p, hows, any_nan, 0, kind)
    return _joined_halves(lower, _extreme_half(a, b, p, hows, any_nan, 1, kind))
