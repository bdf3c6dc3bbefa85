"""Remove a cause by editing copies of the trace, the architecture and the lowered program.

The engine knows nothing of the edits: it replays any trace, architecture and program. A layout moves the addresses of a
tile, a setting replaces a value of the hardware, and the other edits replace accesses and ops.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.isa.opcodes import Kind
from gpuemu.program.op import Op
from gpuemu.program.program import WHOLE, Accesses, Column, Program, joined
from gpuemu.studies.layout.layouts import Layout
from gpuemu.studies.layout.tile import Tile
from gpuemu.studies.why.stages import Rings, deeper
from gpuemu.trace.model import Launch, Trace


@dataclass(frozen=True)
class Relaid:
    """A tile of shared memory in another layout: where it begins, in bytes, and the instructions that touch it."""

    first_byte: int
    tile: Tile
    layout: Layout
    instructions: frozenset[int]


@dataclass(frozen=True)
class Edit:
    """The removal of a cause. Instructions are indices into the trace's code.

    `settings`: values of the hardware, by dotted name. `wavefronts`: instructions whose shared accesses need the
    minimum of wavefronts. `sectors`: instructions whose global accesses move the minimum of sectors. `relaid`: tiles in
    other layouts. `barriers_open`: a warp that reaches a barrier goes on. `no_stall_counts`: a warp may issue in every
    cycle. `all_resident`: all CTAs are on the SM at once, as far as it has room for warps. `further_stages`: rings of
    mbarriers that get another stage.
    """

    settings: tuple[tuple[str, Any], ...] = ()
    wavefronts: frozenset[int] = frozenset()
    sectors: frozenset[int] = frozenset()
    relaid: tuple[Relaid, ...] = ()
    barriers_open: bool = False
    no_stall_counts: bool = False
    all_resident: bool = False
    further_stages: Rings = ()

    @property
    def is_of_hardware(self) -> bool:
        """Whether `gpuemu run --set` has the same effect."""
        return self == Edit(settings=self.settings)

    def __or__(self, other: Edit) -> Edit:
        """Both edits together. The second one's value counts if both set it."""
        return Edit(
            tuple({**dict(self.settings), **dict(other.settings)}.items()),
            self.wavefronts | other.wavefronts,
            self.sectors | other.sectors,
            tuple(dict.fromkeys((*self.relaid, *other.relaid))),
            *(getattr(self, f.name) or getattr(other, f.name) for f in fields(self)[4:]),
        )

    def meets(self, other: Edit) -> bool:
        """Whether both change the same thing, so that together they are not two causes."""
        names = {name for name, _ in self.settings} & {name for name, _ in other.settings}
        mine, yours = (e.wavefronts.union(*(r.instructions for r in e.relaid)) for e in (self, other))
        flags = any(getattr(self, f.name) and getattr(other, f.name) for f in fields(self)[4:])
        return bool(names or mine & yours or self.sectors & other.sectors or flags)


NOTHING = Edit()


def relaid(trace: Trace, tiles: tuple[Relaid, ...]) -> Trace:
    """The trace with tiles in other layouts, and with the additional shared memory that they need.

    The bytes of an element stay together. Data behind a tile stays in place: a tile that grows takes the space
    elsewhere. That moves nothing to another bank if the space is whole lines of banks.
    """
    addresses, active, spaces, sources = [trace.addresses], [trace.active], trace.spaces, trace.sources
    new_row: dict[tuple[int, int], int] = {}
    tile_of = {index: tile for tile in tiles for index in tile.instructions}
    places = {tile: tile.layout.places(tile.tile) for tile in tiles}
    carries = np.array([_carries(trace, index) for index in range(len(trace.code))])
    moved = np.array([index in tile_of for index in range(len(trace.code))])
    count = len(trace.addresses)
    warps = []
    for warp in trace.warps:
        indices = warp.path[carries[warp.path]]
        rows = warp.rows.copy()
        for place in np.flatnonzero(moved[indices]).tolist():
            index, row = int(indices[place]), int(rows[place])
            tile = tile_of[index]
            if (index, row) not in new_row:
                new_row[index, row] = count + len(new_row)
                size = tile.tile.element_bytes
                element, byte = np.divmod(trace.addresses[row] - tile.first_byte, size)
                inside = trace.active[row] & (element >= 0) & (element < tile.tile.elements)
                there = tile.first_byte + places[tile][np.where(inside, element, 0)] * size + byte
                addresses.append(np.where(inside, there, trace.addresses[row])[None])
                active.append(trace.active[row][None])
            rows[place] = new_row[index, row]
        warps.append(replace(warp, rows=rows))
    if spaces is not None:
        spaces = np.concatenate([spaces, *(spaces[row][None] for _, row in new_row)])
    if sources is not None:
        sources = np.concatenate([sources, *(sources[row][None] for _, row in new_row)])
    return replace(
        trace, warps=tuple(warps), addresses=np.concatenate(addresses), active=np.concatenate(active), spaces=spaces,
        sources=sources, launch=grown(trace, tiles),
    )  # fmt: skip


def grown(trace: Trace, tiles: tuple[Relaid, ...]) -> Launch:
    """The launch with the shared memory that tiles in other layouts need."""
    more = sum(max(0, t.layout.allocated(t.tile) - t.tile.elements) * t.tile.element_bytes for t in tiles)
    return replace(trace.launch, static_shared_bytes=trace.launch.static_shared_bytes + more)


def _carries(trace: Trace, index: int) -> bool:
    try:
        return trace.code[index].accesses_memory
    except ValueError:
        return False  # An instruction that no warp executed may be anything.


def without(program: Program, arch: Architecture, edit: Edit) -> Program:
    """A copy of a lowered program with the cause removed. Settings and layouts have been applied before."""
    ops, accesses, resident = program.ops, program.accesses, program.resident_ctas
    if edit.no_stall_counts:
        ops = tuple(_without_stall_count(op, program.uses_control_words) for op in ops)
    if edit.barriers_open:
        ops = tuple(replace(op, arrives_only=True) if op.kind is Kind.BARRIER else op for op in ops)
    if edit.all_resident:
        warps = int(np.diff(program.first_warp).max(initial=1))
        resident = max(resident, min(program.ctas, arch.sm.max_warps // warps))
    if edit.further_stages:
        program = deeper(program, edit.further_stages, 1)
    if edit.wavefronts or edit.sectors:
        of = instructions_of_accesses(program)
        accesses = at_ideal(accesses, arch, np.isin(of, [*edit.wavefronts]))
        for instruction in sorted(edit.sectors):
            accesses = _coalesced(program, arch, instruction, np.flatnonzero(of == instruction).tolist(), accesses)
    return replace(program, ops=ops, accesses=accesses, resident_ctas=resident)


def instructions_of_accesses(program: Program) -> Column:
    """The instruction of each access, -1 for an access that several share, which touches no memory."""
    index = program.of_ops("index")[program.path[program.request_issue]]
    own = np.array([op.carries_addresses for op in program.ops])[program.path[program.request_issue]]
    found = np.full(len(program.accesses), -1, dtype=np.int64)
    found[program.access[own]] = index[own]
    return found


def _without_stall_count(op: Op, controlled: bool) -> Op:
    latency = 1 if op.kind is Kind.FIXED and not controlled else op.latency_cycles
    return replace(op, stall_cycles=1, latency_cycles=latency)


def at_ideal(accesses: Accesses, arch: Architecture, which: NDArray[np.bool_] | bool = True) -> Accesses:
    """The accesses with the minimum of wavefronts, or of pieces for asynchronous copies, for the instructions
    `which`.
    """
    excess = np.where(which, np.maximum(0, accesses.wavefronts - accesses.ideal_wavefronts), 0)
    memory = arch.global_memory
    least = np.maximum(1, -(-accesses.sectors * memory.sector_bytes // memory.l1.line_bytes))
    return replace(
        accesses,
        wavefronts=accesses.wavefronts - excess,
        data_stage_cycles=accesses.data_stage_cycles
        - np.minimum(excess, np.maximum(0, accesses.data_stage_cycles - 1)),
        copy_pieces=np.where(which, np.minimum(accesses.copy_pieces, least), accesses.copy_pieces),
    )


def _coalesced(
    program: Program, arch: Architecture, instruction: int, numbers: list[int], accesses: Accesses
) -> Accesses:
    """Let each access of an instruction move the minimum of sectors, as if its lanes were adjacent.

    The accesses get the instruction's touched sectors in order, in as few lines as hold them. As long as there are
    enough sectors, no data is dropped that other accesses find in L1.
    """
    memory = arch.global_memory
    each = memory.l1.line_bytes // memory.sector_bytes
    first = accesses.first_sector[accesses.first_line]
    touched = np.unique(np.concatenate([accesses.sector[first[n] : first[n + 1]] for n in numbers]))
    lines = np.unique(touched // each)
    groups_of, width = arch.shared_memory.lanes_per_group, program.code[instruction].operation.width_bits
    lanes = groups_of.bits_32 if width <= 32 else groups_of.bits_64 if width <= 64 else groups_of.bits_128
    passes = np.minimum(accesses.data_stage_cycles - accesses.wavefronts, 32 // lanes)
    dealt: list[Accesses] = []
    kept = next_sector = 0
    for n in numbers:
        fewest = int(accesses.ideal_sectors[n])
        if accesses.sectors[n] <= fewest or not accesses.lines[n]:
            continue
        places = np.unique((next_sector + np.arange(fewest)) % len(touched))
        next_sector += fewest
        sector = lines[places // each] * each + places % each
        line, begins = np.unique(sector // each, return_index=True)
        changed = replace(
            accesses.part(n, n + 1),
            sectors=np.array([fewest]),
            data_stage_cycles=(accesses.wavefronts + passes)[n : n + 1],
            first_line=np.array([0, len(line)]),
            line=line,
            in_part=np.zeros(len(line), np.int64),
            first_sector=np.append(begins, len(sector)),
            sector=sector,
            asked=np.full(len(sector), WHOLE),
        )
        dealt += [accesses.part(kept, n), changed]
        kept = n + 1
    return joined([*dealt, accesses.part(kept, len(accesses))])
