"""A and B of matrix products of many warps, decoded as far as someone asks.

An operand can be kept: products in blocks use a fragment several times. What follows from the mode and the number of
warps alone, such as where the elements are, is a `_Layout`, made once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuemu.isa.fragments import LANES, Fragment, Index, MmaMode, UintArray, mma_mode
from gpuemu.tensor.numbers import (
    SPECIAL,
    ZERO,
    Bounds,
    Float32,
    Int8,
    Numbers,
    bounds_of,
    decode_exponents,
    decode_values,
)

_ROWS, _COLUMNS = 16, 8
_ELEMENTS: dict[int, np.dtype[Any]] = {8: np.dtype(np.uint8), 16: np.dtype(np.uint16), 32: np.dtype(np.uint32)}
_UNIT = np.dtype((np.void, 16))
"""What four neighbouring lanes have in a register is a part of a row of A."""
_ZERO_OF_8_BITS, _SPREAD_OF_8_BITS, _SPECIAL_OF_8_BITS = -64, 60, 60
_LEAST_EXPONENT_F16 = -14
_NOT_ASKED: Any = object()


class SmallExponents(NamedTuple):
    """Exponents in 8 bits: `wide` [k, 8, 16 x warps] of A and of B, less `base`.

    The sum of two of them is negative if one is a zero's.
    """

    wide: Int8
    base: int


class Operand:
    """A or, if `right`, B of a mode, of many warps: the bytes of registers [registers, 32 x warps].

    Orders: `values`, `grid` and `small_exponents` are [k, column, row, warp], as products are formed; of A, all
    columns are the same, of B, all rows. `matrix` is [warp, row, k] of A and [warp, k, column] of B, as np.matmul
    takes them. All are made when they are asked for, and kept.
    """

    __slots__ = ("_bounds", "_elements", "_layout", "_matrix", "_small_exponents", "_values", "mode", "raw", "warps")

    def __init__(self, mode: MmaMode, right: bool, registers: bytes):
        self._layout = _layout(mode.name, right, len(registers))
        self.mode = mode
        self.warps = self._layout.warps
        self.raw: UintArray = np.frombuffer(registers, self._layout.element)
        self._bounds: Bounds | None = _NOT_ASKED
        self._matrix: Float32 = _NOT_ASKED
        self._elements: UintArray = _NOT_ASKED
        self._values: Float32 = _NOT_ASKED
        self._small_exponents: SmallExponents | None = _NOT_ASKED

    @property
    def bounds(self) -> Bounds | None:
        """See Bounds; None if not all are finite."""
        if self._bounds is _NOT_ASKED:
            self._bounds = bounds_of(self._layout.kind, self.raw)
        return self._bounds

    @property
    def matrix(self) -> Float32:
        """The values, warp by warp."""
        if self._matrix is _NOT_ASKED:
            self._matrix = self._layout.matrix(self.raw)
        return self._matrix

    @property
    def values(self) -> Float32:
        """The values as products are formed."""
        if self._values is _NOT_ASKED:
            self._values = self._layout.spread(self._layout.values(self._grid_elements()))
        return self._values

    @property
    def grid(self) -> Numbers:
        """The same with exponents."""
        exponents = decode_exponents(self._layout.kind, self._grid_elements())
        return Numbers(self.values, self._layout.spread(exponents))

    @property
    def small_exponents(self) -> SmallExponents | None:
        """See SmallExponents. None if 8 bits are not enough or not all numbers are finite."""
        if self._small_exponents is _NOT_ASKED:
            small = self._layout.small(self._grid_elements())
            self._small_exponents = None if small is None else SmallExponents(self._layout.spread(small[0]), small[1])
        return self._small_exponents

    def _grid_elements(self) -> UintArray:
        """Raw elements [k, column or row, warp]."""
        if self._elements is _NOT_ASKED:
            self._elements = self.raw.take(self._layout.grid_order)
        return self._elements


class _Layout:
    """Where the elements of A or B of many warps are, and how they are read."""

    def __init__(self, mode: MmaMode, right: bool, warps: int):
        fragment = mode.b if right else mode.a
        self.right = right
        self.warps = warps
        self.kind = mode.b_type if right else mode.a_type
        self.element = _ELEMENTS[fragment.element_bits]
        self.values: Callable[[UintArray], Float32] = _reader(self.kind)
        self.small = _small_of_f16 if self.kind == "f16" else self._small
        self._k = mode.k
        position = mode.b.position if right else mode.a.position.T
        self.grid_order = places(fragment, position, warps).reshape(mode.k, -1, warps)
        self._matrix_order = _column_order(mode, warps) if right else _row_order(mode, warps)
        self._units: dict[int, np.dtype[Any]] = {n: np.dtype((np.void, n * warps)) for n in (1, 2, 4)}

    def matrix(self, raw: UintArray) -> Float32:
        """[warp, row, k] or [warp, k, column] of the elements in the order of the registers."""
        if self.right:
            return self.values(raw.take(self._matrix_order))
        rows = raw.view(_UNIT).take(self._matrix_order).view(self.element)
        return self.values(rows).reshape(self.warps, _ROWS, self._k)

    def spread(self, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """[k, row, warp] of A, or [k, column, warp] of B, as [k, column, row x warp].

        What is repeated is copied as one unit, a number of every warp.
        """
        k, n = self._k, _ROWS * self.warps
        wide = np.empty((k, _COLUMNS, n), dtype=numbers.dtype)
        if self.right:
            unit = self._units[numbers.itemsize]
            wide.reshape(k * _COLUMNS, n).view(unit)[...] = numbers.reshape(-1, self.warps).view(unit)
        else:
            wide[...] = numbers.reshape(k, 1, n)
        return wide

    def _small(self, raw: UintArray) -> tuple[Int8, int] | None:
        exponents = decode_exponents(self.kind, raw)
        nonzero = exponents != ZERO
        highest = int(exponents.max())
        base = int(exponents.min(initial=SPECIAL, where=nonzero)) if highest != ZERO else 0
        if highest == SPECIAL or highest - base > _SPREAD_OF_8_BITS:
            return None
        return np.where(nonzero, exponents - np.int16(base), np.int16(_ZERO_OF_8_BITS)).astype(np.int8), base


@lru_cache(maxsize=256)
def _layout(name: str, right: bool, size: int) -> _Layout:
    """The layout of so many bytes of registers."""
    mode = mma_mode(name)
    registers = mode.b.registers if right else mode.a.registers
    return _Layout(mode, right, size // (4 * LANES * registers))


def _reader(kind: str) -> Callable[[UintArray], Float32]:
    """From raw elements to their values."""
    if kind == "s8":
        return lambda raw: raw.view(np.int8).astype(np.float32)
    if kind == "u8":
        return lambda raw: raw.astype(np.float32)
    return lambda raw: decode_values(kind, raw)


def _small_of_f16(raw: UintArray) -> tuple[Int8, int] | None:
    small = _small_table().take(raw)
    return None if _SPECIAL_OF_8_BITS in small.tobytes() else (small, _LEAST_EXPONENT_F16)


@lru_cache(maxsize=1)
def _small_table() -> Int8:
    """The exponents of all float16 in 8 bits."""
    exponents = decode_exponents("f16", np.arange(1 << 16, dtype=np.uint16))
    small = np.where(exponents == ZERO, _ZERO_OF_8_BITS, exponents - _LEAST_EXPONENT_F16)
    return np.where(exponents == SPECIAL, _SPECIAL_OF_8_BITS, small).astype(np.int8)


def places(fragment: Fragment, position: Index, warps: int) -> Index:
    """Positions in the registers of one warp as those in [register, lane of all warps, element], [..., warp]."""
    lane_elements = LANES * fragment.elements_per_register
    register, within = np.divmod(position, lane_elements)
    warp = np.arange(warps, dtype=np.intp)
    return (register[..., None] * warps + warp) * lane_elements + within[..., None]


def _row_order(mode: MmaMode, warps: int) -> Index:
    """Which units of A's registers [register, warp, group of four lanes] are in [warp, row, part of the row]."""
    units = np.arange(mode.a.registers * warps * 8, dtype=np.intp).reshape(mode.a.registers // 2, 2, warps, 8)
    return np.ascontiguousarray(units.transpose(2, 1, 3, 0)).reshape(-1)


def _column_order(mode: MmaMode, warps: int) -> Index:
    """Where the elements of B are, [warp, k, column]; columns in an order that suits the accumulator.

    What four neighbouring lanes have in a register is then next to each other in a row of the product, too.
    """
    columns = list(range(8)) if mode.accumulator == "f16" else [0, 2, 4, 6, 1, 3, 5, 7]
    return np.ascontiguousarray(np.moveaxis(places(mode.b, mode.b.position[:, columns], warps), -1, 0))
