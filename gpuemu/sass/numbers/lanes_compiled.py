"""What lanes do as loops that Numba compiles: the bits of `ieee`, `ieee64` and others, several times as fast.

See `gpuemu.base.compiled`. A function that returns False has met what is not ordinary, and its results are of no use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from gpuemu.sass.numbers.lanes_atomics import add_in_turn, exchange_in_turn, in_turn
from gpuemu.sass.numbers.lanes_floats import (
    DOWN,
    TO_ZERO,
    bits_of_double,
    choose64,
    divides_slowly,
    extremes32,
    fma32_toward,
    high_words,
    narrow8,
    narrow16,
    narrow_bf16,
    singles_of_64,
    sums64,
)
from gpuemu.sass.numbers.lanes_integers import (
    compare_halves,
    differences,
    dot,
    get_all_words,
    get_words,
    match_all,
    match_any,
    permute,
    put_all_words,
    put_words,
    saturate_two,
    sum_of_three,
)

__all__ = [
    "add_in_turn",
    "choose64",
    "compare_halves",
    "differences",
    "divides_slowly",
    "dot",
    "exchange_in_turn",
    "extremes",
    "extremes32",
    "fma32_toward",
    "fma64",
    "fma64_toward",
    "fma_halves",
    "get_all_words",
    "get_words",
    "high_words",
    "in_turn",
    "match_all",
    "match_any",
    "narrow8",
    "narrow16",
    "narrow_bf16",
    "permute",
    "put_all_words",
    "put_words",
    "saturate_two",
    "sines",
    "singles_of_64",
    "sum_of_three",
    "sums64",
]

_SPLITTER = float(2**27 + 1)
_MORE, _LESS = 1 + 2.0**-52, 1 - 2.0**-52


@njit(inline="always")  # type: ignore[untyped-decorator]
def _sum_of_product(x: Any, y: Any, z: Any) -> Any:
    """x y + z rounded to nearest twice, and the two numbers that the exact value is above that."""
    p = x * y
    big = x * _SPLITTER
    x_high = big - (big - x)
    x_low = x - x_high
    big = y * _SPLITTER
    y_high = big - (big - y)
    y_low = y - y_high
    rest = (((x_high * y_high - p) + x_high * y_low) + x_low * y_high) + x_low * y_low
    s = p + z
    t = s - p
    return s, rest, (p - (s - t)) + (z - t)


@njit(inline="always")  # type: ignore[untyped-decorator]
def _within(x: Any, least: float, most: float) -> Any:
    """Whether a size is zero or between these."""
    size = abs(x)
    return ((size >= least) & (size <= most)) | (size == 0)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def fma64(a: Any, b: Any, c: Any, least: float, most: float, result: Any) -> bool:
    """a x b + c to nearest; False where an operand is out of range or a result next to a tie: see Fma64."""
    doubtful = 0
    for i in range(a.size):
        x, y, z = a[i], b[i], c[i]
        s, of_product, of_sum = _sum_of_product(x, y, z)
        rest = of_product + of_sum
        upper, lower = s + rest * _MORE, s + rest * _LESS
        result[i] = upper if rest != 0 else s  # which may be -0
        within = _within(x, least, most) & _within(y, least, most) & _within(z, least, most)
        doubtful |= (within & (upper == lower)) ^ True
    return bool(doubtful == 0)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def fma64_toward(a: Any, b: Any, c: Any, least: float, most: float, mode: int, result: Any) -> bool:
    """The same rounded in a direction, as bits; False also where zeros may be -0."""
    doubtful = 0
    for i in range(a.size):
        x, y, z = a[i], b[i], c[i]
        s, of_product, of_sum = _sum_of_product(x, y, z)
        rest = of_product + of_sum
        back = rest - of_product
        last = (of_product - (rest - back)) + (of_sum - back)
        near = s + rest if rest != 0 else s
        # What the exact value is above `near`, or anything of that sign: moved is exact, and so is rest + last.
        moved = near - s
        above = (rest > moved) | ((rest == moved) & (last > 0))
        below = (rest < moved) | ((rest == moved) & (last < 0))
        within = _within(x, least, most) & _within(y, least, most) & _within(z, least, most)
        doubtful |= (within & ((near != 0) | (mode != DOWN))) ^ True
        bits = bits_of_double(near)
        if mode == TO_ZERO:
            bits -= np.int64(below if near > 0 else above)
        elif mode == DOWN:
            bits += np.int64(below) * (-1 if near > 0 else 1)
        else:
            bits += np.int64(above) * (1 if near > 0 else -1)
        result[i] = bits
    return bool(doubtful == 0)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _halves(words: Any, chosen: Any, brain: bool, bits: Any, singles: Any, values: Any) -> bool:
    """Two halves of each word as float64; whether all are finite. `chosen`: the shifts of both, and their signs."""
    n = words.size
    special = 0
    for half in range(2):
        shift, sign = np.uint32(chosen[half]), np.uint32(chosen[2 + half])
        for i in range(n):
            raw = (words[i] >> shift & np.uint32(0xFFFF)) ^ sign
            if brain:
                bits[half * n + i] = raw << np.uint32(16)
                special |= (raw & np.uint32(0x7F80)) == np.uint32(0x7F80)
            else:
                bits[half * n + i] = (raw & np.uint32(0x7FFF)) << np.uint32(13) | (
                    raw & np.uint32(0x8000)
                ) << np.uint32(16)
                special |= (raw & np.uint32(0x7C00)) == np.uint32(0x7C00)
    factor = 1.0 if brain else 2.0**112
    for i in range(2 * n):
        values[i] = np.float64(singles[i]) * factor
    return bool(special == 0)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def fma_halves(
    a: Any, b: Any, c: Any, chosen: Any, brain: bool, positive: bool, most: int, bits: Any, values: Any, result: Any
) -> bool:
    """a x b + c of the two halves of words, each rounded once; False if one is not finite, or a bfloat16 subnormal.

    `chosen`: how the halves of each operand are taken, see `_halves`. `positive`: negative results become 0; `most`:
    the bits of the largest result, of infinity or of 1. `bits`, `values`: room, uint32 [2 n] and
    float64 [4, 2 n].
    """
    n = a.size
    singles = bits.view(np.float32)
    fine = _halves(a, chosen[0], brain, bits, singles, values[0])
    fine &= _halves(b, chosen[1], brain, bits, singles, values[1])
    fine &= _halves(c, chosen[2], brain, bits, singles, values[2])
    if not fine:
        return False
    x, y, z, s = values[0], values[1], values[2], values[3]
    sums = s.view(np.int64)
    for i in range(2 * n):
        p = x[i] * y[i]
        s[i] = p + z[i]
        t = s[i] - p
        z[i] = (p - (s[i] - t)) + (z[i] - t)
    errors = z.view(np.int64)
    other = np.int64(0)
    for i in range(2 * n):
        # To odd: cut off toward zero, the last bit 1 where something was lost.
        lost = np.int64(z[i] != 0)
        bits64 = sums[i] + (((errors[i] ^ sums[i]) >> 63) & -lost) | lost
        size = bits64 & 0x7FFFFFFFFFFFFFFF
        sign = bits64 >> 48 & 0x8000
        if brain:
            normal = ((size + ((1 << 44) - 1) + (size >> 45 & 1)) >> 45) - ((1023 - 127) << 7)
            half = np.int64(min(normal, 0x7F80)) if size else np.int64(0)
            other |= np.int64(size > 0) & np.int64(half < 0x80)
        else:
            normal = ((size + ((1 << 41) - 1) + (size >> 42 & 1)) >> 42) - ((1023 - 15) << 10)
            small = np.int64(np.rint(abs(s[i]) * 2.0**24))
            half = small if size < ((1023 - 14) << 52) else np.int64(min(normal, 0x7C00))
        half = min(half, np.int64(most))
        bits[i] = np.uint32(0 if positive and sign else half | sign)
    for i in range(n):
        result[i] = bits[i] | bits[n + i] << np.uint32(16)
    return bool(other == 0)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def sines(values: Any, sines: Any, cosines: Any, zeros: bool, result: Any) -> bool:
    """MUFU.SIN of float32 by `multifunction._turns`, step by step; False where one is not finite.

    `zeros`: whole turns give zeros, as signed.
    """
    steps = sines.size
    least = np.float32(2.0**-126)
    fine = True
    for i in range(values.size):
        x = np.float64(values[i]) if abs(values[i]) >= least else np.copysign(0.0, np.float64(values[i]))
        finite = abs(x) < 2.0**62
        fine &= finite
        x = x if finite else 0.0
        part = x - np.rint(x)
        scaled = part * np.float64(steps)
        nearest = np.rint(scaled)
        rest = (scaled - nearest) * (2 * np.pi / steps)
        index = np.int64(nearest) & (steps - 1)
        square = rest * rest
        change = square * (1 / 24)
        change -= 0.5
        change *= square
        change *= sines[index]
        square = 1.0 - square * (1 / 6)
        rest *= square
        rest *= cosines[index]
        turned = np.float32(np.copysign(0.0, x) if zeros and part == 0 else (change + rest) + sines[index])
        result[i] = turned if abs(turned) >= least else np.copysign(np.float32(0), turned)
    return fine


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def extremes(a: Any, b: Any, c: Any, bits: Any, exponent: int, minimum: bool, any_nan: bool, result: Any) -> None:
    """`half_extremes` of int16: the smallest or largest of three. `bits`: of each what is kept, and what is changed."""
    keep_a, keep_b, keep_c = bits[0], bits[1], bits[2]
    turn_a, turn_b, turn_c = bits[3], bits[4], bits[5]
    # The largest of keys with all bits turned is the smallest; no number has either end's key.
    turn = np.int16(-1) if minimum else np.int16(0)
    nan = np.int16(0x7FFF) if any_nan else np.int16(-0x8000)
    low = np.int16(exponent)
    seven = np.int16(0x7FFF)
    for i in range(a.size):
        x, y, z = (a[i] & keep_a) ^ turn_a, (b[i] & keep_b) ^ turn_b, (c[i] & keep_c) ^ turn_c
        x_key = nan if (x & seven) > low else x ^ ((x >> 15) & seven) ^ turn
        y_key = nan if (y & seven) > low else y ^ ((y >> 15) & seven) ^ turn
        z_key = nan if (z & seven) > low else z ^ ((z >> 15) & seven) ^ turn
        found = np.int16(max(max(x_key, y_key), z_key))
        key = np.int16(found ^ turn)
        none = (found == seven) | (found == np.int16(-0x8000))
        result[i] = seven if none else key ^ ((key >> 15) & seven)
