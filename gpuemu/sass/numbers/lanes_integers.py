"""Words of lanes moved, taken apart and compared in loops that Numba compiles; see `gpuemu.base.compiled`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def put_words(values: Any, lanes: Any, rows: Any) -> None:
    """Registers `rows` of some lanes from their words, one lane's behind the other's."""
    count = rows.shape[0]
    for k in range(count):
        for i in range(lanes.size):
            rows[k, lanes[i]] = values[count * i + k]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def get_words(rows: Any, lanes: Any, values: Any) -> None:
    """The inverse of `put_words`."""
    count = rows.shape[0]
    for k in range(count):
        for i in range(lanes.size):
            values[count * i + k] = rows[k, lanes[i]]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def put_all_words(values: Any, rows: Any) -> None:
    """`put_words` of all lanes, two or four registers."""
    a, b, c, d = rows[0], rows[1], rows[-2], rows[-1]
    if rows.shape[0] == 4:
        for i in range(a.size):
            a[i], b[i], c[i], d[i] = values[4 * i], values[4 * i + 1], values[4 * i + 2], values[4 * i + 3]
    else:
        for i in range(a.size):
            a[i], b[i] = values[2 * i], values[2 * i + 1]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def get_all_words(rows: Any, values: Any) -> None:
    """The inverse of `put_all_words`."""
    a, b, c, d = rows[0], rows[1], rows[-2], rows[-1]
    if rows.shape[0] == 4:
        for i in range(a.size):
            values[4 * i], values[4 * i + 1], values[4 * i + 2], values[4 * i + 3] = a[i], b[i], c[i], d[i]
    else:
        for i in range(a.size):
            values[2 * i], values[2 * i + 1] = a[i], b[i]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def dot(a: Any, b: Any, c: Any, count: int, skipped: int, result: Any) -> None:
    """c + the sum of `count` products of the parts of a and b of each lane; those of b from `skipped` on."""
    each_a, each_b = a.size // result.size, b.size // result.size
    for i in range(result.size):
        total = np.int32(0)
        for k in range(count):
            total += np.int32(a[each_a * i + k]) * np.int32(b[each_b * i + skipped + k])
        result[i] = np.uint32(total) + c[i]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def differences(a: Any, b: Any, c: Any, result: Any) -> None:
    """c + the sum of |a - b| of the four bytes of each lane."""
    for i in range(result.size):
        total = np.int32(0)
        for k in range(4):
            total += abs(np.int32(a[4 * i + k]) - np.int32(b[4 * i + k]))
        result[i] = np.uint32(total) + c[i]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def permute(a: Any, selectors: Any, c: Any, result: Any) -> None:
    """Bytes of a and of c, for each a nibble of the selector; its bit 3 asks for the byte's sign, eight times."""
    for i in range(result.size):
        both = np.uint64(a[i]) | np.uint64(c[i]) << np.uint64(32)
        chosen = np.uint32(0)
        for k in range(4):
            nibble = selectors[i] >> np.uint32(4 * k) & np.uint32(15)
            byte = np.uint32(both >> np.uint64((nibble & np.uint32(7)) << np.uint32(3)) & np.uint64(0xFF))
            sign = np.uint32(0xFF) * (byte >> np.uint32(7))
            chosen |= (sign if nibble & np.uint32(8) else byte) << np.uint32(8 * k)
        result[i] = chosen


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def saturate_two(a: Any, b: Any, c: Any, least: int, most: int, width: int, result: Any) -> None:
    """a above b, both clamped and of so many bits, below what is left of c shifted up."""
    low, high, kept = np.int32(least), np.int32(most), np.uint32((1 << width) - 1)
    shift, twice = np.uint32(width), np.uint32(2 * width & 31)  # c is zero where all bits are of a and b
    for i in range(result.size):
        x, y = np.uint32(min(max(a[i], low), high)), np.uint32(min(max(b[i], low), high))
        result[i] = (x & kept) << shift | (y & kept) | c[i] << twice


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def sum_of_three(
    a: Any, b: Any, c: Any, turned: Any, ones: int, first: Any, second: Any, result: Any, carry: Any, carry_of_two: Any
) -> None:
    """a + b + c + `ones` + two truths in 32 bits, and whether it reaches 2^32 and 2^33. `turned`: bits to be turned."""
    turn_a, turn_b, turn_c = turned[0], turned[1], turned[2]
    for i in range(result.size):
        total = np.uint64(a[i] ^ turn_a) + np.uint64(b[i] ^ turn_b) + np.uint64(c[i] ^ turn_c)
        total += np.uint64(ones) + np.uint64(first[i]) + np.uint64(second[i])
        result[i] = np.uint32(total)
        carry[i] = total > np.uint64(0xFFFFFFFF)
        carry_of_two[i] = total > np.uint64(0x1FFFFFFFF)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def match_any(values: Any, here: Any, result: Any) -> None:
    """For each lane a bit for each lane of its warp that is here and has the same value."""
    for first in range(0, values.size, 32):
        present = np.uint32(0)
        for lane in range(32):
            present |= np.uint32(here[first + lane]) << np.uint32(lane)
        for lane in range(32):
            same = np.uint32(0)
            for other in range(32):
                same |= np.uint32(values[first + other] == values[first + lane]) << np.uint32(other)
            result[first + lane] = same & present


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def match_all(values: Any, here: Any, result: Any, outcome: Any) -> None:
    """For each lane whether all of its warp that are here have the same value, and if so, which lanes those are."""
    for first in range(0, values.size, 32):
        leader = 0
        while leader < 31 and not here[first + leader]:
            leader += 1
        present, differs = np.uint32(0), False
        for lane in range(32):
            present |= np.uint32(here[first + lane]) << np.uint32(lane)
            differs |= bool(here[first + lane]) & (values[first + lane] != values[first + leader])
        for lane in range(32):
            outcome[first + lane] = not differs
            result[first + lane] = np.uint32(0) if differs else present


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def compare_halves(
    a: Any, b: Any, chosen: Any, magnitudes: Any, infinity: int, least: int, holds: int, outcome: Any
) -> None:
    """Whether a comparison of the halves of two words holds: [lane, half].

    `chosen`: see `lanes_compiled.fma_halves`; `magnitudes`: what is kept of each. `least`: below it counts as 0.
    `holds`: a bit each for smaller, equal, larger and NaN.
    """
    for half in range(2):
        shift_a, shift_b = np.uint32(chosen[0, half]), np.uint32(chosen[1, half])
        sign_a, sign_b = np.uint32(chosen[0, 2 + half]), np.uint32(chosen[1, 2 + half])
        for i in range(a.size):
            x_bits = np.int32(((a[i] >> shift_a & np.uint32(0xFFFF)) & magnitudes[0]) ^ sign_a)
            y_bits = np.int32(((b[i] >> shift_b & np.uint32(0xFFFF)) & magnitudes[1]) ^ sign_b)
            size_x, size_y = np.int64(x_bits & 0x7FFF), np.int64(y_bits & 0x7FFF)
            nan = (size_x > infinity) | (size_y > infinity)
            size_x = size_x if size_x >= least else np.int64(0)
            size_y = size_y if size_y >= least else np.int64(0)
            x = -size_x if x_bits & 0x8000 else size_x
            y = -size_y if y_bits & 0x8000 else size_y
            which = 3 if nan else 1 + (x > y) - (x < y)
            outcome[i, half] = holds >> which & 1
