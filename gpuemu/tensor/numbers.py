"""The tensor core's floating-point types: values and exponents of raw numbers, and what holds for all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gpuemu.isa.fragments import UintArray

Float32 = npt.NDArray[np.float32]
Int8 = npt.NDArray[np.int8]
Int16 = npt.NDArray[np.int16]

# Exponents are int16; these two stand for zeros, and for NaN and infinity. The sum of two factors' exponents
# is above HIGHEST if one is special, even if the other is zero; else below LOWEST if one is zero.
ZERO, SPECIAL = -1000, 3000
LOWEST, HIGHEST = -500, 500
NO_LOW_BIT = 200


@dataclass(frozen=True)
class Format:
    """A floating-point type; from the top, its bits are sign, exponent, fraction, and some not read."""

    bits: int
    exponent_bits: int
    fraction_bits: int
    ignored_bits: int = 0
    no_infinity: bool = False
    """Whether only the largest number of all is no number (NaN)."""

    @property
    def fraction_and_ignored_bits(self) -> int:
        """Bits below the exponent."""
        return self.fraction_bits + self.ignored_bits

    @property
    def largest_field(self) -> int:
        """The exponent's bits of NaN and infinity."""
        return (1 << self.exponent_bits) - 1

    @property
    def bias(self) -> int:
        """What the exponent's bits are above the exponent."""
        return self.largest_field >> 1

    @property
    def infinity(self) -> int:
        """Its bits."""
        return self.largest_field << self.fraction_and_ignored_bits

    @property
    def nan(self) -> int:
        """The bits of the one that the hardware makes."""
        return (1 << (self.bits - 1)) - 1


FORMATS = {
    "f16": Format(16, 5, 10),
    "bf16": Format(16, 8, 7),
    "tf32": Format(32, 8, 10, ignored_bits=13),
    "f32": Format(32, 8, 23),
    "e5m2": Format(8, 5, 2),
    "e4m3": Format(8, 4, 3, no_infinity=True),
}


class Numerics(Protocol):
    """What is read of an architecture's tensor_core.numerics."""

    @property
    def kept_fraction_bits(self) -> int: ...  # noqa: D102
    @property
    def products_per_block_16_bit(self) -> int: ...  # noqa: D102
    @property
    def products_per_block_tf32(self) -> int: ...  # noqa: D102
    @property
    def kept_fraction_bits_8_bit(self) -> int: ...  # noqa: D102
    @property
    def products_per_block_8_bit(self) -> int: ...  # noqa: D102
    @property
    def result_fraction_bits_8_bit(self) -> int: ...  # noqa: D102


class Bounds(NamedTuple):
    """Of finite numbers: all are multiples of 2^low, no exponent is above `high`, no magnitude above `most`."""

    low: int
    high: int
    most: float


NOTHING = Bounds(NO_LOW_BIT, ZERO, 0.0)
"""The bounds of zeros."""


def bounds_of(kind: str, raw: UintArray) -> Bounds | None:
    """The bounds of raw numbers; None if not all are finite."""
    layout = _layout(kind)
    if layout.ignores:
        raw = raw & layout.read
    magnitude = raw & layout.magnitude
    top = np.maximum.reduce(magnitude).item()
    if top >= layout.infinity:
        return None
    if top == 0:
        return NOTHING
    below, hidden = layout.below, 1 << layout.below
    fraction = np.bitwise_or.reduce(raw).item() & (hidden - 1) | hidden
    magnitude -= layout.one  # of which zeros make the largest number there is
    least = np.minimum.reduce(magnitude).item() + 1
    scale = max(top >> below, 1) - layout.bias - below  # of the last bit of the largest number
    significand = (top & (hidden - 1)) + (hidden if top >= hidden else 0)
    zeros = (fraction & -fraction).bit_length() - 1
    low = max(least >> below, 1) - layout.bias - below + zeros
    return Bounds(low, scale + below, math.ldexp(significand, scale))


class _Layout(NamedTuple):
    """Numbers of a Format at hand; arrays have no dimensions."""

    one: UintArray
    magnitude: UintArray
    read: UintArray
    ignores: bool
    infinity: int
    below: int
    bias: int


@lru_cache(maxsize=8)
def _layout(kind: str) -> _Layout:
    form = FORMATS[kind]
    dtype = np.uint16 if form.bits == 16 else np.uint32
    read = ((1 << form.bits) - 1) & ~((1 << form.ignored_bits) - 1)
    one, magnitude, every = (np.full((), x, dtype=dtype) for x in (1, form.nan, read))
    below = form.fraction_and_ignored_bits
    return _Layout(one, magnitude, every, form.ignored_bits > 0, form.infinity, below, form.bias)


@dataclass(frozen=True, eq=False)
class Numbers:
    """Decoded numbers: their values (any float type, exact) and their exponents, ZERO and SPECIAL among them."""

    values: Float32
    exponents: Int16

    def part(self, place: slice) -> Numbers:
        """Some of the rows."""
        return Numbers(self.values[place], self.exponents[place])

    def finite(self) -> Numbers:
        """With zeros in the place of NaN and infinities."""
        special = self.exponents == SPECIAL
        zeroed = np.where(special, np.int16(ZERO), self.exponents)
        return Numbers(np.where(special, np.float32(0), self.values), zeroed)


def decode(kind: str, raw: UintArray) -> Numbers:
    """Raw numbers with their values and exponents."""
    return Numbers(decode_values(kind, raw), decode_exponents(kind, raw))


def decode_values(kind: str, raw: UintArray) -> Float32:
    """The values of raw numbers."""
    form = FORMATS[kind]
    if kind == "f16" or form.bits == 8:
        return _table(kind)[0].take(raw)
    if form.ignored_bits:
        raw = raw & np.uint32(0xFFFFFFFF << form.ignored_bits & 0xFFFFFFFF)
    return (raw.astype(np.uint32) << np.uint32(32 - form.bits)).view(np.float32)


def decode_exponents(kind: str, raw: UintArray) -> Int16:
    """The exponents of raw numbers, ZERO and SPECIAL among them."""
    return _exponents(kind, raw) if FORMATS[kind].bits > 16 else _table(kind)[1].take(raw)


@lru_cache(maxsize=4)
def _table(kind: str) -> tuple[Float32, Int16]:
    """Values and exponents of all numbers of 8 or 16 bits."""
    if FORMATS[kind].bits == 8:
        return _table_of_8_bits(kind)
    raw = np.arange(1 << 16, dtype=np.uint16)
    values = raw.view(np.float16).astype(np.float32) if kind == "f16" else decode_values(kind, raw)
    return values, _exponents(kind, raw)


def _table_of_8_bits(kind: str) -> tuple[Float32, Int16]:
    form, raw = FORMATS[kind], np.arange(256, dtype=np.uint16)
    exponents = _exponents(kind, raw)
    field, fraction = raw >> form.fraction_bits & form.largest_field, raw & ((1 << form.fraction_bits) - 1)
    significand = fraction + ((field > 0).astype(np.uint16) << form.fraction_bits)
    scale = np.maximum(field, 1).astype(np.int32) - form.bias - form.fraction_bits
    values = np.ldexp(significand.astype(np.float64), scale)
    if not form.no_infinity:
        values[field == form.largest_field] = np.inf
    values[(exponents == SPECIAL) & (form.no_infinity | (fraction > 0))] = np.nan
    return np.where(raw & 0x80, -values, values).astype(np.float32), exponents


def _exponents(kind: str, raw: UintArray) -> Int16:
    form = FORMATS[kind]
    if form.ignored_bits:
        raw = raw & np.uint32(0xFFFFFFFF << form.ignored_bits & 0xFFFFFFFF)
    magnitude = raw & np.asarray(form.nan, dtype=raw.dtype)
    field = (magnitude >> np.asarray(form.fraction_and_ignored_bits, dtype=raw.dtype)).astype(np.int16)
    exponents = np.maximum(field, 1) - np.int16(form.bias)
    exponents[magnitude == 0] = ZERO
    exponents[magnitude == form.nan if form.no_infinity else field == form.largest_field] = SPECIAL
    return exponents
