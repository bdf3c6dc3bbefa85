"""Copies by tensor maps of sm_90 (PTX: cp.async.bulk.tensor, cp.reduce.async.bulk.tensor).

    UTMALDG.2D [UR8], [UR6]                by the tensor map at [UR6], from UR10, UR11 on, to shared [UR8]; mbarrier UR9
    UTMASTG.2D [UR8], [UR6]                from shared [UR8] to UR9, UR10 on
    UTMAREDG.2D.ADD [UR8], [UR6]

    UTMALDG.2D.GATHER4 [UR8], [UR6]        sm_100: four rows, from column UR10 on; UR11 to UR14 are their numbers
    UTMASTG.2D.SCATTER4 [UR8], [UR6]       the opposite: column UR9, rows UR10 to UR13
    UTMALDG.2D.2CTA [UR8], [UR6]           sm_100: the mbarrier may be that of the other CTA of the pair

With .2CTA, a copy to several CTAs signals one mbarrier for each pair: in its first or second CTA, as the named one is.
Elements of 4 bits can have padding in shared memory, which no mbarrier counts.

Elements outside a tensor map's array are read as its fill (NaN: 0x7ff7 in each 16 bits), and are not written. Chunks of
16 bytes are swizzled by their address in shared memory (`isa.matrix_descriptor`). All of this was observed on an H200.
An H200 also refuses a first coordinate of dimension 0 that is not a multiple of 16 bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.matrix_descriptor import swizzled
from gpuemu.sass.machine import tensor_map
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.machine.tensor_map import Layout
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.bulk import OPERATIONS, UNIT, Copier, Uniform, numbers, reduction

_ROWS = 4
_DIMENSIONS = ("1D", "2D", "3D", "4D", "5D")
_NAN_BYTES = b"\xf7\x7f"
_NAMES = {"u32": "U32", "s32": "S32", "u64": "U64", "s64": "S64", "f16": "F16", "f32": "F32", "f64": "F64"}


class _Tiles(Copier):
    """The boxes that an instruction with a tensor map moves."""

    def __init__(self, site: Site, known: tuple[str, ...]):
        super().__init__(site)
        site.only(*_DIMENSIONS, *known)
        named = [m for m in site.modifiers if m in _DIMENSIONS]
        if len(named) != 1:
            raise site.unsupported("a copy other than of tiles")
        self.rank = int(named[0][0])
        self.rows = _ROWS if site.has("GATHER4", "SCATTER4") else 0
        """The number of rows that the registers name, or 0 for a box."""
        self.first, self.map, *self.ranks = numbers(site, "[[-" if site.has("MULTICAST") else "[[")
        self.registers = Uniform(site)

    def layout(self, lane: int) -> Layout:
        """Return the layout in the tensor map to which the lane's registers point."""
        site, address = self.site, self.registers.wide(self.map, lane)
        buffer, start = self.buffer(address, tensor_map.BYTES, lane)
        data = buffer.views[1][start : start + tensor_map.BYTES]
        layout = tensor_map.decode(data.tobytes())
        if layout is None or len(layout.shape) != self.rank:
            what = "bytes that are no tensor map" if layout is None else f"a tensor map of {len(layout.shape)} axes"
            raise self.error(lane, what, f"expected a tensor map of {self.rank} axes")
        if layout.interleaved:
            raise site.unsupported("an interleaved tensor map")
        return layout

    def coordinates(self, layout: Layout, lane: int, first: int) -> list[int]:
        """Return the coordinates of a box, which registers from `first` on have, in the layout's elements."""
        found = [self.registers.word(first + k, lane) for k in range(1 + self.rows if self.rows else self.rank)]
        found = [c - (c >> 31 << 32) for c in found]
        if found[0] % layout.at_once:
            told = f"the first coordinate {found[0]} of elements of 4 bits"
            raise self.error(lane, told, f"expected a multiple of {layout.at_once}")
        return [found[0] // layout.at_once, *found[1:]]

    def box(self, layout: Layout, coordinates: list[int]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
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
        distances, inside = self.box(layout, coordinates)
        chosen = distances[inside]
        if not len(chosen):
            return np.zeros(0, np.uint8), chosen, inside, chosen
        size, last = layout.element_bytes, int(chosen.max())
        least = int(chosen.min())
        buffer, start = self.buffer(layout.address + least, last - least + size, lane)
        if start % size:
            raise self.error(lane, f"elements at byte {start} of {buffer.name}", f"expected multiples of {size}")
        return buffer.views[size], (chosen - least + start) // size, inside, chosen


def _read_as(kind: str, words: NDArray[Any]) -> NDArray[Any]:
    """Convert elements as a copy to shared memory does: .ftz flushes subnormal numbers, tf32 rounds to nearest."""
    if kind.endswith(".ftz"):
        words = np.where(words & np.uint32(0x7F800000), words, words & np.uint32(0x80000000))
    if kind.startswith("tf32"):
        finite = (words & np.uint32(0x7F800000)) != np.uint32(0x7F800000)
        rounded = words + np.uint32(0xFFF) + (words >> np.uint32(13) & np.uint32(1))
        words = np.where(finite, rounded, words) & np.uint32(0xFFFFE000)
    return words


def _spread(layout: Layout, found: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes of elements in shared memory, with zeros as padding between those of 4 bits."""
    data = found.view(np.uint8)
    if layout.shared_bytes == layout.element_bytes:
        return data
    padded = np.zeros((len(found), layout.shared_bytes), np.uint8)
    padded[:, : layout.element_bytes] = data.reshape(len(found), -1)
    return padded.reshape(-1)


@semantics("UTMALDG")
def load_tile(site: Site) -> Step:
    """UTMALDG.nD[.MULTICAST]: copy a box of an array to shared memory."""
    tiles = _Tiles(site, ("MULTICAST", "GATHER4", "2CTA"))
    registers, memory, pairs = tiles.registers, tiles.memory, site.has("2CTA")

    def step(mask: Mask) -> None:
        for lane in registers.lanes(mask):
            layout = tiles.layout(lane)
            units, index, inside, distances = tiles.elements(layout, lane, tiles.first + 2)
            size = layout.element_bytes
            fill = int.from_bytes((_NAN_BYTES if layout.nan_fill else b"\0\0") * (size // 2), "little")
            found = np.full(len(inside), fill, dtype=f"u{size}")
            if len(index):
                found[inside] = _read_as(layout.type, units[index])
            data, signaled = _spread(layout, found), len(found) * size
            count = len(data)
            shared = registers.word(tiles.first, lane)
            ranks = registers.word(tiles.ranks[0], lane) >> 16 if tiles.ranks else 1 << memory.rank
            tiles.own(shared, ranks)
            places = tiles.places(layout, shared, count)
            chosen = tiles.shared(shared, places, count, lane, ranks)
            if ranks >> memory.rank & 1:
                tiles.boxed(layout, lane, shared, places, count)
            tiles.moves(lane, layout.address, distances, size, "load")
            barrier = registers.word(tiles.first + 1, lane)
            here = not pairs or tiles.barrier_rank(memory.rank, barrier) == memory.rank
            tiles.tell(layout, lane, tiles.first + 2, shared, signaled, barrier if here else -1)
            tiles.to_others(ranks, chosen, data, barrier, lane, signaled, pairs)
            if ranks >> memory.rank & 1:
                memory.shared[1][chosen] = data
                if pairs:
                    tiles.signal(barrier, signaled, lane, memory.rank)
                else:
                    tiles.complete(barrier, signaled, lane)

    return step


@semantics("UTMAPF")
def told(site: Site) -> Step:
    """UTMAPF.L2.nD [UR6], [UR4]: prefetch a box from UR6, UR7 on into L2. For UTMALDG, only record it in the trace."""
    tiles = _Tiles(site, ("MULTICAST", "L2", "GATHER4", "2CTA"))
    behind = 0 if site.mnemonic == "UTMAPF" else 2

    def step(mask: Mask) -> None:
        for lane in tiles.registers.lanes(mask):
            tiles.tell(tiles.layout(lane), lane, tiles.first + behind, tiles.memory.shared_base, 0)

    return step


@semantics("UTMASTG", "UTMAREDG")
def store_tile(site: Site) -> Step:
    """UTMASTG.nD: copy a box of shared memory to an array. UTMAREDG.nD.op: combine it with the array."""
    reduces = site.mnemonic == "UTMAREDG"
    tiles = _Tiles(site, tuple(OPERATIONS) if reduces else ("SCATTER4",))
    registers, memory = tiles.registers, tiles.memory

    def step(mask: Mask) -> None:
        for lane in registers.lanes(mask):
            layout = tiles.layout(lane)
            units, index, inside, places = tiles.elements(layout, lane, tiles.first + 1)
            count, shared = len(inside) * layout.shared_bytes, registers.word(tiles.first, lane)
            chosen = tiles.shared(shared, tiles.places(layout, shared, count), count, lane, 0)
            tiles.tell(layout, lane, tiles.first + 1, shared, count)
            if not len(index):
                continue
            tiles.moves(lane, layout.address, places, layout.element_bytes, "atomic" if reduces else "store")
            ours = memory.shared[1][chosen].reshape(len(inside), -1)[:, : layout.element_bytes]
            ours = np.ascontiguousarray(ours).view(f"u{layout.element_bytes}")[:, 0][inside]
            if reduces:
                operation, unit = reduction(site, _NAMES.get(layout.type, layout.type))
                ours = operation(units[index].view(unit), ours.view(unit)).astype(unit).view(ours.dtype)
            units[index] = ours

    return step
