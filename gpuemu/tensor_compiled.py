"""The products of `gpuemu.tensor` as loops that Numba compiles: the same bits, several times as fast.

Only imported where Numba is installed (`pip install "gpuemu-sm[fast]"`), and only once a run has shown that it is a
long one: loading Numba takes longer than a thousand products in NumPy. `gpuemu.tensor` describes the arithmetic.

All functions take registers as uint32 [register, 32 x warps] and write D to an array of its own. Loops over arrays
have no branches and a fixed length, so that they become vector instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_LANES, _ROWS, _COLUMNS, _OUTPUTS = 32, 16, 8, 128
_MOST_PRODUCTS, _MOST_KEPT = 16, 25
"""Of a block, and of the fraction bits: sums of so many products fit 32 bits."""
_NO_EXPONENT = -1000
_LOWEST = -500


def fits(k: int, block: int, kept: int) -> bool:
    """Whether `float_product` can do blocks of so many products, of which so many fraction bits are kept."""
    return block <= _MOST_PRODUCTS and block & (block - 1) == 0 and k % block == 0 and kept <= _MOST_KEPT


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _has_special(registers: Any, bits: int, infinity: int) -> bool:
    """Whether any number is NaN or infinity."""
    found = 0
    for i in range(registers.shape[0]):
        for j in range(registers.shape[1]):
            word = registers[i, j]
            found |= (word & np.uint32(infinity)) == np.uint32(infinity)
            if bits == 16:
                found |= (word >> np.uint32(16) & np.uint32(infinity)) == np.uint32(infinity)
    return found != 0


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _decode(bits: Any, values: Any, exponents: Any, narrower: int) -> None:
    """Float32 bits, all flat, to values and exponents; `narrower`: what is to be added to the exponents.

    Float16 has its exponent and fraction where float32 has them, but counts its exponents from another number.
    """
    singles = bits.view(np.float32)
    factor = np.float32(2.0**narrower)
    for i in range(bits.size):
        field = bits[i] >> 23 & 0xFF
        exponent = max(field, 1) - 127 + narrower
        exponents[i] = exponent if bits[i] & 0x7FFFFFFF else _NO_EXPONENT
        values[i] = singles[i] * factor


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _widened(word: int, e: int, half: bool, element_bits: int) -> int:
    """Element e of a word as the upper bits of a float32."""
    if element_bits == 32:
        return word & 0xFFFFE000
    raw = word >> (16 * e) & 0xFFFF
    return (raw & 0x7FFF) << 13 | (raw & 0x8000) << 16 if half else raw << 16


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _sums_narrow(a: Any, b: Any, scales: Any, totals: Any) -> None:
    """Sums of aligned products, cut toward zero; in float32, for factors that are float16."""
    totals[:] = 0
    for column in range(b.shape[0]):
        sums, scale = totals[column], scales[column]
        for i in range(b.shape[1]):
            factors, other = a[i], b[column, i]
            for row in range(a.shape[1]):
                sums[row] = np.int32(sums[row] + np.int32(factors[row] * other * scale[row]))


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _sums_wide(a: Any, b: Any, scales: Any, totals: Any) -> None:
    """As `_sums_narrow`, in float64."""
    totals[:] = 0
    for column in range(b.shape[0]):
        sums, scale = totals[column], scales[column]
        for i in range(b.shape[1]):
            factors, other = a[i], np.float64(b[column, i])
            for row in range(a.shape[1]):
                sums[row] = np.int32(sums[row] + np.int32(np.float64(factors[row]) * other * scale[row]))


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _tops(a: Any, b: Any, tops: Any) -> None:
    """The largest exponent of each sum of products."""
    tops[:] = 2 * _NO_EXPONENT
    for column in range(b.shape[0]):
        top = tops[column]
        for i in range(b.shape[1]):
            exponents, other = a[i], b[column, i]
            for row in range(a.shape[1]):
                top[row] = max(top[row], np.int32(exponents[row] + other))


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _scales(tops: Any, exponents: Any, kept: int, bits: Any, inverse_bits: Any) -> None:
    """Units in 1, and the unit, as bits of float64: 2^(kept - the largest exponent, the addend's among them)."""
    for i in range(tops.size):
        top = max(tops[i], exponents[i])
        top = top if top > _LOWEST else 0
        tops[i] = top
        bits[i] = np.int64(kept - top + 1023) << 52
        inverse_bits[i] = np.int64(top - kept + 1023) << 52


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _add(totals: Any, addends: Any, scales: Any, sums: Any) -> None:
    """The aligned addends to the sums, in units."""
    for i in range(totals.size):
        sums[i] = np.float64(totals[i]) + np.trunc(np.float64(addends[i]) * scales[i])


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _cut_singles(sums: Any, sum_bits: Any, units: Any, singles: Any, bits: Any) -> bool:
    """Sums cut toward zero to float32, zero is +0; whether one is neither normal nor zero."""
    for i in range(sum_bits.size):
        sum_bits[i] &= -(1 << 29)
    for i in range(sums.size):
        singles[i] = sums[i] * units[i]
    other = np.int32(0)
    for i in range(bits.size):
        size = bits[i] & 0x7FFFFFFF
        least = np.int32(size - 1 < 0x7FFFFF) & np.int32(size > 0)
        other |= least | np.int32(size >= 0x7F800000)
    return bool(other != 0)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _nearest_halves(sums: Any, sum_bits: Any, units: Any, halves: Any) -> None:
    """Sums as bits of float16, to nearest even; zero is +0."""
    for i in range(sums.size):
        sums[i] *= units[i]
    for i in range(sums.size):
        bits = sum_bits[i] & 0x7FFFFFFFFFFFFFFF
        sign = sum_bits[i] >> 48 & 0x8000
        normal = ((bits + ((1 << 41) - 1) + (bits >> 42 & 1)) >> 42) - ((1023 - 15) << 10)
        small = np.int64(np.rint(abs(sums[i]) * 2.0**24))
        half = small if bits < ((1023 - 14) << 52) else min(normal, 0x7C00)
        halves[i] = (half | sign) if half else 0


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def float_product(
    d: Any, a: Any, b: Any, c: Any, k: int, element_bits: int, exponent_bits: int, half: bool, kept: int, block: int
) -> bool:
    """D = A x B + C of m16n8k`k`; False, and D of no use, where the arithmetic is not the ordinary one.

    That is so if an addend is NaN or infinity, and if a float32 result is subnormal or becomes infinity.
    `element_bits`, `exponent_bits`: of A and B, 32 bits for tf32. `half`: whether C and D are float16. `kept`,
    `block`: the fraction bits kept, and the products of a block.
    """
    narrow = exponent_bits == 5
    infinity = 0x7C00 if narrow else 0x7F80 if element_bits == 16 else 0x7F800000
    if _has_special(a, element_bits, infinity) or _has_special(b, element_bits, infinity):
        return False
    if _has_special(c, 16 if half else 32, 0x7C00 if half else 0x7F800000):
        return False
    narrower, each, blocks = (112 if narrow else 0), 32 // element_bits, max(k // block, 1)
    last, shift = block - 1, 0  # a power of two
    while block >> shift > 1:
        shift += 1
    a_bits, a_values = np.empty((blocks, block, _ROWS), np.int32), np.empty((blocks, block, _ROWS), np.float32)
    b_bits, b_values = np.empty((blocks, _COLUMNS, block), np.int32), np.empty((blocks, _COLUMNS, block), np.float32)
    a_exponents, b_exponents = np.empty_like(a_bits), np.empty_like(b_bits)
    flat_a_bits, flat_a_values, flat_a_exponents = a_bits.reshape(-1), a_values.reshape(-1), a_exponents.reshape(-1)
    flat_b_bits, flat_b_values, flat_b_exponents = b_bits.reshape(-1), b_values.reshape(-1), b_exponents.reshape(-1)
    shape = (_COLUMNS, _ROWS)
    bits, values, exponents = np.empty(shape, np.int32), np.empty(shape, np.float32), np.empty(shape, np.int32)
    flat_bits, flat_values, flat_exponents = bits.reshape(-1), values.reshape(-1), exponents.reshape(-1)
    tops, totals, scale_bits = np.empty(shape, np.int32), np.empty(shape, np.int32), np.empty(shape, np.int64)
    flat_tops, flat_totals, flat_scale_bits = tops.reshape(-1), totals.reshape(-1), scale_bits.reshape(-1)
    scales = scale_bits.view(np.float64)
    units = np.empty(_OUTPUTS)
    unit_bits = units.view(np.int64)
    flat_scales, narrow_scales = scales.reshape(-1), np.empty(shape, np.float32)
    sums = np.empty(_OUTPUTS)
    sum_bits = sums.view(np.int64)
    for first in range(0, c.shape[1], _LANES):
        for register in range(a.shape[0]):
            for group in range(8):
                for lane in range(4):
                    word = np.int64(a[register, first + 4 * group + lane])
                    for e in range(each):
                        at = each * lane + e + (register >> 1) * 4 * each
                        row, part = group + (register & 1) * 8, at >> shift
                        a_bits[part, at & last, row] = _widened(word, e, narrow, element_bits)
        for register in range(b.shape[0]):
            for group in range(8):
                for lane in range(4):
                    word = np.int64(b[register, first + 4 * group + lane])
                    for e in range(each):
                        at = each * lane + e + register * 4 * each
                        b_bits[at >> shift, group, at & last] = _widened(word, e, narrow, element_bits)
        for register in range(c.shape[0]):
            for group in range(8):
                for lane in range(4):
                    word = np.int64(c[register, first + 4 * group + lane])
                    if half:
                        for e in range(2):
                            bits[2 * lane + e, group + 8 * register] = _widened(word, e, True, 16)
                    else:
                        bits[2 * lane + (register & 1), group + (register >> 1) * 8] = word
        _decode(flat_a_bits, flat_a_values, flat_a_exponents, narrower)
        _decode(flat_b_bits, flat_b_values, flat_b_exponents, narrower)
        for part in range(blocks):
            _decode(flat_bits, flat_values, flat_exponents, 112 if half else 0)
            _tops(a_exponents[part], b_exponents[part], tops)
            _scales(flat_tops, flat_exponents, kept, flat_scale_bits, unit_bits)
            if narrow:
                for column in range(_COLUMNS):
                    for row in range(_ROWS):
                        narrow_scales[column, row] = scales[column, row]
                _sums_narrow(a_values[part], b_values[part], narrow_scales, totals)
            else:
                _sums_wide(a_values[part], b_values[part], scales, totals)
            _add(flat_totals, flat_values, flat_scales, sums)
            if half:
                _nearest_halves(sums, sum_bits, units, flat_bits)
                if part + 1 < blocks:
                    for i in range(_OUTPUTS):
                        if flat_bits[i] & 0x7C00 == 0x7C00:
                            return False
                        flat_bits[i] = _widened(flat_bits[i], 0, True, 16)
            else:
                if _cut_singles(sums, sum_bits, units, flat_bits.view(np.float32), flat_bits):
                    return False
        for register in range(d.shape[0]):
            for group in range(8):
                for lane in range(4):
                    if half:
                        row, column = group + 8 * register, 2 * lane
                        word = np.int64(bits[column, row]) | np.int64(bits[column + 1, row]) << 16
                    else:
                        word = np.int64(bits[2 * lane + (register & 1), group + (register >> 1) * 8])
                    d[register, first + 4 * group + lane] = np.uint32(word & 0xFFFFFFFF)
    return True


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def integer_product(d: Any, a: Any, b: Any, c: Any, k: int, a_signed: bool, b_signed: bool, saturates: bool) -> None:
    """D = A x B + C of m16n8k`k` of 8-bit integers; sums wrap in 32 bits, or stop at the ends."""
    left, right = np.empty((_ROWS, 32), np.int32), np.empty((_COLUMNS, 32), np.int32)
    for first in range(0, c.shape[1], _LANES):
        for register in range(a.shape[0]):
            for lane in range(_LANES):
                word = np.int64(a[register, first + lane])
                for e in range(4):
                    number = word >> (8 * e) & 0xFF
                    number -= (number >> 7 << 8) if a_signed else 0
                    left[lane // 4 + (register & 1) * 8, lane % 4 * 4 + e + (register >> 1) * 16] = number
        for register in range(b.shape[0]):
            for lane in range(_LANES):
                word = np.int64(b[register, first + lane])
                for e in range(4):
                    number = word >> (8 * e) & 0xFF
                    number -= (number >> 7 << 8) if b_signed else 0
                    right[lane // 4, lane % 4 * 4 + e + register * 16] = number
        for register in range(4):
            for lane in range(_LANES):
                row, column = lane // 4 + (register >> 1) * 8, lane % 4 * 2 + (register & 1)
                products = np.int32(0)
                for i in range(k):
                    products += left[row, i] * right[column, i]
                total = np.int64(products) + np.int64(np.int32(c[register, first + lane]))
                if saturates:
                    total = min(max(total, np.int64(-(1 << 31))), np.int64((1 << 31) - 1))
                d[register, first + lane] = np.uint32(total & 0xFFFFFFFF)
