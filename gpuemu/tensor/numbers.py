"""The tensor core's floating-point types: values and exponents of raw numbers, and the rules that all types share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gpuemu.isa.fragments import UintArray

Float32 = npt.NDArray[np.float32]
Int16 = npt.NDArray[np.int16]

# These two exponents mark zeros, and NaN and infinity. The sum of two factors' exponents is above HIGHEST if one factor
# is special, even if the other is zero. Otherwise it is below LOWEST if one factor is zero.
ZERO, SPECIAL = -1000, 3000
LOWEST, HIGHEST = -500, 500


@dataclass(frozen=True)
class Format:
    """A floating-point type. From the top, its bits are: ignored bits, sign, exponent, fraction, ignored bits."""

    bits: int
    exponent_bits: int
    fraction_bits: int
    ignored_bits: int = 0
    no_infinity: bool = False
    """Whether the type has no infinity, and only its largest number is NaN."""
    finite: bool = False
    """Whether every number is finite."""

    @property
    def sign(self) -> int:
        """Position of the sign bit."""
        return self.exponent_bits + self.fraction_bits + self.ignored_bits

    @property
    def largest_field(self) -> int:
        """Exponent field of NaN and infinity."""
        return (1 << self.exponent_bits) - 1

    @property
    def bias(self) -> int:
        """Difference between the exponent field and the exponent."""
        return self.largest_field >> 1

    @property
    def least_exponent(self) -> int:
        """Exponent of the smallest normal number and of all subnormals."""
        return 1 - self.bias

    @property
    def infinity(self) -> int:
        """Bits of infinity."""
        return self.largest_field << (self.fraction_bits + self.ignored_bits)

    @property
    def nan(self) -> int:
        """Bits of the NaN that the hardware generates."""
        return (1 << self.sign) - 1


FORMATS = {
    "f16": Format(16, 5, 10),
    "bf16": Format(16, 8, 7),
    "tf32": Format(32, 8, 10, ignored_bits=13),
    "f32": Format(32, 8, 23),
    "e5m2": Format(8, 5, 2),
    "e4m3": Format(8, 4, 3, no_infinity=True),
    "e3m2": Format(8, 3, 2, finite=True),
    "e2m3": Format(8, 2, 3, finite=True),
    "e2m1": Format(8, 2, 1, ignored_bits=2, finite=True),
}
"""Numbers of 6 bits are in the low bits of a byte, and numbers of 4 bits in its middle bits (PTX: mma with
.kind::f8f6f4).
"""


class Numerics(Protocol):
    """The fields of an architecture's tensor_core.numerics that are read."""

    @property
    def kept_fraction_bits(self) -> int: ...
    @property
    def products_per_block_16_bit(self) -> int: ...
    @property
    def products_per_block_tf32(self) -> int: ...
    @property
    def kept_fraction_bits_8_bit(self) -> int: ...
    @property
    def products_per_block_8_bit(self) -> int: ...
    @property
    def result_fraction_bits_8_bit(self) -> int: ...
    @property
    def kept_fraction_bits_4_bit(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Numbers:
    """Decoded numbers: their values (any float type, exact) and their exponents, which may be ZERO or SPECIAL."""

    values: Float32
    exponents: Int16

    def __getitem__(self, place: Any) -> Numbers:
        return Numbers(self.values[place], self.exponents[place])

    def finite(self) -> Numbers:
        """Return the numbers with zeros in place of NaN and infinities."""
        special = self.exponents == SPECIAL
        zeroed = np.where(special, np.int16(ZERO), self.exponents)
        return Numbers(np.where(special, np.float32(0), self.values), zeroed)


def decode(kind: str, raw: UintArray) -> Numbers:
    """Decode raw numbers of the type's width to values and exponents.

    A subnormal number has the exponent of the smallest normal one.
    """
    values = decode_values(kind, raw)
    field = (values.view(np.uint32) >> np.uint32(23) & np.uint32(0xFF)).astype(np.int16)
    exponents = np.maximum(field - np.int16(127), np.int16(FORMATS[kind].least_exponent))
    exponents[values == 0] = ZERO
    exponents[field == 0xFF] = SPECIAL
    return Numbers(values, exponents)


def decode_values(kind: str, raw: UintArray) -> Float32:
    """Decode raw numbers of the type's width to values."""
    form = FORMATS[kind]
    if kind == "f16" or form.bits == 8:
        return _table(kind).take(raw)
    words: npt.NDArray[np.uint32] = raw.astype(np.uint32, copy=False)
    if form.ignored_bits:
        words = words & np.uint32(0xFFFFFFFF << form.ignored_bits & 0xFFFFFFFF)
    if form.bits < 32:
        words = words << np.uint32(32 - form.bits)
    values: Float32 = words.view(np.float32)
    return values


@lru_cache(maxsize=8)
def _table(kind: str) -> Float32:
    """Return the values of all numbers of a type."""
    values: npt.NDArray[Any]
    if kind == "f16":
        return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    form, raw = FORMATS[kind], np.arange(256) >> FORMATS[kind].ignored_bits
    field, fraction = raw >> form.fraction_bits & form.largest_field, raw & ((1 << form.fraction_bits) - 1)
    significand = fraction + ((field > 0) << form.fraction_bits)
    values = np.ldexp(significand.astype(np.float64), np.maximum(field, 1) - form.bias - form.fraction_bits)
    if not form.finite:
        if not form.no_infinity:
            values[field == form.largest_field] = np.inf
        values[raw & form.nan > (form.nan - 1 if form.no_infinity else form.infinity)] = np.nan
    return np.where(raw >> (form.sign - form.ignored_bits) & 1, -values, values).astype(np.float32)
