"""Columns of pixels that copies by tensor maps of im2col move (cp.async.bulk.tensor.im2col).

    UTMALDG.4D.IM2COL [UR8], [UR6], UR4    channel UR10, W UR11, H UR12, image UR13; UR4 has the offsets of W and H
    UTMASTG.4D.IM2COL [UR8], [UR6]         the opposite, without offsets (im2col_no_offs)

A copy takes `pixels` pixels of some channels. It begins at a pixel of the map's bounding box, and goes on by the map's
steps along W, then H, then D, then images. Behind the last element of the box in a dimension, it begins at the first.
The offsets are added to each pixel's place. A pixel outside the array has the map's fill. Steps between channels count
as 1. All of this was observed on an H200, in 423 loads and 17 stores with random maps; it refuses a first pixel outside
the bounding box, as gpuemu does.

The offsets share 16 bits: one of 16, two of 8 or three of 5 bits, W in the lowest. Modes im2col::w and im2col::w::128
are of sm_100. The PTX manual leaves open where their halo begins, so they are refused.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.memory.tensor_map import CORNER_BITS, Layout, Window
from gpuemu.sass.machine.operands import Site
from gpuemu.sass.semantics.boxes import Tiles
from gpuemu.sass.semantics.bulk import numbers

Index = NDArray[np.int64]
_WIDE = ("W", "W128")


def boxes_of(site: Site, known: tuple[str, ...]) -> Tiles:
    """Return what moves the boxes or columns of an instruction, which may have these modifiers beside its shape."""
    if site.has(*_WIDE):
        raise site.unsupported("the modes im2col::w and im2col::w::128")
    return _Columns(site, (*known, "IM2COL")) if site.has("IM2COL") else Tiles(site, known)


class _Columns(Tiles):
    """The columns that an instruction with a tensor map of im2col moves."""

    columns = True

    def operands(self) -> list[int]:
        """Return the registers of the shared address, of the tensor map and, of a load, of offsets and CTAs."""
        return numbers(self.site, "[[" if self.site.mnemonic in ("UTMASTG", "UTMAREDG") else "[[0")

    def _offsets(self, lane: int) -> list[int]:
        """Return the offsets of W, H and D, as far as the array has them."""
        count = self.rank - 2
        bits = CORNER_BITS[count]
        word = self.registers.word(self.ranks[0], lane) if self.ranks and self.ranks[0] >= 0 else 0
        return [word >> bits * k & (1 << bits) - 1 for k in range(count)]

    def box(self, layout: Layout, coordinates: list[int], lane: int) -> tuple[Index, NDArray[np.bool_]]:
        """Return byte distances of the column's elements from the array's first, channels fastest, and their mask."""
        window, start = layout.window, tuple(coordinates[1:-1])
        assert window is not None
        if layout.steps[-1] > 1:
            raise self.site.unsupported("a tensor map of im2col with steps between images")
        bounds = list(zip(window.first, window.last, strict=True))
        if not all(first <= at <= last for at, (first, last) in zip(start, bounds, strict=True)):
            box = ", ".join(f"{first} to {last}" for first, last in bounds)
            found = f"a column from pixel {', '.join(map(str, start))} on"
            raise self.error(lane, found, f"Begin within the bounding box of the tensor map, {box}")
        places = walk(window, layout.steps[1:-1], start).copy()
        places[:-1] += np.array(self._offsets(lane))[:, None]
        places[-1] += coordinates[-1]
        extents = np.array(layout.shape[1:])[:, None]
        channels = coordinates[0] + np.arange(layout.box[0])
        inside = np.logical_and.outer(
            np.all((places >= 0) & (places < extents), axis=0), (channels >= 0) & (channels < layout.shape[0])
        )
        pixels = (places * np.array(layout.strides[1:])[:, None]).sum(axis=0)
        distances = pixels[:, None] + channels * layout.strides[0]
        return distances.reshape(-1), inside.reshape(-1)

    def tell(self, layout: Layout, lane: int, first: int, shared: int, count: int, barrier: int = -1) -> None:
        """Record a column in the trace, as equal rows of pixels that are as far apart as they are on average."""
        distances, inside = self.box(layout, self.coordinates(layout, lane, first), lane)
        by_pixel = inside.reshape(-1, layout.box[0])
        what = {"swizzle": layout.swizzle_bytes, "map": self.registers.wide(self.map, lane), "global": layout.address}
        what["line"] = int(by_pixel.sum(axis=1).max()) * layout.element_bytes
        if what["line"]:
            starts = distances.reshape(by_pixel.shape)[by_pixel.any(axis=1), by_pixel.any(axis=0).argmax()]
            pitch = layout.strides[1] * layout.steps[1]
            rows = 1 + int((np.diff(starts) != pitch).sum())
            each = -(-len(starts) // rows)
            between = int(starts[-1] - starts[0] - (each - 1) * pitch) // max(1, rows - 1)
            what |= {"global": layout.address + int(starts[0]), "count1": each, "pitch1": pitch, "count2": rows}
            what["pitch2"] = max(0, between)
        self.event(lane, shared, barrier, bytes=count, **what)


@lru_cache(maxsize=4096)
def walk(window: Window, steps: tuple[int, ...], start: tuple[int, ...]) -> Index:
    """Return the places of a column's pixels: W, H and D as far as there are, and the image after the first."""
    left, places = np.arange(window.pixels), []
    for first, last, step, at in zip(window.first, window.last, steps, start, strict=True):
        later = left - ((last - at) // step + 1)  # steps after the end of the first pass
        whole = (last - first) // step + 1
        places.append(np.where(later < 0, at + left * step, first + later % whole * step))
        left = np.where(later < 0, 0, 1 + later // whole)
    return np.stack([*places, left])
