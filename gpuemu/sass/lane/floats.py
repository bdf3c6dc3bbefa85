"""Arithmetic, comparisons and conversions of one lane's float32 and float64.

`flush`: subnormal operands and results are zeros of their sign (.FTZ). `saturate`: the result is clamped to [0, 1].
Results are bits; every NaN of 32 bits has the hardware's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpuemu.sass.lane.arrays import (
    bits64_of,
    bits_of,
    canonical,
    double,
    double_of,
    float_of,
    flushed,
    fused,
    low,
    opposite,
    select,
    signed,
    signed64,
    single,
    unsigned64,
    whole,
)
from gpuemu.sass.lane.integers import joined

_ZERO32, _ONE32 = np.float32(0), np.float32(1)
_NAN32, _SIGN32, _FIELD32 = np.uint32(0x7FFFFFFF), np.uint32(0x80000000), np.uint32(0xFF)
_LOWEST, _SIXTEEN, _ROUND_BF16, _TWENTY_THREE = np.uint32(0), np.uint32(16), np.uint32(0x7FFF), np.uint32(23)
_NAN16 = np.uint32(0x7FFF)


def _read(a: Any, flush: int) -> Any:
    return flushed(a) if flush else a


def _finished(x: Any, flush: int, saturate: int) -> Any:
    x = _read(x, flush)
    if saturate:
        x = select(x > _ZERO32, select(x < _ONE32, x, _ONE32), _ZERO32)
    return canonical(x)


def float_add(a: Any, b: Any, flush: int, saturate: int) -> Any:
    """a + b."""
    return _finished(_read(a, flush) + _read(b, flush), flush, saturate)


def float_multiply(a: Any, b: Any, flush: int, saturate: int) -> Any:
    """a x b."""
    return _finished(_read(a, flush) * _read(b, flush), flush, saturate)


def float_multiply_add(a: Any, b: Any, c: Any, flush: int, saturate: int) -> Any:
    """a x b + c, rounded once."""
    return _finished(fused(_read(a, flush), _read(b, flush), _read(c, flush)), flush, saturate)


def float_extreme(a: Any, b: Any, p: Any, flush: int, any_nan: int) -> Any:
    """The smaller where p, else the larger; a number before NaN, unless `any_nan`; -0 is smaller than +0."""
    x, y = _read(a, flush), _read(b, flush)
    smaller = (x < y) | ((x == y) & (bits_of(x) >= _SIGN32))
    chosen = select(smaller == p, x, y)
    chosen = select(x != x, y, select(y != y, x, chosen))
    if any_nan:
        chosen = select(x != x, x, select(y != y, y, chosen))
    return _finished(chosen, flush, 0)


def float_extreme_sign(a: Any, b: Any, p: Any, x: Any, y: Any, flush: int, any_nan: int) -> Any:
    """As `float_extreme`, with the sign flipped where those of the words x and y differ."""
    chosen = float_extreme(a, b, p, flush, any_nan)
    return canonical(float_of(low(chosen ^ low(low(x ^ y) & _SIGN32))))


def float_choose(a: Any, b: Any, p: Any) -> Any:
    """a where p, else b, bit for bit."""
    return select(p, bits_of(a), bits_of(b))


def float_compare(a: Any, b: Any, code: int) -> Any:
    """A comparison: `code` has a bit for less, equal, greater and unordered."""
    if code == 1:
        return a < b
    if code == 2:
        return a == b
    if code == 3:
        return a <= b
    if code == 4:
        return a > b
    if code == 6:
        return a >= b
    if code == 5:
        return (a < b) | (a > b)
    if code == 7:
        return (a == a) & (b == b)
    if code == 8:
        return (a != a) | (b != b)
    if code == 9:
        return opposite(a >= b)
    if code == 10:
        return opposite((a < b) | (a > b))
    if code == 11:
        return opposite(a > b)
    if code == 12:
        return opposite(a <= b)
    if code == 13:
        return a != b
    if code == 14:
        return opposite(a < b)
    if code == 15:
        return (a == a) | (a != a)
    return (a < b) & (a > b)


def float_predicates(a: Any, b: Any, p: Any, code: int, way: int, flush: int) -> Any:
    """A comparison joined with p, and its opposite joined with p."""
    truth = float_compare(_read(a, flush), _read(b, flush), code)
    return joined(truth, p, way), joined(opposite(truth), p, way)


def float_truth(a: Any, b: Any, p: Any, code: int, way: int, flush: int, true: int) -> Any:
    """`true` where a comparison, joined with p, holds, else 0."""
    truth = joined(float_compare(_read(a, flush), _read(b, flush), code), p, way)
    return select(truth, low(true), _LOWEST)


def _exponent(a: Any) -> Any:
    return signed(low(low(bits_of(a) >> _TWENTY_THREE) & _FIELD32))


def needs_long_division(a: Any, b: Any, flush: int) -> Any:
    """Whether a / b needs the slow division: see FCHK."""
    top, bottom = _exponent(_read(a, flush)), _exponent(_read(b, flush))
    apart = top - bottom
    return (top < 26) | (top == 255) | (bottom < 1) | (bottom > 252) | (apart > 125) | (apart < -124)


# -- conversions ----------------------------------------------------------------------------------------------


def from_signed(a: Any) -> Any:
    """The nearest float32 of a signed word."""
    return bits_of(single(signed(a)))


def from_unsigned(a: Any) -> Any:
    """The nearest float32 of an unsigned word."""
    return bits_of(single(a))


def _integral(x: Any, mode: int) -> Any:
    """A whole number: the nearest (even), or toward zero, minus or plus infinity by `mode`."""
    if mode == 1:
        return np.trunc(x)
    if mode == 2:
        return np.floor(x)
    if mode == 3:
        return np.ceil(x)
    return np.rint(x)


def to_integer(a: Any, mode: int, least: int, most: int, for_nan: int, flush: int) -> Any:
    """A float as a whole number from `least` to `most`, both within 33 bits."""
    x = double(_integral(_read(a, flush), mode))
    nan = x != x
    x = select(x < double(least), double(least), select(x > double(most), double(most), x))
    return low(unsigned64(whole(select(nan, double(for_nan), x))))


def to_integral(a: Any, mode: int, flush: int) -> Any:
    """A float32 as a whole float32."""
    return canonical(single(_integral(_read(a, flush), mode)))


def narrow_brain(a: Any) -> Any:
    """The bits of the nearest bfloat16, a tie to the even one."""
    bits = bits_of(a)
    odd = low(low(bits >> _SIXTEEN) & np.uint32(1))
    return select(a != a, _NAN16, low(low(bits + odd + _ROUND_BF16) >> _SIXTEEN))


def narrow_half(a: Any) -> Any:
    """The bits of the nearest float16, a tie to the even one.

    Below 2^-14 the steps are 2^-24: adding and taking away 1/2 leaves multiples of that, rounded to nearest.
    """
    bits = bits_of(a)
    sign = low(low(bits & _SIGN32) >> _SIXTEEN)
    size = low(bits & np.uint32(0x7FFFFFFF))
    small = low(bits_of(single(float_of(size) + np.float32(0.5))) - np.uint32(0x3F000000))
    odd = low(low(size >> np.uint32(13)) & np.uint32(1))
    normal = low(low(size + odd + np.uint32(0xC8000FFF)) >> np.uint32(13))
    narrow = select(size < np.uint32(0x38800000), small, normal)
    narrow = select(size >= np.uint32(0x47800000), np.uint32(0x7C00), narrow)
    return select(size > np.uint32(0x7F800000), _NAN16, low(narrow | sign))


def _positive(x: Any, positive: int) -> Any:
    return select(x <= _ZERO32, _ZERO32, x) if positive else x


def pack_halves(a: Any, b: Any, positive: int, flush: int) -> Any:
    """a above b, as float16; `positive`: negative numbers become 0."""
    upper, lower = _positive(_read(a, flush), positive), _positive(_read(b, flush), positive)
    return low(low(narrow_half(upper) << _SIXTEEN) | narrow_half(lower))


def pack_brains(a: Any, b: Any, positive: int, flush: int) -> Any:
    """As `pack_halves`, as bfloat16."""
    upper, lower = _positive(_read(a, flush), positive), _positive(_read(b, flush), positive)
    return low(low(narrow_brain(upper) << _SIXTEEN) | narrow_brain(lower))


# -- functions --------------------------------------------------------------------------------------------------


_LN2_TERMS = tuple(np.float64(math.log(2) ** k / math.factorial(k)) for k in range(13, -1, -1))
"""2^x as a series: the factors of x^13 down to x^0, by which an x of at most 1/2 has a double's accuracy."""
_LOG2_TERMS = tuple(np.float64(2 / math.log(2) / k) for k in range(23, 0, -2))
"""log2((1 + x) / (1 - x)) as a series: the factors of x^23 down to x^1, for an x of at most 0.172."""
_SINE_TERMS = tuple(np.float64((-1) ** n / math.factorial(2 * n + 1)) for n in range(8, 0, -1))
_COSINE_TERMS = tuple(np.float64((-1) ** n / math.factorial(2 * n)) for n in range(8, 0, -1))
"""Series of the sine and the cosine, without their first terms."""
_FOUR64, _QUARTER64, _TURN64 = np.float64(4), np.float64(0.25), np.float64(2 * math.pi)
_TANGENT_TERMS = np.float64(2 / 15), np.float64(-1 / 3)
_SMALL_TANGENT, _FALL = np.float64(0.01), np.float64(-2 / math.log(2))
_FAR, _NOTHING = np.float64(1080), np.float64(0)
_ONE64, _ROOT_OF_TWO, _HALF64 = np.float64(1), np.float64(math.sqrt(2)), np.float64(0.5)
_INFINITE, _NEGATIVE_INFINITE, _NONE64 = np.float64(np.inf), np.float64(-np.inf), np.float64(np.nan)
_BIAS64, _FIRST64, _LAST_BITS64 = np.int64(1023), np.uint64(52), np.uint64((1 << 52) - 1)
_EXPONENT_OF_ONE64 = np.uint64(1023 << 52)


def _two_to(n: Any) -> Any:
    """2^n of a whole float64 within the exponents of normal numbers."""
    return double_of(unsigned64(whole(n) + _BIAS64) << _FIRST64)


def power_of_two64(x: Any) -> Any:
    """2^x of float64, to about the last bit."""
    near = select(x < -_FAR, -_FAR, select(x > _FAR, _FAR, select(x == x, x, _NOTHING)))
    n = np.rint(near)
    rest = near - n
    total = rest * _LN2_TERMS[0] + _LN2_TERMS[1]
    for k in range(2, 14):
        total = total * rest + _LN2_TERMS[k]
    half = np.floor(n * _HALF64)  # in two steps, since 2^n may be too large, or subnormal
    return select(x == x, total * _two_to(half) * _two_to(n - half), x)


def logarithm64(x: Any) -> Any:
    """log2(x) of float64 that are no subnormal ones, to about the last bit."""
    bits = bits64_of(x)
    exponent = double(signed64(bits >> _FIRST64) - _BIAS64)
    size = double_of((bits & _LAST_BITS64) | _EXPONENT_OF_ONE64)
    large = size > _ROOT_OF_TWO
    size = select(large, size * _HALF64, size)
    exponent = select(large, exponent + _ONE64, exponent)
    s = (size - _ONE64) / (size + _ONE64)
    square = s * s
    total = square * _LOG2_TERMS[0] + _LOG2_TERMS[1]
    for k in range(2, 12):
        total = total * square + _LOG2_TERMS[k]
    found = select(x == _NOTHING, _NEGATIVE_INFINITE, exponent + total * s)
    return select(x < _NOTHING, _NONE64, select(x < _INFINITE, found, x))


def sine64(x: Any, quarters: int) -> Any:
    """The sine of x + quarters / 4 turns, to about the last bit; exact for whole quarters."""
    part = x - np.rint(x)  # exact
    nearest = np.rint(part * _FOUR64)
    angle = (part - nearest * _QUARTER64) * _TURN64  # at most an eighth of a turn
    square = angle * angle
    sine, cosine = square * _SINE_TERMS[0] + _SINE_TERMS[1], square * _COSINE_TERMS[0] + _COSINE_TERMS[1]
    for k in range(2, 8):
        sine = sine * square + _SINE_TERMS[k]
        cosine = cosine * square + _COSINE_TERMS[k]
    sine, cosine = sine * square * angle + angle, cosine * square + _ONE64
    quarter = whole(nearest) + quarters
    value = select((quarter & 1) == 1, cosine, sine)
    value = select((quarter & 2) == 2, _NOTHING - value, value)
    return value if quarters else select(part == _NOTHING, x * _NOTHING, value)


def hyperbolic_tangent64(x: Any) -> Any:
    """tanh(x) of float64, to more bits than a float32 has."""
    size = select(x < _NOTHING, _NOTHING - x, x)
    falling = power_of_two64(size * _FALL)
    value = (_ONE64 - falling) / (_ONE64 + falling)
    square = x * x
    small = x * (square * (square * _TANGENT_TERMS[0] + _TANGENT_TERMS[1]) + _ONE64)
    return select(size < _SMALL_TANGENT, small, select(x < _NOTHING, _NOTHING - value, value))


def sine(a: Any) -> Any:
    """The sine of a turns."""
    return _finished(single(sine64(double(flushed(a)), 0)), 1, 0)


def cosine(a: Any) -> Any:
    """The cosine of a turns."""
    return _finished(single(sine64(double(flushed(a)), 1)), 1, 0)


def hyperbolic_tangent(a: Any) -> Any:
    """tanh(a), also of subnormal numbers."""
    return _finished(single(hyperbolic_tangent64(double(a))), 0, 0)


def power_of_two(a: Any) -> Any:
    """2^a."""
    return _finished(single(power_of_two64(double(flushed(a)))), 1, 0)


def logarithm(a: Any) -> Any:
    """log2(a)."""
    return _finished(single(logarithm64(double(flushed(a)))), 1, 0)


def reciprocal(a: Any) -> Any:
    """1 / a."""
    return _finished(single(np.float64(1) / double(flushed(a))), 1, 0)


def root(a: Any) -> Any:
    """The square root of a."""
    return _finished(single(np.sqrt(double(flushed(a)))), 1, 0)


def reciprocal_root(a: Any) -> Any:
    """1 / the square root of a."""
    return _finished(single(np.float64(1) / np.sqrt(double(flushed(a)))), 1, 0)
