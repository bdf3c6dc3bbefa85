"""Copies by tensor maps of sm_90 (PTX: cp.async.bulk.tensor, cp.reduce.async.bulk.tensor).

    UTMALDG.2D [UR8], [UR6]                by the tensor map at [UR6], from UR10, UR11 on, to shared [UR8]; mbarrier UR9
    UTMASTG.2D [UR8], [UR6]                from shared [UR8] to UR9, UR10 on
    UTMAREDG.2D.ADD [UR8], [UR6]

    UTMALDG.2D.GATHER4 [UR8], [UR6]        sm_100: four rows, from column UR10 on; UR11 to UR14 are their numbers
    UTMASTG.2D.SCATTER4 [UR8], [UR6]       the opposite: column UR9, rows UR10 to UR13
    UTMALDG.2D.2CTA [UR8], [UR6]           sm_100: the mbarrier may be that of the other CTA of the pair

    UTMALDG.4D.IM2COL [UR8], [UR6], UR4    pixels in columns, see `columns`; UR4 has offsets, and above them the CTAs

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

from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.memory.tensor_map import Layout
from gpuemu.sass.machine.operands import Site, Step
from gpuemu.sass.semantics import semantics
from gpuemu.sass.semantics.bulk import OPERATIONS, reduction
from gpuemu.sass.semantics.columns import boxes_of

_NAN_BYTES = b"\xf7\x7f"
_NAMES = {"u32": "U32", "s32": "S32", "u64": "U64", "s64": "S64", "f16": "F16", "f32": "F32", "f64": "F64"}


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
    tiles = boxes_of(site, ("MULTICAST", "GATHER4", "2CTA"))
    registers, memory, pairs, many = tiles.registers, tiles.memory, site.has("2CTA"), site.has("MULTICAST")

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
            ranks = registers.word(tiles.ranks[0], lane) >> 16 if many else 1 << memory.rank
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
    tiles = boxes_of(site, ("MULTICAST", "L2", "GATHER4", "2CTA"))
    behind = 0 if site.mnemonic == "UTMAPF" else 2

    def step(mask: Mask) -> None:
        for lane in tiles.registers.lanes(mask):
            tiles.tell(tiles.layout(lane), lane, tiles.first + behind, tiles.memory.shared_base, 0)

    return step


@semantics("UTMASTG", "UTMAREDG")
def store_tile(site: Site) -> Step:
    """UTMASTG.nD: copy a box of shared memory to an array. UTMAREDG.nD.op: combine it with the array."""
    reduces = site.mnemonic == "UTMAREDG"
    tiles = boxes_of(site, tuple(OPERATIONS) if reduces else ("SCATTER4",))
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
