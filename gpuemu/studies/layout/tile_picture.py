"""A tile in the colors of its banks: the bank of each piece, as text, on a terminal, or as SVG.

Rows 0 to 3 of 64 halves (128 bytes), plain and under Swizzle<3,3,3>, look like this:

       plain rows                  Swizzle<3,3,3>
         0  8 16 24 32 40 48 56      0  8 16 24 32 40 48 56
    0    0  4  8 12 16 20 24 28      0  4  8 12 16 20 24 28
    1    0  4  8 12 16 20 24 28      4  0 12  8 20 16 28 24
    2    0  4  8 12 16 20 24 28      8 12  0  4 24 28 16 20
    3    0  4  8 12 16 20 24 28     12  8  4  0 28 24 20 16

A cell is a piece of 16 bytes, which every layout here keeps whole. The number in it is its first bank, and the number
above it is its first column. A matrix load reads 16 bytes from each of eight rows, one below the other. It has no
conflicts if the numbers of a column differ.
"""

from __future__ import annotations

from colorsys import hls_to_rgb
from typing import NamedTuple

import numpy as np

from gpuemu.banks.wavefronts import BankGeometry, IntArray
from gpuemu.studies.layout.layouts import Layout
from gpuemu.studies.layout.tile import Tile
from gpuemu.views.bank_picture import HEAD, PLAIN, Line, Segment

MOST_ROWS = 16
MOST_CELLS = 32
GAP = 4


class Cells(NamedTuple):
    """The first banks of a tile's pieces, int [rows, pieces], and the texts above them."""

    title: str
    banks: IntArray


def cells(geometry: BankGeometry, tile: Tile, layout: Layout, piece_elements: int) -> Cells:
    """The first bank of each piece of `piece_elements` elements."""
    places = layout.places(tile).reshape(tile.rows, tile.columns)[:, ::piece_elements]
    return Cells(layout.label(tile), places * tile.element_bytes // geometry.bank_width_bytes % geometry.banks)


def period(pictures: list[Cells]) -> int:
    """The number of rows after which all pictures repeat; the rows of the tile if they do not."""
    rows = len(pictures[0].banks)
    for step in range(1, rows):
        if all(np.array_equal(p.banks[step:], p.banks[:-step]) for p in pictures):
            return step
    return rows


def colour(bank: int, banks: int) -> str:
    """A color for each bank, around the color wheel, as #rrggbb."""
    parts = hls_to_rgb(bank / banks, 0.72, 0.75)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


def picture(
    geometry: BankGeometry, pictures: list[Cells], piece_elements: int, columns: int = 100, rows: int | None = None
) -> list[Line]:
    """The first rows of the pictures, side by side, or below one another if `columns` are too few."""
    rows = min(period(pictures), MOST_ROWS) if rows is None else rows
    width = max(3, len(str(geometry.banks - 1)) + 1, len(str(piece_elements * (pictures[0].banks.shape[1] - 1))) + 1)
    shown = min(pictures[0].banks.shape[1], MOST_CELLS)
    margin = len(str(rows - 1)) + 2
    block = max(width * shown, *(len(p.title) for p in pictures))
    if margin + len(pictures) * (block + GAP) > columns and len(pictures) > 1:
        stacked = [picture(geometry, [p], piece_elements, columns, rows) for p in pictures]
        return [line for part in stacked for line in [*part, [Segment("", PLAIN)]]][:-1]
    gap = " " * GAP
    lines = [[Segment(" " * margin + gap.join(p.title.ljust(block) for p in pictures).rstrip(), HEAD)]]
    heads = "".join(f"{n * piece_elements:>{width}}" for n in range(shown)).ljust(block)
    lines.append([Segment(" " * margin + gap.join(heads for _ in pictures), PLAIN)])
    for row in range(rows):
        line = [Segment(f"{row:>{margin - 2}}  ", PLAIN)]
        for number, p in enumerate(pictures):
            if number:
                line.append(Segment(" " * (block - width * shown + GAP), PLAIN))
            for bank in p.banks[row, :shown].tolist():
                line.append(Segment(f"{bank:>{width}}", f"black on {colour(bank, geometry.banks)}"))
        lines.append(line)
    return lines


def left_out(pictures: list[Cells]) -> str:
    """A sentence about what the picture does not show, or ""."""
    rows, pieces = pictures[0].banks.shape
    every = period(pictures)
    parts = []
    if every > MOST_ROWS:
        parts.append(f"{rows - MOST_ROWS} more rows are not shown")
    elif every < rows:
        parts.append(f"from row {every} on the rows repeat")
    if pieces > MOST_CELLS:
        parts.append(f"{pieces - MOST_CELLS} more cells to the right are not shown")
    return "; ".join(parts)


def as_svg(geometry: BankGeometry, pictures: list[Cells], piece_elements: int) -> str:
    """The pictures as one SVG: tiles side by side, down to the row from which on all repeat."""
    cell, top, left, gap = 22, 44, 44, 40
    pieces, rows = pictures[0].banks.shape[1], period(pictures)
    again = rows < len(pictures[0].banks)
    wide = max(cell * pieces, *(8 * len(p.title) for p in pictures))
    total = (left + len(pictures) * (wide + gap), top + cell * rows + 8 + 16 * again)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total[0]}" height="{total[1]}" '
        f'font-family="monospace" font-size="10" text-anchor="middle">',
        f'<rect width="{total[0]}" height="{total[1]}" fill="white"/>',
    ]
    out += [f'<text x="22" y="{top + cell * r + 15}">{r}</text>' for r in range(rows)]
    if again:
        below = f"from row {rows} on the rows repeat"
        out.append(f'<text x="{left}" y="{total[1] - 8}" text-anchor="start">{below}</text>')
    for number, p in enumerate(pictures):
        x = left + number * (wide + gap)
        title = p.title.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        out.append(f'<text x="{x}" y="16" font-size="13" text-anchor="start">{title}</text>')
        out += [f'<text x="{x + cell * c + 11}" y="36">{c * piece_elements}</text>' for c in range(pieces)]
        for r, banks in enumerate(p.banks[:rows].tolist()):
            for c, bank in enumerate(banks):
                at = f'x="{x + cell * c}" y="{top + cell * r}"'
                out.append(f'<rect {at} width="21" height="21" fill="{colour(bank, geometry.banks)}"/>')
                out.append(f'<text x="{x + cell * c + 11}" y="{top + cell * r + 15}">{bank}</text>')
    return "\n".join([*out, "</svg>", ""])
