"""Matrix products of floats as a plain loop that Numba compiles: the bits of `gpuemu.tensor.sums`, but faster.

gpuemu imports this module only if Numba is installed and the run has proved to be long, because loading Numba takes as
long as thousands of products in NumPy. Numba keeps the compiled code on disk and compiles again when this file changes.
Therefore this file imports nothing of gpuemu, and every value that may change elsewhere is an argument.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_ROWS, _COLUMNS, _LANES = 16, 8, 32
_ZERO, _SPECIAL, _LOWEST, _HIGHEST = -1000, 3000, -500, 500
"""Exponents of zeros and of NaN and infinities, and the bounds of the sum of any two other exponents."""
_POWERS = 2.0 ** np.arange(-600, 601)
_ONE = 600
"""Index of 1 in _POWERS."""


@njit(error_model="numpy")  # type: ignore[untyped-decorator]
def _decode_elements(elements: Any, form: Any, values: Any, exponents: Any) -> None:
    """Convert raw numbers to values and exponents; a subnormal has the exponent of the smallest normal number."""
    read, shift, special, infinity, bias, sign = form[1], form[2], form[3], form[4], form[5], form[6]
    words = np.empty(elements.size, np.uint32)  # sign, exponent and fraction in the layout of float32
    singles, scale = words.view(np.float32), _POWERS[_ONE + 127 - bias]
    for i in range(elements.size):
        raw = np.int64(elements[i])
        words[i] = np.uint32((raw & read) << shift | (raw >> sign & 1) << 31)
    for i in range(elements.size):
        size = np.int64(words[i] & np.uint32(0x7FFFFFFF))
        exponent = _SPECIAL if size >= special else max(size >> 23, 1) - bias
        exponents[i] = _ZERO if size == 0 else exponent
        end = np.copysign(np.inf, singles[i]) if size == infinity else np.nan
        values[i] = end if size >= special else singles[i] * scale


@njit(error_model="numpy")  # type: ignore[untyped-decorator]
def _decode(words: Any, form: Any, values: Any, exponents: Any) -> None:
    """Decode the elements of words, lowest bits first."""
    if form[0] == 8:
        _decode_elements(words.reshape(-1).view(np.uint8), form, values.reshape(-1), exponents.reshape(-1))
    elif form[0] == 16:
        _decode_elements(words.reshape(-1).view(np.uint16), form, values.reshape(-1), exponents.reshape(-1))
    else:
        _decode_elements(words.reshape(-1), form, values.reshape(-1), exponents.reshape(-1))


@njit(error_model="numpy")  # type: ignore[untyped-decorator]
def _exponents(sums: Any, least: int, exponents: Any) -> None:
    """Compute the exponents of float64 sums; only zeros have less than `least`."""
    bits = sums.view(np.int64)
    for i in range(bits.size):
        field = bits[i] >> 52 & 0x7FF
        exponent = _SPECIAL if field == 0x7FF else max(field - 1023, least)
        exponents[i] = _ZERO if field == 0 else exponent


@njit(error_model="numpy")  # type: ignore[untyped-decorator]
def _round(sums: Any, half: bool) -> None:
    """Cut sums toward zero to float32, or round them to the nearest float16; too large values become infinity."""
    bits = sums.view(np.int64)
    for n in range(sums.size):
        exact = sums[n]
        if half:
            bits[n] = (bits[n] + ((1 << 41) - 1) + (bits[n] >> 42 & 1)) & -(1 << 42)
            near = np.rint(exact * 2.0**24) * 2.0**-24 + 0.0 if abs(exact) < 2.0**-14 else sums[n]
            sums[n] = np.copysign(np.inf, near) if abs(near) > 65504 else near
        else:
            bits[n] &= -(1 << 29)
            near = np.trunc(exact * 2.0**149) * 2.0**-149 + 0.0 if abs(exact) < 2.0**-126 else sums[n]
            sums[n] = np.float32(near)


# Each sum consists of whole numbers below 2^53. Their order does not matter, so the processor may add several at once.
@njit(error_model="numpy", fastmath={"reassoc"})  # type: ignore[untyped-decorator]
def _sums(x: Any, x_exponents: Any, y: Any, y_exponents: Any, block: int, kept: int, sums: Any, exponents: Any) -> None:
    """Add the products of a block, x [j] times y [column, block, j], to unrounded sums with these exponents."""
    for column in range(_COLUMNS):
        top = exponents[column]
        for j in range(x.size):
            top = max(top, np.int32(x_exponents[j] + y_exponents[column, block, j]))
        total = sums[column]
        if top > _HIGHEST:  # IEEE arithmetic gives the result of infinities and NaN
            for j in range(x.size):
                total += x[j] * y[column, block, j]
        else:
            bits = kept - (top if top > _LOWEST else 0)
            unit = _POWERS[_ONE + bits]  # how many units make 1
            total = np.trunc(total * unit)
            for j in range(x.size):
                total += np.trunc(x[j] * y[column, block, j] * unit)
            total = total * _POWERS[_ONE - bits] + 0.0  # -0 becomes +0
        sums[column] = total


@njit(
    "void(uint32[:,::1], uint32[:,::1], uint32[:,::1], intp[:,:,::1], int64[:,::1], int64, int64, float32[:,::1])",
    cache=True, error_model="numpy",
)  # type: ignore[untyped-decorator]  # fmt: skip
def float_product(a: Any, b: Any, c: Any, rows: Any, forms: Any, kept: int, products: int, d: Any) -> None:
    """Compute D = A x B + C of registers [registers, 32 x warps]. D is float32, one per element of C. NaN: 0x7FFFFFFF.

    `rows`: the rows of B for a sparse A (see `gpuemu.tensor.sums`), otherwise empty. `forms`: the types of A, B and C,
    see `mma._forms`. `products`: number of products that are summed at once.
    """
    each, pairs = 32 // forms[0, 0], 32 // forms[2, 0]
    blocks, sparse = 2 * each * len(a) // products, len(rows) > 0
    x_words, y_words = np.empty((_ROWS, 2 * len(a)), np.uint32), np.empty((_COLUMNS, 4 * len(b)), np.uint32)
    x, x_exponents = np.empty((_ROWS, blocks, products)), np.empty((_ROWS, blocks, products), np.int32)
    y, y_exponents = np.empty((_COLUMNS, 4 * each * len(b))), np.empty((_COLUMNS, 4 * each * len(b)), np.int32)
    z = np.empty((_COLUMNS, blocks, products)) if sparse else y.reshape(_COLUMNS, blocks, products)
    z_exponents = np.empty(z.shape, np.int32) if sparse else y_exponents.reshape(z.shape)
    sums, exponents = np.empty((_ROWS, _COLUMNS)), np.empty((_ROWS, _COLUMNS), np.int32)
    c_values, c_exponents, d_bits = np.empty(d.shape), np.empty(d.shape, np.int32), d.view(np.uint32)
    _decode(c, forms[2], c_values, c_exponents)
    for warp in range(a.shape[1] // _LANES):
        # Lane 4 g + t holds row g, or column g of B: see `gpuemu.isa.fragments`.
        for g in range(8):
            first = _LANES * warp + 4 * g
            for r in range(len(a)):
                for t in range(4):
                    x_words[8 * (r % 2) + g, 4 * (r // 2) + t] = a[r, first + t]
            for r in range(len(b)):
                for t in range(4):
                    y_words[g, 4 * r + t] = b[r, first + t]
            for v in range(4):
                for t in range(4):
                    sums[8 * (v // 2) + g, 2 * t + v % 2] = c_values[v // pairs, pairs * (first + t) + v % pairs]
        _decode(x_words, forms[0], x, x_exponents)
        _decode(y_words, forms[1], y, y_exponents)
        for block in range(blocks):
            _exponents(sums.reshape(-1), 1 - forms[2, 5], exponents.reshape(-1))
            for row in range(_ROWS):
                if sparse:
                    for column in range(_COLUMNS):
                        for j in range(products):
                            other = rows[warp, row, block * products + j]
                            z[column, block, j] = y[column, other]
                            z_exponents[column, block, j] = y_exponents[column, other]
                _sums(x[row, block], x_exponents[row, block], z, z_exponents, block, kept, sums[row], exponents[row])
            _round(sums.reshape(-1), pairs == 2)
        for g in range(8):
            for v in range(4):
                for t in range(4):
                    at = pairs * (_LANES * warp + 4 * g + t) + v % pairs
                    found = sums[8 * (v // 2) + g, 2 * t + v % 2]
                    d[v // pairs, at] = found
                    if found != found:
                        d_bits[v // pairs, at] = 0x7FFFFFFF
