"""The tensor core's floating-point types: values and exponents of raw numbers, and what holds for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gpuemu.isa.fragments import UintArray

Float32 = npt.NDArray[np.float32]
Int16 = npt.NDArray[np.int16]

# These two exponents stand for zeros, and for NaN and infinity. The sum of two factors' exponents
# is above HIGHEST if one is special, even if the other is zero; else below LOWEST if one is zero.
ZERO, SPECIAL = -1000, 3000
LOWEST, HIGHEST = -500, 500


@dataclass(frozen=True)
class Format:
    """A floating-point type; from the top, its bits are some not read, sign, exponent, fraction, and some not read."""

    bits: int
    exponent_bits: int
    fraction_bits: int
    ignored_bits: int = 0
    no_infinity: bool = False
    """Whether only the largest number of all is no number (NaN)."""
    finite: bool = False
    """Whether all are numbers."""

    @property
    def sign(self) -> int:
        """The place of the sign's bit."""
        return self.exponent_bits + self.fraction_bits + self.ignored_bits

    @property
    def largest_field(self) -> int:
        """The exponent's bits of NaN and infinity."""
        return (1 << self.exponent_bits) - 1

    @property
    def bias(self) -> int:
        """What the exponent's bits are above the exponent."""
        return self.largest_field >> 1

    @property
    def least_exponent(self) -> int:
        """That of the smallest normal number, and of all subnormal ones."""
        return 1 - self.bias

    @property
    def infinity(self) -> int:
        """Its bits."""
        return self.largest_field << (self.fraction_bits + self.ignored_bits)

    @property
    def nan(self) -> int:
        """The bits of the one that the hardware makes."""
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
"""Of 6 bits, the lower ones of a byte; of 4 bits, the middle ones (PTX: mma with .kind::f8f6f4)."""


class Numerics(Protocol):
    """What is read of an architecture's tensor_core.numerics."""

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
    """Decoded numbers: their values (any float type, exact) and their exponents, ZERO and SPECIAL among them."""

    values: Float32
    exponents: Int16

    def __getitem__(self, place: Any) -> Numbers:
        return Numbers(self.values[place], self.exponents[place])

    def finite(self) -> Numbers:
        """With zeros in the place of NaN and infinities."""
        special = self.exponents == SPECIAL
        zeroed = np.where(special, np.int16(ZERO), self.exponents)
        return Numbers(np.where(special, np.float32(0), self.values), zeroed)


def decode(kind: str, raw: UintArray) -> Numbers:
    """Raw numbers, of the type's width, with their values and exponents.

    A subnormal number has the exponent of the smallest normal one.
    """
    values = decode_values(kind, raw)
    field = (values.view(np.uint32) >> np.uint32(23) & np.uint32(0xFF)).astype(np.int16)
    exponents = np.maximum(field - np.int16(127), np.int16(FORMATS[kind].least_exponent))
    exponents[values == 0] = ZERO
    exponents[field == 0xFF] = SPECIAL
    return Numbers(values, exponents)


def decode_values(kind: str, raw: UintArray) -> Float32:
    """The values of raw numbers, of the type's width."""
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
    """The values of all numbers of a type."""
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
