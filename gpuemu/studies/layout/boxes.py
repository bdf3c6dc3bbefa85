"""Tiles as TMA writes them to shared memory, and the instructions that read them there.

A box of a tensor map has lines of at most as many bytes as its swizzle is wide. A wider tile needs several boxes, one
after the other. Without a swizzle, wgmma needs core matrices, 8 adjacent rows of 16 bytes: boxes of 16 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from gpuemu.banks.operations import AccessKind
from gpuemu.banks.wavefronts import BankGeometry, IntArray, count
from gpuemu.base.table import Table, number, words
from gpuemu.isa.matrix_descriptor import CORE_ROWS, SWIZZLES, UNIT, places, swizzled
from gpuemu.isa.warp import LANES
from gpuemu.studies.layout.layouts import Index, Layout
from gpuemu.studies.layout.tile import Tile

DEPTH_BYTES = 32
"""The bytes of K that a wgmma reads, for any type."""
LINES = {"A": 64, "B": 256}
"""The most rows of an operand."""
_LDMATRIX_ROWS = 16


@dataclass(frozen=True)
class Boxes(Layout):
    """Boxes of a tensor map with a swizzle of `width` bytes, 0 for none."""

    width: int
    family: ClassVar[str] = "boxes of TMA"

    @property
    def line_bytes(self) -> int:
        return self.width or UNIT

    def label(self, tile: Tile) -> str:
        return f"TMA, swizzle of {self.width} bytes" if self.width else "TMA, no swizzle, boxes of 16 bytes"

    def places(self, tile: Tile) -> IntArray:
        row, column = np.divmod(np.arange(tile.elements), tile.columns)
        box, within = np.divmod(column * tile.element_bytes, self.line_bytes)
        at = box * tile.rows * self.line_bytes + row * self.line_bytes + within
        return np.asarray(swizzled(at, self.width) // tile.element_bytes)

    def index(self, tile: Tile, unit: int = 1) -> Index:
        line = self.line_bytes // tile.element_bytes
        shift, units = line.bit_length() - 1, line * unit
        i = f"row * {units} + (column & {line - 1:#x})" + (f" * {unit}" if unit > 1 else "")
        if tile.columns > line:
            i += f" + (column >> {shift}) * {tile.rows * units}"
        chunk = UNIT // tile.element_bytes * unit
        mask = (self.width // UNIT - 1) * chunk
        return Index(i, f"i ^ ((i >> 3) & {mask:#x})") if mask > 0 else Index("", i)

    def preference(self) -> tuple[int, ...]:
        return (3, self.width)


class Reader(NamedTuple):
    """A reader or writer of the tile: its `wavefronts`, their minimum `fewest`, and the descriptor's offsets."""

    what: str
    wavefronts: int
    fewest: int
    leading: int | None = None
    stride: int | None = None


def readers(tile: Tile, layout: Boxes, geometry: BankGeometry) -> list[Reader]:
    """The readers of a tile: wgmma along its rows and across them, as A and as B, and ldmatrix."""
    found = []
    wide, size = geometry.banks * geometry.bank_width_bytes, tile.element_bytes
    deep = DEPTH_BYTES // size
    if tile.columns >= deep and tile.rows % CORE_ROWS == 0:
        for name, most in LINES.items():
            lines = min(tile.rows, most)
            if name == "A" and lines < most:
                continue
            leading, stride = (UNIT, CORE_ROWS * layout.width) if layout.width else (tile.rows * UNIT, CORE_ROWS * UNIT)
            at = operand(layout, leading, stride, lines, deep, size)
            what = f"wgmma, {name}, {lines} rows of {DEPTH_BYTES} bytes"
            fewest = -(-lines * DEPTH_BYTES // wide)
            found.append(Reader(what, _core_wavefronts(at, size, geometry), fewest, leading, stride))
    if size == 2 and tile.rows >= deep and tile.columns % CORE_ROWS == 0:
        beside, below = tile.rows * layout.line_bytes, CORE_ROWS * layout.line_bytes
        for name, most in LINES.items():
            lines = min(tile.columns, most)
            if name == "A" and lines < most:
                continue
            leading, stride = (beside, below) if layout.width else (below, beside)
            at = operand(layout, leading, stride, lines, deep, size, across=True).T
            what = f"wgmma, {name} transposed, {deep} rows of {lines * size} bytes"
            fewest = -(-lines * DEPTH_BYTES // wide)
            found.append(Reader(what, _core_wavefronts(at, size, geometry), fewest, leading, stride))
    if tile.rows >= _LDMATRIX_ROWS and tile.columns * size >= DEPTH_BYTES:
        lane = np.arange(LANES)
        element = lane % _LDMATRIX_ROWS * tile.columns + lane // _LDMATRIX_ROWS * (UNIT // size)
        at = layout.places(tile)[element][None] * size
        made = count(geometry, AccessKind.LOAD_MATRIX, 4, at, np.ones((1, LANES), np.bool_), where="gpuemu layout")
        what = f"ldmatrix.x4, {_LDMATRIX_ROWS} rows of {DEPTH_BYTES} bytes"
        found.append(Reader(what, int(made.wavefronts[0]), int(made.ideal[0])))
    return found


def operand(
    layout: Boxes, leading: int, stride: int, lines: int, deep: int, size: int, across: bool = False
) -> IntArray:
    """The byte addresses at which wgmma reads an operand's elements [lines, deep], for a tile that begins at 0."""
    return np.asarray(swizzled(places(leading, stride, layout.width, lines, deep, size, across), layout.width))


def _core_wavefronts(at: IntArray, size: int, geometry: BankGeometry) -> int:
    """The wavefronts of all core matrices of an operand. Each is 8 rows of 16 bytes, as a matrix of ldmatrix."""
    rows = at[:, :: UNIT // size]
    cores = rows.reshape(-1, CORE_ROWS, rows.shape[1]).swapaxes(1, 2).reshape(-1, CORE_ROWS)
    lanes = np.zeros((len(cores), LANES), np.int64)
    lanes[:, :CORE_ROWS] = cores
    active = np.broadcast_to(np.arange(LANES) < CORE_ROWS, lanes.shape)
    return int(count(geometry, AccessKind.LOAD_MATRIX, 1, lanes, active, where="gpuemu layout").wavefronts.sum())


def descriptor_text(layout: Boxes) -> str:
    """The swizzle in the encoding of a wgmma descriptor."""
    return f"swizzle {SWIZZLES.index(layout.width)}"


def table(tile: Tile, layout: Boxes, geometry: BankGeometry) -> list[str]:
    """The readers as text."""
    boxes = -(-tile.columns * tile.element_bytes // layout.line_bytes)
    many = f"{boxes} boxes" if boxes > 1 else "a box"
    rows = [(r.what, r.wavefronts, r.fewest, r.leading, r.stride) for r in readers(tile, layout, geometry)]
    heads = [words(""), *map(number, ("Wavefronts", "Minimum", "Leading", "Stride"))]
    return [
        f"TMA writes {many} of {tile.rows} lines of {layout.line_bytes} bytes. Bytes of a wgmma descriptor: "
        f"{descriptor_text(layout)}, and",
        *Table(heads, rows).text(100).splitlines(),
    ]
