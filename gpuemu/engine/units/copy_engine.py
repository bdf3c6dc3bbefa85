"""The copy engine (TMA): it copies blocks between global and shared memory, each for one instruction.

A copy has its turn `copy_engine.latency_cycles` after its issue and after all earlier copies. A copy by a tensor map
also waits for the map, which arrives `copy_engine.map_cycles` after the first request for it.

A load takes the engine for its lines of global memory, each for `copy_engine.line_cycles`, and for its sectors at
`copy_engine.load_bytes_per_cycle`. Its data are in shared memory `copy_engine.load_latency_cycles` after the last of
them. Its mbarrier is notified then. A prefetch into L2 takes the engine for its lines alone.

A store takes the engine at the pace of the path from the SM. On that path a mask follows each sector written in part,
and `copy_engine.reduction_sectors` follow each line of a reduction. Its data have been read
`copy_engine.store_latency_cycles` after its end. UTMACMDFLUSH ends a group of a warp's stores: the counter falls when
the engine has read all of them. Prefetches, and copies in which no lane takes part, release their registers after
`copy_engine.idle_release_cycles`.
"""

from __future__ import annotations

from gpuemu.engine.records import Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Takes, Unit, each_op, each_warp
from gpuemu.engine.units.dependences import new_flight, result_at, sources_at
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
    "UGETNEXTWORKID": LOADS,
    "UBLKPF": PREFETCHES,
    "UTMAPF": PREFETCHES,
    "UTMACMDFLUSH": GROUPS,
    "UTMACCTL": MAPS,
}


class CopyEngine(Record):
    """Until when the engine works, in parts of a cycle. `maps_there`: the arrival of each tensor map, or -1."""

    free_at: int

    def begin(self, m: Setup, number: int) -> None:
        """The engine has no map."""
        m.room.numbers("maps_there", max(1, m.program.events.maps if m.program.events else 0), -1)


class CopyOp(Record):
    """The kind of an instruction for the copy engine."""

    what: int

    def begin(self, m: Setup, number: int) -> None:
        """Initialize from the opcode."""
        instruction = m.program.code[m.program.ops[number].index]
        self.what = _WHAT.get(instruction.mnemonic, NOTHING)
        if instruction.mnemonic == "UBLKCP" and parse_opcode(instruction.opcode).modifiers[:1] == ("S",):
            self.what = LOADS


class Stores(Record):
    """A warp's stores: the cycle in which the last of them has been read."""

    read_at: int


def take_copy(state: State, c: int, w: int, o: int, now: int) -> None:
    """A warp issues a copy, or an instruction that belongs to copies."""
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
        done = engine.free_at // parts + spec.copy_engine_load_latency_cycles
        comes(state, f, done, now)
    else:
        sent = event.sectors + event.masks * spec.global_memory_mask_sectors
        if what == REDUCTIONS:
            sent = event.sectors + event.lines * spec.copy_engine_reduction_sectors
        takes = sent * spec.store_sector_parts // spec.store_cycle_parts
        engine.free_at = start + max(spec.copy_engine_least_store_cycles, takes) * parts
        state.memory[0].stored_sectors += event.sectors
        state.memory[0].sent_sectors += sent
        done = engine.free_at // parts + spec.copy_engine_store_latency_cycles
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
