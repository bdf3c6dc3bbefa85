"""The copy engine (TMA): blocks between global and shared memory, each asked for by one instruction.

A copy has its turn `copy_engine.latency_cycles` behind its issue, behind all that came before. One by a tensor map
waits until the map is there, `copy_engine.map_cycles` behind the first that asks for it. A load takes the engine for
the lines of global memory that it touches, each for `copy_engine.line_cycles`, all for their sectors at
`copy_engine.load_bytes_per_cycle`, and is in shared memory `copy_engine.load_latency_cycles` behind the last, and
behind the moment at which the SM's shares of L2 and DRAM have given them; its mbarrier hears of it then. Beside other
SMs L2 lacks every so many-th block, which comes as much later as a load from DRAM does. A prefetch into L2 takes the
engine for its lines alone. A store takes it at the pace of the path from the SM, on which a sector written in part is
followed by its mask and each line of a reduction by `copy_engine.reduction_sectors`, and has been read
`copy_engine.store_latency_cycles` behind its end. UTMACMDFLUSH ends a group of a warp's stores: the counter falls when
all have been read. Of prefetches, and where no lane takes part, registers are released after
`copy_engine.idle_release_cycles`.
"""

from __future__ import annotations

from gpuemu.engine.records import Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.spec import SHARE_PARTS
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Takes, Unit, each_op, each_warp
from gpuemu.engine.units.dependences import new_flight, result_at, sources_at
from gpuemu.engine.units.global_memory import share_gives
from gpuemu.engine.units.mbarriers import comes, event_of
from gpuemu.isa.kind import Kind
from gpuemu.isa.table import parse_opcode

NOTHING, LOADS, STORES, GROUPS, MAPS, REDUCTIONS, PREFETCHES = range(7)
_WHAT = {
    "UBLKCP": STORES,
    "UBLKRED": REDUCTIONS,
    "UTMASTG": STORES,
    "UTMAREDG": REDUCTIONS,
    "UTMALDG": LOADS,
    "UBLKPF": PREFETCHES,
    "UTMAPF": PREFETCHES,
    "UTMACMDFLUSH": GROUPS,
    "UTMACCTL": MAPS,
}


class CopyEngine(Record):
    """Until when it is at work, in parts of a cycle; `maps_there`: when each tensor map is, or -1.

    `absent`: the part of a block that L2 has lacked since the last that it did.
    """

    free_at: int
    absent: int

    def begin(self, m: Setup, number: int) -> None:
        """It has no map."""
        m.room.numbers("maps_there", max(1, m.program.events.maps if m.program.events else 0), -1)


class CopyOp(Record):
    """What an instruction does."""

    what: int

    def begin(self, m: Setup, number: int) -> None:
        """By its opcode."""
        instruction = m.program.code[m.program.ops[number].index]
        self.what = _WHAT.get(instruction.mnemonic, NOTHING)
        if instruction.mnemonic == "UBLKCP" and parse_opcode(instruction.opcode).modifiers[:1] == ("S",):
            self.what = LOADS


class Stores(Record):
    """A warp's stores: when the last has been read."""

    read_at: int


def take_copy(state: State, c: int, w: int, o: int, now: int) -> None:
    """A copy issues, or what goes with copies."""
    spec, engine, what = state.spec[0], state.copy_engine[0], state.copy_op[o].what
    f = new_flight(state, c, w, o, now)
    e = event_of(state, f)
    if what == GROUPS:
        sources_at(state, f, now + spec.copy_engine_group_cycles, now)
        result_at(state, f, max(now + spec.copy_engine_group_cycles, state.bulk_stores[w].read_at), now)
        return
    if e < 0 or what in (NOTHING, MAPS):
        if what == MAPS and e >= 0:
            state.maps_there[state.events[e].map] = -1
        release = now + spec.copy_engine_idle_release_cycles
        sources_at(state, f, release, now)
        result_at(state, f, release, now)
        return
    event = state.events[e]
    release = spec.copy_engine_tensor_release_cycles if event.map >= 0 else spec.copy_engine_source_release_cycles
    if what == PREFETCHES:
        release = spec.copy_engine_idle_release_cycles
    sources_at(state, f, now + release, now)
    ready, parts = now + spec.copy_engine_latency_cycles, spec.copy_engine_cycle_parts
    if event.map >= 0:
        there = event.map
        if state.maps_there[there] < 0:
            state.maps_there[there] = ready + spec.copy_engine_map_cycles
        ready = max(ready, state.maps_there[there])
    start = max(ready * parts, engine.free_at)
    if what == PREFETCHES:
        engine.free_at = start + event.lines * spec.copy_engine_line_cycles * parts
        result_at(state, f, now + release, now)
        return
    if what == LOADS:
        takes = max(event.lines * spec.copy_engine_line_cycles * parts, event.sectors * spec.copy_engine_sector_parts)
        engine.free_at = start + takes
        state.memory[0].loaded_sectors += event.sectors
        later, dram_parts = 0, 0
        engine.absent += spec.copy_absent_parts
        if engine.absent >= SHARE_PARTS:
            engine.absent -= SHARE_PARTS
            later = spec.global_memory_latency_cycles - spec.global_memory_l2_latency_cycles
            dram_parts = event.sectors * spec.dram_copy_parts
        l2_parts = max(event.sectors * spec.l2_load_parts, event.lines * spec.l2_line_parts)
        given = share_gives(state, start // parts, l2_parts, 0, dram_parts)
        done = max(engine.free_at // parts, given) + later + spec.copy_engine_load_latency_cycles
        comes(state, f, done, now)
    else:
        sent = event.sectors + event.masks * spec.global_memory_mask_sectors
        if what == REDUCTIONS:
            sent = event.sectors + event.lines * spec.copy_engine_reduction_sectors
        takes = sent * spec.store_sector_parts // spec.store_cycle_parts
        engine.free_at = start + max(spec.copy_engine_least_store_cycles, takes) * parts
        state.memory[0].stored_sectors += event.sectors
        state.memory[0].sent_sectors += sent
        l2_parts = max(event.sectors * spec.l2_store_parts, event.lines * spec.l2_store_line_parts)
        given = share_gives(state, start // parts, 0, l2_parts, event.sectors * spec.dram_store_parts)
        done = max(engine.free_at // parts, given) + spec.copy_engine_store_latency_cycles
        state.bulk_stores[w].read_at = max(state.bulk_stores[w].read_at, done)
    state.flights[f].completion = done
    result_at(state, f, done, now)


COPY_ENGINE = Unit(
    "copy_engine",
    records={
        "copy_engine": Kept(CopyEngine),
        "copy_op": Kept(CopyOp, each_op),
        "bulk_stores": Kept(Stores, each_warp),
    },
    columns=("maps_there",),
    takes=(Takes(take_copy, (Kind.ASYNCHRONOUS,), pipe="copy_engine", flies=True, reason="long_scoreboard"),),
)
