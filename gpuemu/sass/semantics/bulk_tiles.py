"""Copies by tensor maps of sm_90 (PTX: cp.async.bulk.tensor, cp.reduce.async.bulk.tensor).

    UTMALDG.2D [UR8], [UR6]                by the tensor map at [UR6], from UR10, UR11 on, to shared [UR8]; mbarrier UR9
    UTMASTG.2D [UR8], [UR6]                from shared [UR8] to UR9, UR10 on
    UTMAREDG.2D.ADD [UR8], [UR6]

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

    def box(self, layout: Layout, coordinates: list[int]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return byte distances of the box's elements from the array's first, dimension 0 fastest, and their mask."""
        distances, inside = np.zeros(1, np.int64), np.ones(1, np.bool_)
        for at, extent, stride, count, step in zip(
            coordinates, layout.shape, layout.strides, layout.copied, layout.steps, strict=True
        ):
            places = at + np.arange(count, dtype=np.int64) * step
            distances = (places[:, None] * stride + distances[None, :]).reshape(-1)
            inside = (((places >= 0) & (places < extent))[:, None] & inside[None, :]).reshape(-1)
        return distances, inside

    def tell(self, layout: Layout, lane: int, first: int, shared: int, count: int, barrier: int = -1) -> None:
        """Record a box in the trace; its coordinates are in registers from `first` on."""
        what = {"swizzle": layout.swizzle_bytes, "map": self.registers.wide(self.map, lane), "global": layout.address}
        for k, (extent, stride, copied, step) in enumerate(
            zip(layout.shape, layout.strides, layout.copied, layout.steps, strict=True)
        ):
            at = self.registers.word(first + k, lane)
            at -= at >> 31 << 32
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
        line, within = np.divmod(np.arange(count, dtype=np.int64), layout.copied[0] * layout.element_bytes)
        at = (address & 0xFFFFFF) + line * layout.swizzle_bytes + within
        return swizzled(at, layout.swizzle_bytes) - (address & 0xFFFFFF)

    def boxed(self, layout: Layout, lane: int, shared: int, places: NDArray[np.int64] | None, count: int) -> None:
        """Tell the observer that a box was written to shared memory."""
        observer = self.site.environment.observer
        if observer is not None:
            at = (shared & 0xFFFFFF) - self.memory.shared_base + (np.arange(count) if places is None else places)
            observer.box(self.site, lane, at, layout.copied[0] * layout.element_bytes, layout.swizzle_bytes)

    def elements(self, layout: Layout, lane: int, first: int) -> tuple[Any, Any, Any, NDArray[np.int64]]:
        """Return the array's units in its buffer, the indices of the box's elements in them, their mask, their bytes.

        The bytes are distances from the array's first element. `first`: the register with the coordinate of dimension
        0.
        """
        coordinates = [self.registers.word(first + k, lane) for k in range(self.rank)]
        coordinates = [c - (c >> 31 << 32) for c in coordinates]
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


@semantics("UTMALDG")
def load_tile(site: Site) -> Step:
    """UTMALDG.nD[.MULTICAST]: copy a box of an array to shared memory."""
    tiles = _Tiles(site, ("MULTICAST",))
    registers, memory = tiles.registers, tiles.memory

    def step(mask: Mask) -> None:
        for lane in registers.lanes(mask):
            layout = tiles.layout(lane)
            units, index, inside, distances = tiles.elements(layout, lane, tiles.first + 2)
            size = layout.element_bytes
            fill = int.from_bytes((_NAN_BYTES if layout.nan_fill else b"\0\0") * (size // 2), "little")
            found = np.full(len(inside), fill, dtype=f"u{size}")
            if len(index):
                found[inside] = _read_as(layout.type, units[index])
            count = len(found) * size
            shared = registers.word(tiles.first, lane)
            ranks = registers.word(tiles.ranks[0], lane) >> 16 if tiles.ranks else 1 << memory.rank
            tiles.own(shared, ranks)
            places = tiles.places(layout, shared, count)
            chosen = tiles.shared(shared, places, count, lane, ranks)
            if ranks >> memory.rank & 1:
                tiles.boxed(layout, lane, shared, places, count)
            tiles.moves(lane, layout.address, distances, size, "load")
            barrier = registers.word(tiles.first + 1, lane)
            tiles.tell(layout, lane, tiles.first + 2, shared, count, barrier)
            tiles.to_others(ranks, chosen, found.view(np.uint8), barrier, lane)
            if ranks >> memory.rank & 1:
                memory.shared[1][chosen] = found.view(np.uint8)
                tiles.complete(barrier, count, lane)

    return step


@semantics("UTMAPF")
def told(site: Site) -> Step:
    """UTMAPF.L2.nD [UR6], [UR4]: prefetch a box from UR6, UR7 on into L2. For UTMALDG, only record it in the trace."""
    tiles = _Tiles(site, ("MULTICAST", "L2"))
    behind = 0 if site.mnemonic == "UTMAPF" else 2

    def step(mask: Mask) -> None:
        for lane in tiles.registers.lanes(mask):
            tiles.tell(tiles.layout(lane), lane, tiles.first + behind, tiles.memory.shared_base, 0)

    return step


@semantics("UTMASTG", "UTMAREDG")
def store_tile(site: Site) -> Step:
    """UTMASTG.nD: copy a box of shared memory to an array. UTMAREDG.nD.op: combine it with the array."""
    reduces = site.mnemonic == "UTMAREDG"
    tiles = _Tiles(site, tuple(OPERATIONS) if reduces else ())
    registers, memory = tiles.registers, tiles.memory

    def step(mask: Mask) -> None:
        for lane in registers.lanes(mask):
            layout = tiles.layout(lane)
            units, index, inside, places = tiles.elements(layout, lane, tiles.first + 1)
            count, shared = len(inside) * layout.element_bytes, registers.word(tiles.first, lane)
            chosen = tiles.shared(shared, tiles.places(layout, shared, count), count, lane, 0)
            tiles.tell(layout, lane, tiles.first + 1, shared, count)
            if not len(index):
                continue
            tiles.moves(lane, layout.address, places, layout.element_bytes, "atomic" if reduces else "store")
            ours = memory.shared[1][chosen].view(f"u{layout.element_bytes}")[inside]
            if reduces:
                operation, unit = reduction(site, _NAMES.get(layout.type, layout.type))
                ours = operation(units[index].view(unit), ours.view(unit)).astype(unit).view(ours.dtype)
            units[index] = ours

    return step
