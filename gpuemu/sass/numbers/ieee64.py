"""Bit-exact float64 sums, products and fused multiply-adds, rounded once in any direction, over arrays of lanes.

The error of a float64 operation is computed exactly beside it (Knuth's sum, Dekker's product) if no part of it can
overflow or underflow. Lanes outside that range are computed one by one with Python's integers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.lanes import any_lane, every_lane
from gpuemu.sass.numbers.ieee import F64, Rounding, to_odd, two_sum

NAN64 = np.uint64(0xFFF8000000000000)
"""The NaN of an invalid operation without a NaN operand."""

_QUIET = np.uint64(1 << 51)
_SPLITTER = float(2**27 + 1)
_LEAST_SAFE, _MOST_SAFE = 2.0**-900, 2.0**990
"""Products and addends between these bounds have exact errors, and factors up to the upper one can be split."""
_LEAST_PLAIN, _MOST_PLAIN = 2.0**-400, 2.0**400
"""If all operands are between these bounds, all of the above is true."""
# Array operations accept an array without dimensions faster than a number.
_SIGN_BIT = np.array(1, dtype=np.uint64)
_LEAST_DOUBLED, _MOST_DOUBLED = np.array([_LEAST_PLAIN, _MOST_PLAIN]).view(np.uint64) << np.uint64(1)
_SPAN_DOUBLED = np.array(_MOST_DOUBLED - _LEAST_DOUBLED)
_LEAST_DOUBLED = np.array(_LEAST_DOUBLED)
_SPLITTER_ARRAY = np.array(_SPLITTER)
_A_LITTLE_MORE_AND_LESS = np.array([[1 + 2.0**-52], [1 - 2.0**-52]])


def bits64(values: F64, *operands: F64) -> NDArray[np.uint64]:
    """Return the bits of a result. A NaN is the first NaN of `operands`, made quiet, or else NAN64."""
    bits = values.view(np.uint64)
    nan = values != values
    if any_lane(nan):
        chosen = np.full(bits.shape, NAN64)
        for operand in reversed(operands):
            theirs = np.broadcast_to(operand, bits.shape)
            chosen = np.where(np.isnan(theirs), theirs.view(np.uint64) | _QUIET, chosen)
        bits = np.where(nan, chosen, bits)
    return bits


def toward(s: F64, error: F64, rounding: Rounding) -> F64:
    """Round s + error in another direction, where s is that value rounded to nearest."""
    if rounding == "RN":
        return s
    below, above = error < 0, error > 0
    if rounding == "RZ":
        below, above = below & (s > 0), above & (s < 0)
    elif rounding == "RM":
        above = np.zeros_like(above)
    else:
        below = np.zeros_like(below)
    s = np.where(below, np.nextafter(s, -np.inf), s)
    return np.where(above, np.nextafter(s, np.inf), s)


def add64(a: F64, b: F64, rounding: Rounding) -> F64:
    """Return a + b."""
    if rounding == "RN":
        return a + b
    return fma64(a, np.ones(1), b, rounding)


def mul64(a: F64, b: F64, rounding: Rounding) -> F64:
    """Return a x b."""
    if rounding == "RN":
        return a * b
    # A zero of the product's own sign does not change the sum's sign, in any direction.
    return fma64(a, b, np.copysign(0.0, a * b), rounding)


def fma64(a: F64, b: F64, c: F64, rounding: Rounding = "RN") -> F64:
    """Return a x b + c of arrays that broadcast, rounded once.

    The low parts are summed to odd before the last addition (Boldo and Melquiond).
    """
    if not a.shape == b.shape == c.shape:
        a, b, c = np.broadcast_arrays(a, b, c)
    p = a * b
    u, u_low = two_sum(c, _product_error(a, b, p))
    t, t_low = two_sum(p, u)
    z, error = two_sum(t, to_odd(*two_sum(t_low, u_low)))
    result: F64 = toward(z, error, rounding)
    size_a, size_b, size_c = np.abs(a), np.abs(b), np.abs(c)
    least = np.minimum(np.minimum(size_a, size_b), size_c).min()
    most = np.maximum(np.maximum(size_a, size_b), size_c).max()
    if least >= _LEAST_PLAIN and most <= _MOST_PLAIN and rounding != "RM":
        return result
    size_p = np.abs(p)
    safe = (size_p >= _LEAST_SAFE) & (size_p <= _MOST_SAFE) & (size_a < _MOST_SAFE) & (size_b < _MOST_SAFE)
    safe &= (size_c <= _MOST_SAFE) & ((size_c >= _LEAST_SAFE) | (c == 0))
    finite_product = np.isfinite(a) & np.isfinite(b)
    # With an infinite or NaN operand or a zero product, the plain sum is exact. A finite product may overflow here,
    # which must not turn an infinite addend into NaN.
    easy = (a == 0) | (b == 0) | ~(finite_product & np.isfinite(c))
    plain = np.where(finite_product & np.isinf(c), c, p + c)
    result = np.where(safe, result, plain)
    if rounding == "RM":
        negative = np.signbit(p) | np.signbit(c)
        result = np.where((plain == 0) & (easy | (safe & (z == 0))) & negative, -0.0, result)
    for i in zip(*np.nonzero(~(safe | easy)), strict=True):
        result[i] = fma_of_one(float(a[i]), float(b[i]), float(c[i]), rounding)
    return result


class Fma64:
    """Computes a x b + c to nearest from `operands` [a b c, lane]: `fma64` with few, large operations.

    The exact value is s + e. Here s is the rounded sum of the rounded product and c, and e is the sum of both errors.
    The rounded e may be slightly off. If s + e is the same with e slightly larger and slightly smaller, it is the
    result.
    """

    def __init__(self, lanes: int):
        self.operands = np.zeros((3, lanes))
        self._doubled = np.empty((3, lanes), dtype=np.uint64)
        self._big = np.empty((2, lanes))
        self._parts = np.empty((2, 2, lanes))  # [a b, high low, lane]
        self._products = np.empty((2, 2, lanes))
        self._around = np.empty((2, lanes))

    def __call__(self) -> NDArray[np.uint64] | None:
        """Return the bits of the results, valid until the next call; None if `fma64` must compute them."""
        plain = self._plain()
        if plain or self._plain_or_zero():
            result = self._unless_near_tie(zeros=not plain)
            if result is not None:
                return result.view(np.uint64)
        return None

    def _plain(self) -> bool:
        """Whether all operands are in the range without overflow and underflow."""
        doubled = self._doubled
        np.left_shift(self.operands.view(np.uint64), _SIGN_BIT, out=doubled)
        np.subtract(doubled, _LEAST_DOUBLED, out=doubled)
        return every_lane(doubled <= _SPAN_DOUBLED)

    def _plain_or_zero(self) -> bool:
        """Whether all operands are in that range or zero; call it after `_plain`."""
        return every_lane((self._doubled <= _SPAN_DOUBLED) | (self.operands == 0))

    def _unless_near_tie(self, zeros: bool) -> F64 | None:
        """Return the results if they are certain. `zeros`: whether there may be a -0."""
        operands, big, parts, products, around = (
            self.operands, self._big, self._parts, self._products, self._around,
        )  # fmt: skip
        factors, (a, b, c) = operands[:2], operands
        # The halves of the factors and their exact products (Dekker), as in `_product_error`.
        np.multiply(factors, _SPLITTER_ARRAY, out=big)
        high, low = parts[:, 0], parts[:, 1]
        np.subtract(big, factors, out=high)
        np.subtract(big, high, out=high)
        np.subtract(factors, high, out=low)
        np.multiply(parts[0][:, None], parts[1], out=products)
        p = a * b
        (rest, cross_one), (cross_two, lowest) = products
        rest -= p
        rest += cross_one
        rest += cross_two
        rest += lowest
        # The sum of p and c with its error, as in `two_sum`.
        s = p + c
        t = s - p
        u = s - t
        p -= u
        np.subtract(c, t, out=t)
        t += p
        t += rest
        np.multiply(t, _A_LITTLE_MORE_AND_LESS, out=around)
        around += s
        upper, lower = around
        if zeros:
            exact = t == 0
            np.copyto(upper, s, where=exact)
            np.copyto(lower, s, where=exact)
        return upper if upper.tobytes() == lower.tobytes() else None


def _product_error(a: F64, b: F64, p: F64) -> Any:
    """Return a x b - p exactly (Dekker): the factors are split into halves of 26 bits."""
    big = a * _SPLITTER
    a_high = big - (big - a)
    a_low = a - a_high
    big = b * _SPLITTER
    b_high = big - (big - b)
    b_low = b - b_high
    return a_low * b_low - (((p - a_high * b_high) - a_low * b_high) - a_high * b_low)


def fma_of_one(a: float, b: float, c: float, rounding: Rounding) -> float:
    """Return a x b + c of finite numbers, rounded once, computed with integers."""
    (na, da), (nb, db), (nc, dc) = (x.as_integer_ratio() for x in (a, b, c))
    numerator = na * nb * dc + nc * da * db
    k = (da * db * dc).bit_length() - 1
    if numerator == 0:
        if a * b == 0 and nc == 0 and math.copysign(1, a) * math.copysign(1, b) == math.copysign(1, c):
            return c
        return -0.0 if rounding == "RM" else 0.0
    size = abs(numerator)
    quantum = max(size.bit_length() - 1 - k, -1022) - 52
    shift = quantum + k
    kept, rest = divmod(size, 1 << shift) if shift > 0 else (size << -shift, 0)
    if rounding == "RN":
        half = 1 << max(shift - 1, 0)
        kept += rest > half or (rest == half and kept & 1)
    elif rounding != "RZ":
        kept += rest > 0 and (rounding == "RP") == (numerator > 0)
    away = rounding == "RN" or (rounding != "RZ" and (rounding == "RP") == (numerator > 0))
    try:
        result = math.ldexp(kept, quantum)
    except OverflowError:
        result = math.inf if away else math.ldexp((1 << 53) - 1, 971)
    return result if numerator > 0 else -result
