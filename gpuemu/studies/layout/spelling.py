"""A layout from its name, and a table of the places of each thread's part of a tile.

    plain                  one row after the other
    Swizzle<B,M,S>         i ^ ((i >> S) & (((1 << B) - 1) << M)), where i is the element's index, as in CuTe
    pad:8  pad:8/64        8 unused elements after every row, or after every 64 elements
    diagonal:1  diagonal:8/2   columns rotate by 1 in every row, or by 8 after every 2 rows
    tma:none  tma:32 64 128    boxes of a tensor map with such a swizzle, as wgmma reads them
    virtual:4  virtual:4/256   plain rows; thread t of the tile's threads, or of blocks of 256, works as v(t)

`:bytes` after a swizzle means byte addresses: Swizzle<1,4,3>:bytes is Swizzle<1,3,3> of halves. gpuemu refuses
swizzle<S,B,M>, which some write for the same numbers in another order, because the order would be ambiguous.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from gpuemu.banks.wavefronts import BankGeometry
from gpuemu.base.errors import GpuemuError
from gpuemu.base.table import Cell, Table, number, words
from gpuemu.isa.matrix_descriptor import MODES
from gpuemu.studies.layout.boxes import Boxes
from gpuemu.studies.layout.layouts import BlockPadding, Diagonal, Layout, Padding, Plain, Swizzle, VirtualThreads
from gpuemu.studies.layout.tile import Tile

KNOWN = (
    "expected plain, Swizzle<B,M,S>, the same with :bytes, pad:8, pad:8/64, diagonal:1, diagonal:8/2, tma:none, "
    "tma:32, tma:64, tma:128, virtual:4 or virtual:4/256"
)
_SWIZZLE = re.compile(r"(swizzle|Swizzle)<\s*(-?\d+)\s*,\s*(-?\d+)\s*,\s*(-?\d+)\s*>(:bytes)?")
_PADDING = re.compile(r"pad:(\d+)(?:/(\d+))?")
_DIAGONAL = re.compile(r"diagonal:(\d+)(?:/(\d+))?")
_VIRTUAL = re.compile(r"virtual:(\d+)(?:/(\d+))?")


def parse_layout(text: str, tile: Tile, threads: int) -> Layout:
    """The layout with this name; `threads` is the default block of virtual threads. Raises GpuemuError."""

    def refuse(found: str, right: str) -> GpuemuError:
        return GpuemuError.one("gpuemu layout", None, "", found, right)

    if text == "plain":
        return Plain()
    if match := _SWIZZLE.fullmatch(text.strip()):
        bits, base, shift = int(match[2]), int(match[3]), int(match[4])
        if match[1] == "swizzle":
            name = f"Swizzle<{base},{shift},{bits}>{match[5] or ''}"
            raise refuse(f"'{text}'", f"expected CuTe's order, Swizzle<B,M,S>; did you mean {name}?")
        if match[5]:
            base -= tile.element_bytes.bit_length() - 1
        highest = max(base + bits, base + bits + shift, base + bits - shift)
        if bits < 1 or base < 0 or shift == 0 or highest > tile.index_bits:
            right = f"expected B of at least 1, M of at least 0 and bits of the tile's {tile.index_bits}"
            raise refuse(f"'{text}' for {tile}", right)
        return Swizzle(bits, base, shift)
    if match := _PADDING.fullmatch(text.strip()):
        every = int(match[2] or tile.columns)
        if every < 1:
            raise refuse(f"'{text}'", KNOWN)
        return Padding(int(match[1]), every) if every == tile.columns else BlockPadding(int(match[1]), every)
    if match := _DIAGONAL.fullmatch(text.strip()):
        elements, every = int(match[1]), int(match[2] or 1)
        if not 0 < elements < tile.columns or every < 1 or every & (every - 1):
            right = f"expected 1 to {tile.columns - 1} columns after a power of two of rows"
            raise refuse(f"'{text}' for {tile}", right)
        return Diagonal(elements, every)
    if text.startswith("tma:") and text[4:] in MODES:
        boxes = Boxes(MODES[text[4:]])
        if tile.columns * tile.element_bytes % boxes.line_bytes:
            right = f"expected rows of a multiple of {boxes.line_bytes} bytes"
            raise refuse(f"'{text}' for {tile}, rows of {tile.columns * tile.element_bytes} bytes", right)
        return boxes
    if match := _VIRTUAL.fullmatch(text.strip()):
        factor, block = int(match[1]), int(match[2] or threads)
        if factor < 1 or block % factor:
            raise refuse(f"'{text}', {factor} of a block of {block}", "expected a factor that divides the block")
        return VirtualThreads(factor, block)
    raise refuse(f"'{text}'", KNOWN)


@dataclass(frozen=True)
class VectorPlace:
    """A thread's part of the tile: its first element, and the element's byte address without and with the layout."""

    thread: int
    row: int
    column: int
    plain_address: int
    address: int
    bank: int


def rows(layout: Layout, tile: Tile, vector: int, geometry: BankGeometry) -> list[VectorPlace]:
    """A row for each thread, which has `vector` neighboring elements. Raises GpuemuError."""
    if vector < 1 or tile.columns % vector:
        right = f"expected a number that divides {tile.columns}"
        raise GpuemuError.one("gpuemu layout", None, "--vector", str(vector), right)
    thread = np.arange(tile.elements // vector)
    works_as = layout.works_as(thread) if isinstance(layout, VirtualThreads) else thread
    places = layout.places(tile)
    found = []
    for t, first in zip(thread.tolist(), (works_as * vector).tolist(), strict=True):
        address = int(places[first]) * tile.element_bytes
        bank = address // geometry.bank_width_bytes % geometry.banks
        found.append(
            VectorPlace(t, first // tile.columns, first % tile.columns, t * vector * tile.element_bytes, address, bank)
        )
    return found


def table(found: list[VectorPlace], binary: bool) -> list[str]:
    """The rows as text, with addresses in binary as well if `binary`."""
    bits = max(row.address.bit_length() for row in found) or 1
    heads = [*map(number, ("Thread", "Row", "Column", "Address", "Goes to", "Bank"))]
    heads += [words("Address, and where it goes, in binary")] if binary else []
    rows: list[list[Cell]] = [
        [
            row.thread, row.row, row.column, row.plain_address, row.address, row.bank,
            *([f"{row.plain_address:0{bits}b} -> {row.address:0{bits}b}"] if binary else []),
        ]
        for row in found
    ]  # fmt: skip
    return Table(heads, rows).text(100).splitlines()
