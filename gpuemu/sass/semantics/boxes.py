"""The boxes of arrays that an instruction with a tensor map moves: see `bulk_tiles`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.matrix_descriptor import swizzled
from gpuemu.sass.machine.memory import tensor_map
from gpuemu.sass.machine.memory.tensor_map import Layout
from gpuemu.sass.machine.operands import Site
from gpuemu.sass.semantics.bulk import UNIT, Copier, Uniform, numbers

_ROWS = 4
_DIMENSIONS = ("1D", "2D", "3D", "4D", "5D")


class Tiles(Copier):
    """The boxes that an instruction with a tensor map moves."""

    columns = False
    """Whether the instruction is one of im2col."""

    def __init__(self, site: Site, known: tuple[str, ...]):
        super().__init__(site)
        site.only(*_DIMENSIONS, *known)
        named = [m for m in site.modifiers if m in _DIMENSIONS]
        if len(named) != 1:
            raise site.unsupported("a copy other than of tiles")
        self.rank = int(named[0][0])
        self.rows = _ROWS if site.has("GATHER4", "SCATTER4") else 0
        """The number of rows that the registers name, or 0 for a box."""
        self.first, self.map, *self.ranks = self.operands()
        self.registers = Uniform(site)

    def operands(self) -> list[int]:
        """Return the registers of the shared address, of the tensor map and, if it multicasts, of the CTAs."""
        return numbers(self.site, "[[-" if self.site.has("MULTICAST") else "[[")

    def layout(self, lane: int) -> Layout:
        """Return the layout in the tensor map to which the lane's registers point."""
        site, address = self.site, self.registers.wide(self.map, lane)
        buffer, start = self.buffer(address, tensor_map.BYTES, lane)
        data = buffer.views[1][start : start + tensor_map.BYTES]
        layout = tensor_map.decode(data.tobytes())
        if layout is None or len(layout.shape) != self.rank:
            what = "bytes that are no tensor map" if layout is None else f"a tensor map of {len(layout.shape)} axes"
            raise self.error(lane, what, f"expected a tensor map of {self.rank} axes")
        if layout.interleaved or layout.unknown:
            raise site.unsupported(layout.unknown or "an interleaved tensor map")
        if (layout.window is not None) != self.columns:
            kinds = ("tiles", "columns of pixels (im2col)")
            found = f"a tensor map of {kinds[layout.window is not None]}"
            raise self.error(lane, found, f"expected one of {kinds[self.columns]}")
        return layout

    def coordinates(self, layout: Layout, lane: int, first: int) -> list[int]:
        """Return the coordinates of a box, which registers from `first` on have, in the layout's elements."""
        found = [self.registers.word(first + k, lane) for k in range(1 + self.rows if self.rows else self.rank)]
        found = [c - (c >> 31 << 32) for c in found]
        if found[0] % layout.at_once:
            told = f"the first coordinate {found[0]} of elements of 4 bits"
            raise self.error(lane, told, f"expected a multiple of {layout.at_once}")
        return [found[0] // layout.at_once, *found[1:]]

    def box(self, layout: Layout, coordinates: list[int], lane: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return byte distances of the box's elements from the array's first, dimension 0 fastest, and their mask."""
        distances, inside = np.zeros(1, np.int64), np.ones(1, np.bool_)
        for k, (extent, stride, count, step) in enumerate(
            zip(layout.shape, layout.strides, layout.copied, layout.steps, strict=True)
        ):
            places = coordinates[k] + np.arange(count, dtype=np.int64) * step
            if self.rows and k:
                places = np.array(coordinates[1:], np.int64)
            distances = (places[:, None] * stride + distances[None, :]).reshape(-1)
            inside = (((places >= 0) & (places < extent))[:, None] & inside[None, :]).reshape(-1)
        return distances, inside

    def tell(self, layout: Layout, lane: int, first: int, shared: int, count: int, barrier: int = -1) -> None:
        """Record a box in the trace; its coordinates are in registers from `first` on.

        Rows that registers name are recorded as far apart as they are on average.
        """
        what = {"swizzle": layout.swizzle_bytes, "map": self.registers.wide(self.map, lane), "global": layout.address}
        at_all, counts, steps = self.coordinates(layout, lane, first), list(layout.copied), list(layout.steps)
        if self.rows:
            rows = at_all[1:]
            counts[1:], steps[1:] = [self.rows], [max(1, (max(rows) - min(rows)) // (self.rows - 1))]
            at_all[1:] = [min(rows)]
        for k, (at, extent, stride, copied, step) in enumerate(
            zip(at_all, layout.shape, layout.strides, counts, steps, strict=True)
        ):
            skipped = min(copied, max(0, -(at // step)))
            inside = min(copied, max(0, -((at - extent) // step))) - skipped
            what["global"] += (at + skipped * step) * stride
            if k == 0:
                what["line"] = max(0, (inside - 1) * step + 1) * layout.element_bytes
            else:
                what[f"count{k}"], what[f"pitch{k}"] = max(0, inside), stride * step
        self.event(lane, shared, barrier, bytes=count, **what)

    def places(self, layout: Layout, address: int, count: int) -> NDArray[np.int64] | None:
        """Return the offsets of the copy's bytes from a shared address, or None if they are contiguous.

        With a swizzle, each line of dimension 0 occupies the width of the swizzle, even if it is shorter.
        """
        if not layout.swizzle_bytes:
            return None
        line, within = np.divmod(np.arange(count, dtype=np.int64), layout.copied[0] * layout.shared_bytes)
        at = (address & 0xFFFFFF) + line * layout.swizzle_bytes + within
        return swizzled(at, layout.swizzle_bytes, layout.chunk_bytes) - (address & 0xFFFFFF)

    def boxed(self, layout: Layout, lane: int, shared: int, places: NDArray[np.int64] | None, count: int) -> None:
        """Tell the observer that a box was written to shared memory."""
        observer = self.site.environment.observer
        if observer is not None:
            at = (shared & 0xFFFFFF) - self.memory.shared_base + (np.arange(count) if places is None else places)
            observer.box(self.site, lane, at, layout.copied[0] * layout.shared_bytes, layout.swizzle_bytes)

    def elements(self, layout: Layout, lane: int, first: int) -> tuple[Any, Any, Any, NDArray[np.int64]]:
        """Return the array's units in its buffer, the indices of the box's elements in them, their mask, their bytes.

        The bytes are distances from the array's first element. `first`: the register with the coordinate of dimension
        0.
        """
        coordinates = self.coordinates(layout, lane, first)
        if coordinates[0] * layout.element_bytes % UNIT:
            found = f"the first coordinate {coordinates[0]} of elements of {layout.element_bytes} bytes"
            raise self.error(lane, found, "expected a multiple of 16 bytes")
        distances, inside = self.box(layout, coordinates, lane)
        chosen = distances[inside]
        if not len(chosen):
            return np.zeros(0, np.uint8), chosen, inside, chosen
        size, last = layout.element_bytes, int(chosen.max())
        least = int(chosen.min())
        buffer, start = self.buffer(layout.address + least, last - least + size, lane)
        if start % size:
            raise self.error(lane, f"elements at byte {start} of {buffer.name}", f"expected multiples of {size}")
        return buffer.views[size], (chosen - least + start) // size, inside, chosen
