"""Floating-point operands of the tensor core, decoded: values, exponents, and what is known of all of them.

`Operand` is A or B of many warps. It is decoded only as far as someone asks, and can be kept: products in blocks use
a fragment several times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuemu.fragments import LANES, Fragment, Index, MmaMode, UintArray, mma_mode

Float32 = npt.NDArray[np.float32]
Int8 = npt.NDArray[np.int8]
Int16 = npt.NDArray[np.int16]

# Exponents are int16; these two stand for zeros, and for NaN and infinity. The sum of two factors' exponents
# is above HIGHEST if one is special, even if the other is zero; else below LOWEST if one is zero.
ZERO, SPECIAL = -1000, 3000
LOWEST, HIGHEST = -500, 500
NO_LOW_BIT = 200
_ZERO_OF_8_BITS, _SPREAD_OF_8_BITS, _SPECIAL_OF_8_BITS = -64, 60, 60
_LEAST_EXPONENT_F16 = -14
_ROWS, _COLUMNS = 16, 8


@dataclass(frozen=True)
class Format:
    """A floating-point type; from the top, its bits are sign, exponent, fraction, and some not read."""

    bits: int
    exponent_bits: int
    fraction_bits: int
    ignored_bits: int = 0

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
}


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
    if kind == "f16":
        return _table(kind)[0].take(raw)
    if form.ignored_bits:
        raw = raw & np.uint32(0xFFFFFFFF << form.ignored_bits & 0xFFFFFFFF)
    return (raw.astype(np.uint32) << np.uint32(32 - form.bits)).view(np.float32)


def decode_exponents(kind: str, raw: UintArray) -> Int16:
    """The exponents of raw numbers, ZERO and SPECIAL among them."""
    return _exponents(kind, raw) if FORMATS[kind].bits > 16 else _table(kind)[1].take(raw)


@lru_cache(maxsize=2)
def _table(kind: str) -> tuple[Float32, Int16]:
    """Values and exponents of all numbers of 16 bits."""
    raw = np.arange(1 << 16, dtype=np.uint16)
    values = raw.view(np.float16).astype(np.float32) if kind == "f16" else decode_values(kind, raw)
    return values, _exponents(kind, raw)


@lru_cache(maxsize=1)
def _small_table() -> Int8:
    """The exponents of all float16 as Operand.small_exponents has them."""
    exponents = _table("f16")[1]
    small = np.where(exponents == ZERO, _ZERO_OF_8_BITS, exponents - _LEAST_EXPONENT_F16)
    return np.where(exponents == SPECIAL, _SPECIAL_OF_8_BITS, small).astype(np.int8)


def _exponents(kind: str, raw: UintArray) -> Int16:
    form = FORMATS[kind]
    if form.ignored_bits:
        raw = raw & np.uint32(0xFFFFFFFF << form.ignored_bits & 0xFFFFFFFF)
    magnitude = raw & np.asarray(form.nan, dtype=raw.dtype)
    field = (magnitude >> np.asarray(form.fraction_and_ignored_bits, dtype=raw.dtype)).astype(np.int16)
    exponents = np.maximum(field, 1) - np.int16(form.bias)
    exponents[magnitude == 0] = ZERO
    exponents[field == form.largest_field] = SPECIAL
    return exponents


class SmallExponents(NamedTuple):
    """Exponents in 8 bits: `wide` [k, 8, 16 x warps] of A and of B, less `base`.

    The sum of two of them is negative if one is a zero's.
    """

    wide: Int8
    base: int


class Operand:
    """A or B of a mode, of many warps: raw registers [registers, 32 x warps], of which a copy is kept.

    Orders: `values`, `grid` and `small_exponents` are [k, column, row, warp], as products are formed; `matrix` is
    [warp, row, k] of A and [warp, k, column] of B, as np.matmul takes them.
    """

    def __init__(self, mode: MmaMode, right: bool, registers: bytes):
        self.mode = mode
        self.right = right
        fragment = mode.b if right else mode.a
        self.kind = mode.b_type if right else mode.a_type
        self.raw: UintArray = np.frombuffer(registers, _ELEMENTS[fragment.element_bits])
        self.warps = len(registers) // (4 * LANES * fragment.registers)

    @cached_property
    def bounds(self) -> Bounds | None:
        """See Bounds; None if not all are finite."""
        return bounds_of(self.kind, self.raw)

    @cached_property
    def matrix(self) -> Float32:
        """The values, warp by warp."""
        if self.right:
            raw = self.raw.take(_column_order(self.mode.name, self.warps))
        else:
            units = self.raw.view(_UNIT).take(_row_order(self.mode.a.registers, self.warps))
            raw = units.view(self.raw.dtype).reshape(self.warps, _ROWS, self.mode.k)
        if self.kind in ("s8", "u8"):
            return raw.view(np.int8 if self.kind == "s8" else np.uint8).astype(np.float32)
        return decode_values(self.kind, raw)

    @cached_property
    def _elements(self) -> UintArray:
        """Raw elements [k, column or row, warp]."""
        order = _grid_order(self.mode.name, self.right, self.warps)
        return self.raw.take(order).reshape(self.mode.k, -1, self.warps)

    @cached_property
    def values(self) -> Float32:
        """[k, 8, 16 x warps]: of A, all columns are the same, of B, all rows."""
        return self._spread(decode_values(self.kind, self._elements))

    @cached_property
    def grid(self) -> Numbers:
        """The same with exponents."""
        return Numbers(self.values, self._spread(decode_exponents(self.kind, self._elements)))

    @cached_property
    def small_exponents(self) -> SmallExponents | None:
        """See SmallExponents. None if 8 bits are not enough or not all numbers are finite."""
        if self.kind == "f16":
            small, base = _small_table().take(self._elements), _LEAST_EXPONENT_F16
            if _SPECIAL_OF_8_BITS in small.tobytes():
                return None
        else:
            exponents = decode_exponents(self.kind, self._elements)
            nonzero = exponents != ZERO
            highest = int(exponents.max())
            base = int(exponents.min(initial=SPECIAL, where=nonzero)) if highest != ZERO else 0
            if highest == SPECIAL or highest - base > _SPREAD_OF_8_BITS:
                return None
            small = np.where(nonzero, exponents - np.int16(base), np.int16(_ZERO_OF_8_BITS)).astype(np.int8)
        return SmallExponents(self._spread(small), base)

    def _spread(self, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """[k, row, warp] of A, or [k, column, warp] of B, as [k, column, row x warp].

        Each warp's number stands for itself: what is repeated is copied as one unit.
        """
        k, n = self.mode.k, _ROWS * self.warps
        wide = np.empty((k, _COLUMNS, n), dtype=numbers.dtype)
        if self.right:
            unit = np.dtype(f"V{numbers.itemsize * self.warps}")
            rows = np.ascontiguousarray(numbers).reshape(-1, self.warps).view(unit)
            wide.reshape(k * _COLUMNS, n).view(unit)[...] = rows
        else:
            wide[...] = numbers.reshape(k, 1, n)
        return wide


_ELEMENTS: dict[int, np.dtype[Any]] = {8: np.dtype(np.uint8), 16: np.dtype(np.uint16), 32: np.dtype(np.uint32)}


def places(fragment: Fragment, position: Index, warps: int) -> Index:
    """Positions in the registers of one warp as those in [register, lane of all warps, element], [..., warp]."""
    lane_elements = LANES * fragment.elements_per_register
    register, within = np.divmod(position, lane_elements)
    warp = np.arange(warps, dtype=np.intp)
    return (register[..., None] * warps + warp) * lane_elements + within[..., None]


@lru_cache(maxsize=64)
def _grid_order(name: str, right: bool, warps: int) -> Index:
    """Where the elements of [k, column or row, warp] are."""
    mode = mma_mode(name)
    if right:
        return places(mode.b, mode.b.position, warps).reshape(-1)
    return places(mode.a, mode.a.position.T, warps).reshape(-1)


_UNIT = np.dtype((np.void, 16))
"""What four neighbouring lanes have in a register is a part of a row of A."""


@lru_cache(maxsize=16)
def _row_order(registers: int, warps: int) -> Index:
    """Which units of A's registers [register, warp, group of four lanes] are in [warp, row, part of the row]."""
    units = np.arange(registers * warps * 8, dtype=np.intp).reshape(registers // 2, 2, warps, 8)
    return np.ascontiguousarray(units.transpose(2, 1, 3, 0)).reshape(-1)


@lru_cache(maxsize=64)
def _column_order(name: str, warps: int) -> Index:
    """Where the elements of B are, [warp, k, column]; columns in an order that suits the accumulator.

    What four neighbouring lanes have in a register is then next to each other in a row of the product, too.
    """
    mode = mma_mode(name)
    columns = list(range(8)) if mode.accumulator == "f16" else [0, 2, 4, 6, 1, 3, 5, 7]
    return np.ascontiguousarray(np.moveaxis(places(mode.b, mode.b.position[:, columns], warps), -1, 0))
