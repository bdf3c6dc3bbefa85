"""Arithmetic, comparisons and conversions of one lane's float64, and roundings of float32 in a direction.

Operands of arithmetic are the bits of register pairs; `signs` has two bits for each, from the lowest up: whether its
magnitude is taken, and whether it is negated. A NaN result is the first NaN operand as its registers have it, made
quiet. `mode` is to nearest, or toward zero, minus or plus infinity.
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
    flushed,
    fused64,
    low,
    opposite,
    select,
    signed,
    signed64,
    single,
    unsigned64,
    whole,
    wide,
)
from gpuemu.sass.lane.floats import float_compare
from gpuemu.sass.lane.integers import joined

_SIGN64, _MAGNITUDE64, _QUIET64 = np.uint64(1 << 63), np.uint64((1 << 63) - 1), np.uint64(1 << 51)
_NAN64, _INFINITY64 = np.uint64(0xFFF8000000000000), np.uint64(0x7FF0000000000000)
_LEAST_NORMAL64, _HALF_UNIT, _WORD64 = np.uint64(1 << 52), np.uint64(1 << 31), np.uint64(32)
_NAN32, _ONE32, _SIGN32 = np.uint32(0x7FFFFFFF), np.uint32(1), np.uint32(0x80000000)
_ONE, _ZERO32, _NONE64 = np.float64(1), np.float32(0), np.uint64(0)
_NOTHING64, _DOWN = np.float64(0), 2


def _read64(a: Any, signs: int, place: int) -> Any:
    how = signs >> 2 * place
    if how & 1:
        a = a & _MAGNITUDE64
    if how & 2:
        a = a ^ _SIGN64
    return double_of(a)


def _is_nan64(a: Any) -> Any:
    return (a & _MAGNITUDE64) > _INFINITY64


def _or_nan(result: Any, first: Any, second: Any, third: Any) -> Any:
    """The bits of a result; the first NaN of these bits where it is NaN."""
    chosen = select(_is_nan64(third), third | _QUIET64, _NAN64)
    chosen = select(_is_nan64(second), second | _QUIET64, chosen)
    chosen = select(_is_nan64(first), first | _QUIET64, chosen)
    return select(result != result, chosen, bits64_of(result))


def double_add(a: Any, b: Any, signs: int) -> Any:
    """a + b."""
    return _or_nan(_read64(a, signs, 0) + _read64(b, signs, 1), b, a, a)


def double_multiply(a: Any, b: Any, signs: int) -> Any:
    """a x b."""
    return _or_nan(_read64(a, signs, 0) * _read64(b, signs, 1), b, a, a)


def double_multiply_add(a: Any, b: Any, c: Any, signs: int) -> Any:
    """a x b + c, rounded once."""
    total = fused64(_read64(a, signs, 0), _read64(b, signs, 1), _read64(c, signs, 2))
    return _or_nan(total, b, c, a)


def double_predicates(a: Any, b: Any, p: Any, code: int, way: int) -> Any:
    """A comparison joined with p, and its opposite joined with p."""
    truth = float_compare(a, b, code)
    return joined(truth, p, way), joined(opposite(truth), p, way)


def _ordered64(bits: Any) -> Any:
    """Numbers in the order of the float64, with -0 before +0."""
    return signed64(select(bits >= _SIGN64, bits ^ _MAGNITUDE64, bits))


def double_choice(a: Any, b: Any, smaller: int, signs: int) -> Any:
    """Whether a is the smaller (or larger) and not b, one NaN being neither; and whether both are NaN."""
    x, y = bits64_of(_read64(a, signs, 0)), bits64_of(_read64(b, signs, 1))
    nearer = _ordered64(x) < _ordered64(y) if smaller else _ordered64(x) > _ordered64(y)
    return opposite(_is_nan64(x)) & (_is_nan64(y) | nearer), _is_nan64(x) & _is_nan64(y)


def _flushed64(bits: Any) -> Any:
    return select((bits & _MAGNITUDE64) < _LEAST_NORMAL64, bits & _SIGN64, bits)


def _high_rounded(result: Any) -> Any:
    bits = _flushed64(bits64_of(result))
    size = bits & _MAGNITUDE64
    rounded = bits + select(size < _INFINITY64, _HALF_UNIT, _NONE64)
    return select(result != result, _NAN32, low(rounded >> _WORD64))


def reciprocal64(a: Any) -> Any:
    """The high word of 1 / x of the float64 with the high word a; subnormal numbers are zeros."""
    return _high_rounded(_ONE / double_of(_flushed64(wide(bits_of(a)) << _WORD64)))


def reciprocal_root64(a: Any) -> Any:
    """The high word of 1 / sqrt(x)."""
    return _high_rounded(_ONE / np.sqrt(double_of(_flushed64(wide(bits_of(a)) << _WORD64))))


def double_from_signed(a: Any) -> Any:
    """A signed word as float64."""
    return bits64_of(double(signed(a)))


def double_from_unsigned(a: Any) -> Any:
    """An unsigned word as float64."""
    return bits64_of(double(a))


def double_from_signed_pair(a: Any) -> Any:
    """The nearest float64 of a signed pair."""
    return bits64_of(double(signed64(a)))


def double_from_unsigned_pair(a: Any) -> Any:
    """The nearest float64 of an unsigned pair."""
    return bits64_of(double(a))


def double_from_single(a: Any, flush: int) -> Any:
    """A float32 as float64."""
    return bits64_of(double(flushed(a) if flush else a))


def single_from_double(a: Any) -> Any:
    """The nearest float32 of a float64."""
    return canonical(single(a))


def double_to_integer(a: Any, mode: int, least: int, most: int, for_nan: int) -> Any:
    """A float64 as a whole number from `least` to `most`, both within 33 bits."""
    x = _integral64(a, mode)
    nan = x != x
    x = select(x < double(least), double(least), select(x > double(most), double(most), x))
    return low(unsigned64(whole(select(nan, double(for_nan), x))))


def double_to_integral(a: Any, mode: int) -> Any:
    """A float64 as a whole float64."""
    x = _integral64(double_of(a), mode)
    return select(x != x, a | _QUIET64, bits64_of(x))


def _integral64(x: Any, mode: int) -> Any:
    if mode == 1:
        return np.trunc(x)
    if mode == 2:
        return np.floor(x)
    if mode == 3:
        return np.ceil(x)
    return np.rint(x)


def _directed(x: Any, mode: int) -> Any:
    """The bits of the float32 next to a float64 in a direction."""
    near = single(x)
    bits, back = bits_of(near), double(near)
    if mode == 1:
        far = select(x < back, bits < _SIGN32, (x > back) & (bits >= _SIGN32))
        return select(far, low(bits - _ONE32), bits)
    if mode == 2:
        down = select(bits >= _SIGN32, low(bits + _ONE32), low(bits - _ONE32))
        return select(x < back, select(near == _ZERO32, low(_SIGN32 | _ONE32), down), bits)
    if mode == 3:
        up = select(bits >= _SIGN32, low(bits - _ONE32), low(bits + _ONE32))
        return select(x > back, select(near == _ZERO32, _ONE32, up), bits)
    return bits


def from_signed_directed(a: Any, mode: int) -> Any:
    """A signed word as float32, rounded in a direction."""
    return _directed(double(signed(a)), mode)


def from_unsigned_directed(a: Any, mode: int) -> Any:
    """An unsigned word as float32, rounded in a direction."""
    return _directed(double(a), mode)


def _finished_directed(x: Any, flush: int, saturate: int, mode: int) -> Any:
    result = float_of(_directed(x, mode))
    result = flushed(result) if flush else result
    if saturate:
        one = np.float32(1)
        result = select(result > _ZERO32, select(result < one, result, one), _ZERO32)
    return canonical(result)


def multiply_directed(a: Any, b: Any, flush: int, saturate: int, mode: int) -> Any:
    """a x b of float32, rounded in a direction."""
    x, y = (flushed(a), flushed(b)) if flush else (a, b)
    return _finished_directed(double(x) * double(y), flush, saturate, mode)


def multiply_add_directed(a: Any, b: Any, c: Any, flush: int, saturate: int, mode: int) -> Any:
    """a x b + c of float32, rounded once, in a direction. The sum of float64 is rounded to odd, and then narrowed."""
    x, y, z = (flushed(a), flushed(b), flushed(c)) if flush else (a, b, c)
    product, last = double(x) * double(y), double(z)
    total = product + last
    part = total - product
    error = (product - (total - part)) + (last - part)
    bits = signed64(bits64_of(total))
    odd = (bits + ((signed64(bits64_of(error)) ^ bits) >> 63)) | 1
    found = select((error > _NOTHING64) | (error < _NOTHING64), double_of(unsigned64(odd)), total)
    if mode == _DOWN:  # a sum of numbers that cancel out is -0
        above = (bits64_of(product) < _SIGN64) & (bits64_of(last) < _SIGN64)
        found = select((total == _NOTHING64) & opposite(above), -_NOTHING64, found)
    return _finished_directed(found, flush, saturate, mode)
