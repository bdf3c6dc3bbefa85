"""The layouts of a tile: plain rows, paddings, XOR swizzles; and virtual threads, which reassign work to threads.

A layout maps element i = row x columns + column of a tile to its place in shared memory, counted in elements.

* `Padding(p, every)`: p unused elements after every `every` elements: after a row, or as `BlockPadding` after several
  rows or a part of one.
* `Swizzle(b, m, s)`, CuTe's Swizzle<B, M, S>: i ^ ((i >> s) & mask), where the mask is b bits from bit m on. With a
  negative s, the bits from m on are read and the bits -s higher are changed. CuTe requires |s| >= b. Closer bits still
  give each element its own place, so gpuemu tries them as well.
* `ColumnSwizzle(b, m, s)`: column ^ (((row >> s) & (2^b - 1)) << m), for rows whose length is not a power of two, where
  the bits of i do not separate rows from columns. For other rows it equals a Swizzle.
* `Diagonal(d, r)`: columns rotate by d within their row after every r rows, so that the elements of a column lie on a
  diagonal.
* `VirtualThreads(n, w)`: plain rows, and thread t of w works as v(t) = (t mod (w/n)) n + t div (w/n).

The index arithmetic of every layout is here once, as text that is both C++ and an expression of
`gpuemu.base.expressions` (where C++ has `/`, an expression has `//`). Tests compare it with `places`.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from gpuemu.banks.wavefronts import BankGeometry, IntArray
from gpuemu.studies.layout.tile import Tile


class Index(NamedTuple):
    """Index arithmetic: `i` in terms of row and column, or "" where unused; `place` in terms of row, column and i;
    `thread` in terms of t if threads change places, else "".
    """

    i: str
    place: str
    thread: str = ""

    @property
    def operations(self) -> int:
        """The number of integer operations: each operator counts as one."""
        return sum(isinstance(n, ast.BinOp) for text in self if text for n in ast.walk(ast.parse(text)))


@dataclass(frozen=True)
class Layout(ABC):
    """One way to lay out a tile; `family` names its kind."""

    family: ClassVar[str] = "plain"

    @abstractmethod
    def label(self, tile: Tile) -> str:
        """The layout's name in a row of a table."""

    @abstractmethod
    def places(self, tile: Tile) -> IntArray:
        """The place of each element, int [elements]."""

    @abstractmethod
    def index(self, tile: Tile, unit: int = 1) -> Index:
        """The index arithmetic as code, in units of which an element has `unit` (a power of two): 1, or its bytes."""

    @abstractmethod
    def preference(self) -> tuple[int, ...]:
        """The order of layouts with equal cost: those that are easier to write come first."""

    def allocated(self, tile: Tile) -> int:
        """The number of elements in the array that holds the tile."""
        return int(self.places(tile).max()) + 1


@dataclass(frozen=True)
class Plain(Layout):
    """One row after the other."""

    def label(self, tile: Tile) -> str:
        return "plain rows"

    def places(self, tile: Tile) -> IntArray:
        return np.arange(tile.elements)

    def index(self, tile: Tile, unit: int = 1) -> Index:
        return Index("", _plain_index(tile, unit))

    def preference(self) -> tuple[int, ...]:
        return (0,)


@dataclass(frozen=True)
class Padding(Layout):
    """`elements` unused elements after every `every` elements, which are a row."""

    elements: int
    every: int
    family: ClassVar[str] = "padding of rows"

    def label(self, tile: Tile) -> str:
        return f"rows of {self.every} + {self.elements}"

    def places(self, tile: Tile) -> IntArray:
        i = np.arange(tile.elements)
        return i + i // self.every * self.elements

    def allocated(self, tile: Tile) -> int:
        """See Layout. The last piece has its padding, as in an array of padded rows."""
        return tile.elements + -(-tile.elements // self.every) * self.elements

    def index(self, tile: Tile, unit: int = 1) -> Index:
        return Index("", f"row * {(self.every + self.elements) * unit} + column{_times(unit)}")

    def preference(self) -> tuple[int, ...]:
        return (1, self.elements, self.every)


@dataclass(frozen=True)
class BlockPadding(Padding):
    """`elements` unused elements after every `every` elements, which are several rows or part of one."""

    family: ClassVar[str] = "padding of blocks"

    def label(self, tile: Tile) -> str:
        if self.every % tile.columns == 0:
            return f"{self.elements} after every {self.every // tile.columns} rows"
        return f"{self.elements} after every {self.every}"

    def index(self, tile: Tile, unit: int = 1) -> Index:
        extra, rows = _times(self.elements * unit), self.every // tile.columns
        if rows:
            return Index("", f"{_plain_index(tile, unit)} + (row >> {rows.bit_length() - 1}){extra}")
        piece = self.every * unit
        shift = piece.bit_length() - 1
        pieces = f"(i >> {shift})" if piece == 1 << shift else f"(i // {piece})"
        return Index(_plain_index(tile, unit), f"i + {pieces}{extra}")


@dataclass(frozen=True)
class Swizzle(Layout):
    """CuTe's Swizzle<bits, base, shift> of the element's index."""

    bits: int
    base: int
    shift: int
    family: ClassVar[str] = "XOR swizzle"

    @property
    def in_cute(self) -> bool:
        """Whether CuTe accepts it."""
        return abs(self.shift) >= self.bits

    def label(self, tile: Tile) -> str:
        return f"Swizzle<{self.bits},{self.base},{self.shift}>{'' if self.in_cute else ', not in CuTe'}"

    def places(self, tile: Tile) -> IntArray:
        i, ones = np.arange(tile.elements), (1 << self.bits) - 1
        if self.shift < 0:
            return i ^ ((i & (ones << self.base)) << -self.shift)
        return i ^ ((i >> self.shift) & (ones << self.base))

    def index(self, tile: Tile, unit: int = 1) -> Index:
        i, mask = _plain_index(tile, unit), ((1 << self.bits) - 1) * unit << self.base
        if self.shift < 0:
            return Index(i, f"i ^ ((i & {mask:#x}) << {-self.shift})")
        if unit == 1 and self.base == 0 and tile.index_bits - self.shift <= self.bits:  # nothing to mask away
            return Index(i, f"i ^ (i >> {self.shift})")
        return Index(i, f"i ^ ((i >> {self.shift}) & {mask:#x})")

    def preference(self) -> tuple[int, ...]:
        return (2, not self.in_cute, self.shift < 0, self.bits, abs(self.shift), self.base)


@dataclass(frozen=True)
class ColumnSwizzle(Layout):
    """`bits` bits of the row from bit `shift` on, XORed onto the bits of the column from bit `base` on."""

    bits: int
    base: int
    shift: int
    family: ClassVar[str] = "XOR swizzle"

    def label(self, tile: Tile) -> str:
        return f"column ^ {self._change(tile)}"

    def places(self, tile: Tile) -> IntArray:
        row, column = np.divmod(np.arange(tile.elements), tile.columns)
        change = ((row >> self.shift) & ((1 << self.bits) - 1)) << self.base
        return np.asarray(row * tile.columns + (column ^ change))

    def _change(self, tile: Tile) -> str:
        row, greatest = (
            (f"(row >> {self.shift})", (tile.rows - 1) >> self.shift) if self.shift else ("row", tile.rows - 1)
        )
        if greatest >= 1 << self.bits:
            row = f"({row} & {(1 << self.bits) - 1:#x})"
        return f"({row} << {self.base})" if self.base else row

    def index(self, tile: Tile, unit: int = 1) -> Index:
        return Index("", f"row * {tile.columns * unit} + (column ^ {self._change(tile)}){_times(unit)}")

    def preference(self) -> tuple[int, ...]:
        return (2, 0, 0, self.bits, self.shift, self.base)


@dataclass(frozen=True)
class Diagonal(Layout):
    """Column (column + elements (row div every)) mod columns of its row."""

    elements: int
    every: int
    family: ClassVar[str] = "diagonal"

    def label(self, tile: Tile) -> str:
        return (
            f"diagonal, {self.elements} every {self.every} rows"
            if self.every > 1
            else f"diagonal, {self.elements} a row"
        )

    def places(self, tile: Tile) -> IntArray:
        row, column = np.divmod(np.arange(tile.elements), tile.columns)
        return np.asarray(row * tile.columns + (column + row // self.every * self.elements) % tile.columns)

    def index(self, tile: Tile, unit: int = 1) -> Index:
        columns = tile.columns
        row = "row" if self.every == 1 else f"(row >> {self.every.bit_length() - 1})"
        around = f"& {columns - 1:#x}" if columns & (columns - 1) == 0 else f"% {columns}"
        turned = f"((column + {row}{_times(self.elements)}) {around})"
        return Index("", f"row * {columns * unit} + {turned}{_times(unit)}")

    def preference(self) -> tuple[int, ...]:
        return (3, self.elements, self.every)


@dataclass(frozen=True)
class VirtualThreads(Layout):
    """Plain rows; thread t of `threads` works as thread (t mod (threads/factor)) factor + t div (threads/factor)."""

    factor: int
    threads: int
    family: ClassVar[str] = "virtual threads"

    def label(self, tile: Tile) -> str:
        return f"virtual threads, n = {self.factor} of {self.threads}"

    def places(self, tile: Tile) -> IntArray:
        return np.arange(tile.elements)

    def works_as(self, thread: IntArray) -> IntArray:
        """The thread whose work each thread does. Threads beyond the block belong to the next pass."""
        t, apart = thread % self.threads, self.threads // self.factor
        works_as: IntArray = thread - t + t % apart * self.factor + t // apart
        return works_as

    def index(self, tile: Tile, unit: int = 1) -> Index:
        apart, n = self.threads // self.factor, self.factor
        shift = apart.bit_length() - 1
        if apart == 1 << shift:
            thread = f"(t & {apart - 1:#x}) * {n} + (t >> {shift})"
        else:
            thread = f"t % {apart} * {n} + t // {apart}"
        return Index("", _plain_index(tile, unit), thread)

    def preference(self) -> tuple[int, ...]:
        return (4, self.factor)


def _plain_index(tile: Tile, unit: int) -> str:
    return f"row * {tile.columns * unit} + column{_times(unit)}"


def _times(number: int) -> str:
    return f" * {number}" if number != 1 else ""


def every_layout(tile: Tile, geometry: BankGeometry, threads: int) -> Iterator[Layout]:
    """Every layout of each family; `threads` is the block of the virtual threads, 0 for none.

    Paddings stop below a whole line of banks, because a line more moves no element to another bank. They come after
    every row, every 2, 4, 8, ... rows, and after halves, quarters, ... of a row. The steps of diagonals do, too, in
    rows of whole lines.
    """
    yield Plain()
    line = geometry.banks * geometry.bank_width_bytes // tile.element_bytes
    for every in padding_intervals(tile):
        family = Padding if every == tile.columns else BlockPadding
        yield from (family(elements, every) for elements in range(1, line))
    yield from _swizzles(tile)
    steps = line if line and tile.columns % line == 0 else tile.columns
    together = (1 << n for n in range((tile.rows - 1).bit_length()))
    yield from (Diagonal(elements, every) for every in together for elements in range(1, steps))
    yield from (VirtualThreads(n, threads) for n in range(2, threads) if threads % n == 0)


def padding_intervals(tile: Tile) -> list[int]:
    """The numbers of elements after which padding may come."""
    found = [tile.columns]
    while found[-1] * 2 < tile.elements:
        found.append(found[-1] * 2)
    part = tile.columns
    while part % 2 == 0:
        part //= 2
        found.append(part)
    return sorted(found)


def _swizzles(tile: Tile) -> Iterator[Layout]:
    total = tile.index_bits
    for bits in range(1, total):
        for distance in range(1, total - bits + 1):
            for base in range(total - bits - distance + 1):
                yield Swizzle(bits, base, distance)
                yield Swizzle(bits, base, -distance)
    if tile.columns & (tile.columns - 1):
        row_bits = (tile.rows - 1).bit_length()
        for bits in range(1, row_bits + 1):
            for base in range(tile.columns.bit_length()):
                if tile.columns % (1 << (base + bits)) == 0:
                    yield from (ColumnSwizzle(bits, base, shift) for shift in range(row_bits - bits + 1))
