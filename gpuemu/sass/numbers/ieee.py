"""Bit-exact IEEE 754 arithmetic over arrays of lanes: exact sums and products, rounded once in any direction.

A result wider than its format is stored as a float64 rounded to odd (`to_odd`). The odd last bit records that smaller
bits were cut off, so the later rounding to the narrow format is the only one. Rounding modes are those of SASS: RN to
nearest even, RZ to zero, RM to minus, RP to plus infinity. All functions expect np.errstate(all="ignore") around them
and return new arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.lanes import any_lane, every_lane

Rounding = Literal["RN", "RZ", "RM", "RP"]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

NAN32 = np.uint32(0x7FFFFFFF)
NAN16 = np.uint16(0x7FFF)
"""The NaN that the hardware returns for every NaN result of 32 bits, and of 16 bits (float16 and bfloat16)."""


def word(value: int) -> NDArray[np.uint32]:
    """Return a constant for array operations, which accept an array without dimensions faster than a number."""
    return np.array(value, dtype=np.uint32)


_MAGNITUDE = word(0x7FFFFFFF)
_ONE, _SIXTEEN = word(1), word(16)
_SIXTY_THREE, _LAST = np.array(63), np.array(1)
_BELOW_TIE32, _TIE32 = np.array(0x1FFFFFFF), np.array(0x10000000)
_BELOW_BF16, _TIE_BF16 = word(0xFFFF), word(0x8000)
_NEAR_HALF_BF16 = word(0x7FFF)
_ZERO32 = np.float32(0)
_ONE32 = np.float32(1)
_LEAST_NORMAL32 = np.array(2.0**-126, dtype=np.float32)
_LEAST_EXACT_BF16 = word((127 - 100) << 23)
_EXACT_BF16 = word(0x7F800000 - ((127 - 100) << 23))


@dataclass(frozen=True)
class Format:
    """A binary format: bits of precision, exponent of the smallest normal number, largest finite number."""

    precision: int
    least_exponent: int
    largest: float


FLOAT32 = Format(24, -126, (2 - 2.0**-23) * 2.0**127)
FLOAT16 = Format(11, -14, 65504.0)
BFLOAT16 = Format(8, -126, (2 - 2.0**-7) * 2.0**127)
E4M3 = Format(4, -6, 448.0)
E5M2 = Format(3, -14, 57344.0)
TF32 = Format(11, -126, (2 - 2.0**-10) * 2.0**127)

TO_INTEGRAL: dict[Rounding, Callable[[Any], Any]] = {
    "RN": np.rint,
    "RZ": np.trunc,
    "RM": np.floor,
    "RP": np.ceil,
}


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a + b rounded to nearest, and its error; their sum is exact (Knuth). With infinities, the error is NaN."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def to_odd(s: F64, error: F64) -> F64:
    """Return the exact value s + error as a float64 rounded to odd; `error` is at most half a unit of `s`."""
    inexact = np.abs(error) > 0
    if not np.count_nonzero(inexact):
        return s
    bits = s.view(np.int64)
    # Cut off toward zero, then set the last bit to 1.
    odd = error.view(np.int64) ^ bits
    odd >>= _SIXTY_THREE
    odd += bits
    odd |= _LAST
    return np.where(inexact, odd, bits).view(np.float64)


def quantize(values: F64, to: Format, rounding: Rounding) -> F64:
    """Round float64 values to a narrower format, as float64; too large values become what the mode requires."""
    _, exponents = np.frexp(values)
    quanta = np.maximum(exponents - 1, to.least_exponent) - (to.precision - 1)
    rounded: F64 = np.ldexp(TO_INTEGRAL[rounding](np.ldexp(values, -quanta)), quanta)
    over = (np.abs(rounded) > to.largest) & np.isfinite(values)
    if np.count_nonzero(over):
        infinite = {"RN": (True, True), "RZ": (False, False), "RM": (True, False), "RP": (False, True)}
        below, above = (np.inf if end else to.largest for end in infinite[rounding])
        rounded[over] = np.where(values[over] < 0, -below, above)
    return rounded


def narrow32(values: F64, rounding: Rounding) -> F32:
    """Round float64 values, exact or rounded to odd, to float32."""
    if rounding == "RN":
        return values.astype(np.float32)
    return quantize(values, FLOAT32, rounding).astype(np.float32)


def _lowered_zeros(result: Any, exact: Any, *addends: Any) -> Any:
    """Correct zeros for RM, where a sum that is exactly zero is -0 unless all addends are +0."""
    return np.where((exact == 0) & reduce(np.logical_or, map(np.signbit, addends)), -abs(result), result)


def all_normal32(values: F32) -> bool:
    """Whether no value is NaN, zero, subnormal or the smallest normal number, to which smaller results may round up."""
    return every_lane(np.abs(values) > _LEAST_NORMAL32)


def fma32(a: F32, b: F32, c: F32, rounding: Rounding) -> F32:
    """Return a x b + c, rounded once.

    The product is exact in float64. With RN, a second rounding from the float64 sum to float32 can be wrong only if
    that sum is half way between two float32 numbers. These lanes are computed again through a sum rounded to odd, and
    so are subnormal ones, whose half-way points are elsewhere.
    """
    product = a.astype(np.float64) * b.astype(np.float64)
    if rounding != "RN":
        return _sum32(product, c, rounding)
    s = product + c.astype(np.float64)
    result = s.astype(np.float32)
    return result if _as_rounded(s) and all_normal32(result) else _corrected(product, c, s, result)


def _as_rounded(s: F64) -> bool:
    """Whether no sum is half way between two float32 numbers, where a second rounding may be wrong."""
    return not any_lane((s.view(np.int64) & _BELOW_TIE32) == _TIE32)


def _corrected(product: F64, c: Any, s: F64, result: F32) -> F32:
    """Recompute the lanes in which the rounding of the sum s = product + c may have been wrong."""
    doubtful = (s.view(np.int64) & _BELOW_TIE32) == _TIE32
    doubtful |= (np.abs(result) <= _LEAST_NORMAL32) & (s != 0)
    if any_lane(doubtful):
        (p, z), where = _at(doubtful, product, c)
        result.reshape(-1)[where] = to_odd(*two_sum(p, z)).astype(np.float32)
    return result


def _at(chosen: NDArray[np.bool_], *operands: Any) -> tuple[list[F64], NDArray[np.intp]]:
    """Return the operands at the chosen places as float64, and these places as flat indices."""
    where = chosen.reshape(-1).nonzero()[0]
    shape = chosen.shape
    fitting = [x if x.shape == shape else np.broadcast_to(x, shape) for x in operands]
    return [x.reshape(-1).take(where).astype(np.float64) for x in fitting], where


def _sum32(a: F64, b: F32, rounding: Rounding) -> F32:
    """Return a + b rounded to float32 in a direction; a is a product of two float32 numbers."""
    s, error = two_sum(a, b.astype(np.float64))
    result = narrow32(to_odd(s, error), rounding)
    return _lowered_zeros(result, s, a, b) if rounding == "RM" else result


def flushed32(values: F32) -> F32:
    """Replace subnormal float32 values by zeros of their sign (.FTZ); return the same array if there are none."""
    small = np.abs(values) < _LEAST_NORMAL32
    if np.count_nonzero(small):
        if np.count_nonzero(values) == values.size - np.count_nonzero(small):
            return values  # only zeros are small
        return np.where(small, np.copysign(_ZERO32, values), values)
    return values


def saturated32(values: F32) -> F32:
    """Clamp values to [+0, 1], with NaN becoming +0 (.SAT)."""
    return np.where(values > 0, np.minimum(values, _ONE32), _ZERO32)


def bits32(values: F32) -> NDArray[np.uint32]:
    """Return the bits of a result, with every NaN made canonical. Overwrites its argument."""
    bits = values.view(np.uint32)
    nan = values != values
    if np.count_nonzero(nan):
        bits[nan] = NAN32
    return bits


# -- 16 bits ----------------------------------------------------------------------------------------------------


def narrow16(values: Any, positive: bool = False) -> NDArray[np.uint16]:
    """Round float32 or float64 values to the bits of float16, to nearest even; NaN becomes 0x7fff.

    `positive`: negative numbers become 0.
    """
    if positive:
        values = _positive(values)
    half: NDArray[np.uint16] = values.astype(np.float16).view(np.uint16)
    nan = values != values
    if any_lane(nan):
        half[nan] = NAN16
    return half


def _positive(values: Any) -> Any:
    return np.where(values <= 0, _ZERO32, values)


def narrow_bf16(values: F32, positive: bool = False) -> NDArray[np.uint16]:
    """Round float32 values to the bits of bfloat16, to nearest even; NaN becomes 0x7fff.

    `positive`: see `narrow16`.
    """
    if positive:
        values = _positive(values)
    bits = values.view(np.uint32)
    half = bits >> _SIXTEEN
    half &= _ONE
    half += bits
    half += _NEAR_HALF_BF16
    half >>= _SIXTEEN
    nan = values != values
    if np.count_nonzero(nan):
        half[nan] = NAN16
    return half.astype(np.uint16)


def fma16(a: F64, b: F64, c: F64) -> F64:
    """Return a x b + c of float16 numbers in float64; `narrow16` rounds it like the exact value.

    The product is exact. If the sum is inexact, it is beyond float16, or the product is below 2^-30 of c. In the second
    case, sum and exact value are both much nearer to c, a float16 number, than to any rounding tie.
    """
    return a * b + c


def fma_bf16(a: F32, b: F32, c: F32) -> Any:
    """Return a x b + c of bfloat16 numbers as float32; `narrow_bf16` rounds it like the exact value.

    The product is exact in float32 if it is in range, and always in float64.
    """
    product: Any = a * b
    size = product.view(np.uint32) & _MAGNITUDE
    size -= _LEAST_EXACT_BF16
    if every_lane(size < _EXACT_BF16):
        result = product + c
    else:
        product = np.multiply(a, b, dtype=np.float64)
        result = np.add(product, c).astype(np.float32)
    doubtful = _ties_of_bf16(result)
    if any_lane(doubtful):
        where = doubtful.reshape(-1).nonzero()[0]
        near = result.reshape(-1).take(where)
        p, z = (np.broadcast_to(x, result.shape).reshape(-1).take(where) for x in (product, c))
        s, error = two_sum(p, z)
        # In float32 the sum is `near`. The sum in float64 may differ, and then its difference shows the exact value's
        # side.
        _move_aside(result, where, near, error if p.dtype == np.float32 else np.where(s == near, error, s - near))
    return result


def mul_bf16(a: F32, b: F32) -> F32:
    """Return a x b of bfloat16 numbers as float32; `narrow_bf16` rounds it like the exact value."""
    exact: F64 = np.multiply(a, b, dtype=np.float64)
    result = exact.astype(np.float32)
    doubtful = _ties_of_bf16(result)
    if any_lane(doubtful):
        where = doubtful.reshape(-1).nonzero()[0]
        near = result.reshape(-1).take(where)
        _move_aside(result, where, near, exact.reshape(-1).take(where) - near)
    return result


def _ties_of_bf16(values: F32) -> NDArray[np.bool_]:
    """Whether values are half way between two bfloat16 numbers."""
    ties: NDArray[np.bool_] = (values.view(np.uint32) & _BELOW_BF16) == _TIE_BF16
    return ties


def _move_aside(result: F32, where: NDArray[np.intp], near: F32, error: Any) -> None:
    """Move results that equal `near`, where a further rounding would tie, to the exact value's side.

    `error`: the difference of the exact values from `near`, or any number of the same sign.
    """
    away = np.sign(error)
    if np.count_nonzero(away):
        away *= np.sign(near)
        result.reshape(-1)[where] = (near.view(np.int32) + away.astype(np.int32)).view(np.float32)
