"""Floats of lanes rounded in loops that Numba compiles, beside those of `lanes_compiled`; see `gpuemu.base.compiled`.

A function that returns False has met what is not ordinary, and its results are of no use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

NEAREST, TO_ZERO, DOWN, UP = range(4)
_TIE, _BELOW_TIE = 0x10000000, 0x1FFFFFFF


def _bitcast(source: Any, target: Any, kind: Any) -> Any:
    """The same bits as a number of another type."""

    @intrinsic  # type: ignore[untyped-decorator]
    def cast(context: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], kind)

        return target(source), generate

    return cast


bits_of_double = _bitcast(types.float64, types.int64, ir.IntType(64))
_double_of_bits = _bitcast(types.uint64, types.float64, ir.DoubleType())
single_of_bits = _bitcast(types.uint32, types.float32, ir.FloatType())
bits_of_single = _bitcast(types.float32, types.uint32, ir.IntType(32))


@njit(inline="always")  # type: ignore[untyped-decorator]
def flushed(x: Any) -> Any:
    """Zero, with the sign, of subnormal float32."""
    return np.float32(np.copysign(np.float32(0), x)) if abs(x) < np.float32(2.0**-126) else x


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def fma32_toward(a: Any, b: Any, c: Any, mode: int, flush: bool, saturate: bool, result: Any) -> bool:
    """a x b + c of float32 as bits, rounded in a direction; False where a result is subnormal, infinite or NaN.

    Also where one to nearest may be off by a second rounding, and at zeros whose sign the direction may change.
    """
    least = np.float32(2.0**-126)
    fine = True
    for i in range(a.size):
        x, y, addend = a[i], b[i], c[i]
        if flush:
            x, y, addend = flushed(x), flushed(y), flushed(addend)
        p, z = np.float64(x) * np.float64(y), np.float64(addend)
        s = p + z
        t = s - p
        error = (p - (s - t)) + (z - t)
        near = np.float32(s)
        rest = s - np.float64(near)
        rest = rest if rest != 0 else error  # what the exact value is above `near`, or anything of that sign
        fine &= ((abs(near) > least) & (abs(near) < np.inf)) | ((s == 0) & (mode != DOWN))
        bits = np.int64(bits_of_single(near))
        if mode == NEAREST:
            fine &= ((bits_of_double(s) & _BELOW_TIE) != _TIE) | (error == 0)
        elif mode == TO_ZERO:
            bits -= np.int64((rest < 0) if near > 0 else (rest > 0)) & np.int64(near != 0)
        elif mode == DOWN:
            bits += np.int64(rest < 0) * (-1 if near > 0 else 1)
        else:
            bits += np.int64(rest > 0) * (1 if near > 0 else -1) * np.int64(near != 0)
        if saturate:
            bits = np.int64(0) if bits > 0x7FFFFFFF else min(bits, np.int64(0x3F800000))
        result[i] = np.uint32(bits)
    return fine


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def extremes32(a: Any, b: Any, minimum: bool, flush: bool, result: Any) -> None:
    """The smaller or larger of float32 as bits, a number rather than NaN; -0 is smaller than +0."""
    for i in range(a.size):
        x, y = a[i], b[i]
        if flush:
            x, y = flushed(x), flushed(y)
        x_bits, y_bits = np.int64(bits_of_single(x)), np.int64(bits_of_single(y))
        # Negative numbers are the smaller the larger their bits are.
        x_key = x_bits if x_bits < 0x80000000 else 0x7FFFFFFF - x_bits
        y_key = y_bits if y_bits < 0x80000000 else 0x7FFFFFFF - y_bits
        first = (x_key < y_key) == minimum
        bits = x_bits if first else y_bits
        bits = bits if y == y else x_bits
        bits = bits if x == x else y_bits
        result[i] = np.uint32(bits if x == x or y == y else 0x7FFFFFFF)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def narrow8(values: Any, fraction_bits: int, most: int, result: Any) -> None:
    """Float32, flat, to nearest in 8 bits, at most `most` in size; NaN becomes 0x7f."""
    bias = (1 << (6 - fraction_bits)) - 1
    shift = 23 - fraction_bits
    half, least = (1 << (shift - 1)) - 1, (128 - bias) << 23
    unit = 2.0 ** (bias - 1 + fraction_bits)
    for i in range(values.size):
        bits = np.int64(bits_of_single(values[i]))
        size = bits & 0x7FFFFFFF
        normal = ((size + half + (size >> shift & 1)) >> shift) - ((127 - bias) << fraction_bits)
        small = np.int64(np.rint(min(abs(np.float64(values[i])), 1.0) * unit))
        code = min(small if size < least else normal, np.int64(most)) | (bits >> 24 & 0x80)
        result[i] = np.uint8(0x7F if size > 0x7F800000 else code)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def narrow16(values: Any, positive: bool, result: Any) -> None:
    """Float32, flat, rounded to the bits of float16, to nearest even; NaN becomes 0x7fff.

    `positive`: negative numbers become 0.
    """
    bits = values.view(np.uint32)
    for i in range(values.size):
        size = np.int64(bits[i] & np.uint32(0x7FFFFFFF))
        sign = np.int64(bits[i] >> np.uint32(16) & np.uint32(0x8000))
        normal = ((size + 0xFFF + (size >> 13 & 1)) >> 13) - (112 << 10)
        small = np.int64(np.rint(min(abs(np.float64(values[i])), 1.0) * 2.0**24))
        half = small if size < (113 << 23) else np.int64(min(normal, np.int64(0x7C00)))
        code = np.int64(0) if positive and sign else half | sign
        result[i] = np.uint16(0x7FFF if size > 0x7F800000 else code)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def narrow_bf16(values: Any, positive: bool, result: Any) -> None:
    """The same in bfloat16."""
    for i in range(values.size):
        bits = np.int64(bits_of_single(values[i]))
        rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        rounded = np.int64(0) if positive and bits > 0x7FFFFFFF else rounded
        result[i] = np.uint16(0x7FFF if (bits & 0x7FFFFFFF) > 0x7F800000 else rounded)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def sums64(a_low: Any, a_high: Any, b_low: Any, b_high: Any, changes: Any, multiply: bool, low: Any, high: Any) -> bool:
    """a + b or a x b of float64 in two words each, to nearest; False if one is NaN.

    `changes`: what is kept of the high words of a and b, and which of their bits are changed.
    """
    fine = True
    for i in range(a_low.size):
        x_high, y_high = a_high[i] & changes[0] ^ changes[2], b_high[i] & changes[1] ^ changes[3]
        x = _double_of_bits(np.uint64(a_low[i]) | np.uint64(x_high) << np.uint64(32))
        y = _double_of_bits(np.uint64(b_low[i]) | np.uint64(y_high) << np.uint64(32))
        s = x * y if multiply else x + y
        fine &= s == s
        bits = np.uint64(bits_of_double(s))
        low[i] = np.uint32(bits)
        high[i] = np.uint32(bits >> np.uint64(32))
    return fine


@njit(inline="always")  # type: ignore[untyped-decorator]
def _ordered(bits: Any) -> Any:
    """Whole numbers in the order of float64 with such bits, -0 before +0."""
    return bits ^ ((bits >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF))


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def choose64(
    a_low: Any, a_high: Any, b_low: Any, b_high: Any, changes: Any, minimum: bool, first: Any, second: Any
) -> None:
    """See `double._choice`: whether a is the result rather than b, and whether both are NaN; `changes` as above."""
    for i in range(a_low.size):
        x_high, y_high = a_high[i] & changes[0] ^ changes[2], b_high[i] & changes[1] ^ changes[3]
        x = _double_of_bits(np.uint64(a_low[i]) | np.uint64(x_high) << np.uint64(32))
        y = _double_of_bits(np.uint64(b_low[i]) | np.uint64(y_high) << np.uint64(32))
        x_key, y_key = _ordered(bits_of_double(x)), _ordered(bits_of_double(y))
        nearer = (x_key < y_key) if minimum else (x_key > y_key)
        first[i] = (x == x) & ((y != y) | nearer)
        second[i] = (x != x) & (y != y)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def high_words(words: Any, root: bool, result: Any) -> None:
    """1 / x, or 1 / sqrt(x), of float64 by high words; see `multifunction._high_word`."""
    least = 2.0**-1022
    for i in range(words.size):
        x = _double_of_bits(np.uint64(words[i]) << np.uint64(32))
        if abs(x) < least:
            x = np.copysign(0.0, x)
        y = 1.0 / (np.sqrt(x) if root else x)
        if abs(y) < least:
            y = np.copysign(0.0, y)
        bits = np.uint64(bits_of_double(y)) + np.uint64(0x80000000 if abs(y) < np.inf else 0)
        result[i] = np.uint32(bits >> np.uint64(32)) if y == y else np.uint32(0x7FFFFFFF)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def divides_slowly(a: Any, b: Any, outcome: Any) -> None:
    """See `floating.fchk`; the bits of float32."""
    for i in range(a.size):
        top, bottom = np.int64(a[i] >> np.uint32(23) & 0xFF), np.int64(b[i] >> np.uint32(23) & 0xFF)
        quotient = top - bottom
        slow = (top < 26) | (top == 255) | (bottom < 1) | (bottom > 252)
        outcome[i] = slow | (quotient > 125) | (quotient < -124)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def singles_of_64(integers: Any, mode: int, most: float, result: Any) -> None:
    """Whole numbers of 64 bits, all of them less than `most`, as the bits of float32, rounded in a direction."""
    back = np.zeros(1, dtype=integers.dtype)
    for i in range(integers.size):
        value = integers[i]
        near = np.float32(value)
        # What is rounded up to the end of the type has no counterpart in it.
        back[0] = np.float32(0) if near >= most else near
        below, above = (near >= most) | (value < back[0]), (near < most) & (value > back[0])
        bits = np.int64(bits_of_single(near))
        if mode == TO_ZERO:
            bits -= np.int64(below if near > 0 else above)
        elif mode == DOWN:
            bits += np.int64(below) * (-1 if near > 0 else 1)
        elif mode == UP:
            bits += np.int64(above) * (1 if near > 0 else -1)
        result[i] = np.uint32(bits)
