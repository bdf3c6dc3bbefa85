"""The data stage: banked shared memory behind its ports, and the paths from and to the sub-cores.

A port (`shared_memory.ports`) passes one wavefront a cycle, a warp one every
`shared_memory.cycles_per_wavefront_per_warp`: a port is that many slots, each serving one instruction at that pace.
Accesses to global memory have a path of their own, and the wavefronts that their lanes' words would have in shared
memory, or those of their lines' tags if they are more: tags lie in banks (`global_memory.l1.tag_bank_masks`), each of
which finds one a cycle. So a warp that reads 128 bytes across two lines takes one, and one that reads a word of each of
32 lines 8 if the words are in different banks, 32 if they are all in one. Loads look up the tags as they pass; a
wavefront of a global store that leaves L1 holds them up for `global_memory.l1.store_cycles`. An S2R of a lane's number
has the stage for itself for `mio.lane_register_cycles`: in the first the arbiter keeps others out, in the second a
load's wavefront is lost and comes again.

Asynchronous copies (LDGSTS) depend on shared and global addresses together (`gpuemu/banks/copies.py`). Through L1
(`cp.async.ca`) their lines find their tags, one of each bank of tags at a time; what a tag wavefront found goes on in
the groups of a store, and a lane waits for all earlier ones that read from, or write to, a bank of its own. So 16 bytes
out of each of 32 rows take 32 wavefronts, however well they lie in shared memory. They hit L1 and fill it as loads do.
Past L1 (`.cg`, BYPASS) they go in pieces, sectors of one line to one line, never take a port of the data stage, and
invalidate what L1 has of what they read. Where a trace does not say what a copy reads, it reads without gaps from a
line's begin on.
"""

from __future__ import annotations

import numpy as np

from gpuemu.engine.code import Op
from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.units.kinds import GLOBAL, LANE_REGISTER, SHARED
from gpuemu.engine.units.rings import forget, length, nth, push

NO_LOAD = -1


class DataStage(Record):
    """Slots of reads and writes, and paths by warp slot.

    A request begins in the slot `chosen`, its last wavefront passes at `last`. The last that entered did so at
    `entered_at`.
    """

    entered_at: int
    slots_at: int
    read_slots: int
    write_slots_at: int
    write_slots: int
    read_paths_at: int
    write_paths_at: int
    l1_paths_at: int
    copied_at: int
    alone: int
    leaving: int
    chosen: int
    last: int
    read_cycles: int
    write_cycles: int

    def begin(self, m: Setup, number: int) -> None:
        """Slots beyond one for each request are never taken."""
        s, room = m.spec, m.room
        self.read_slots = min(m.requests + 1, s.read_ports * s.shared_memory_cycles_per_wavefront_per_warp)
        self.write_slots = min(m.requests + 1, s.write_ports * s.shared_memory_cycles_per_wavefront_per_warp)
        self.slots_at, self.write_slots_at = (room.numbers("slots", n) for n in (self.read_slots, self.write_slots))
        room.numbers("slot_loads", self.read_slots, NO_LOAD)
        self.read_paths_at, self.l1_paths_at = (room.numbers("paths", s.sm_max_warps) for _ in range(2))
        self.write_paths_at = room.numbers("paths", s.sm_max_warps) if s.separate else self.read_paths_at
        # One has the stage to itself for its cycles; it is remembered for as long, and for what it comes early.
        alone = 4 + s.mio_lane_register_early_cycles // s.mio_lane_register_cycles
        self.alone = room.ring("lane registers at the data stage", min(m.requests, alone) + 1)
        self.leaving = room.ring("lines of stores that leave L1", self.lines_leaving(m) + 1)

    @staticmethod
    def lines_leaving(m: Setup) -> int:
        """How many lines of stores are known that have not left L1, or had not when the last request came.

        Of those that the pool lets in there are as many lines to a wavefront as there are banks of tags; as many may
        have left, and what passed the ports since, in the cycles for which one that leaves keeps loads from the tags.
        """
        s, cycles = m.spec, m.data_stage_cycles
        stores = np.array([op.is_plain_global_store for op in m.program.ops])[m.program.path[m.program.request_issue]]
        lines = np.maximum(1, m.program.accesses.lines[m.program.access])[stores]
        if not lines.size:
            return 1
        to_a_wavefront = int((-(-lines // np.maximum(1, cycles[stores]))).max())
        pool = max(s.mio_store_pool_wavefronts, int(cycles[stores].max()))
        passing = (s.read_ports + s.write_ports) * (s.global_memory_l1_store_cycles + 2)
        return min(int(lines.sum()), to_a_wavefront * (2 * pool + passing))


class Passing(Record):
    """A request: when its first wavefront passes, or it is sent on; how many were `lost` while an S2R had the stage."""

    start: int
    lost: int


def find_slot(state: State, f: int, earliest: int) -> int:
    """When a request can begin to pass, not before `earliest`; `data_stage[0].chosen` is in which slot then."""
    op = state.ops[state.flights[f].op]
    start = max(earliest, state.paths[_path(state, f, op)])
    if op.kind == LANE_REGISTER:
        return _lane_register_slot(state, start)
    return _slot(state, op.is_store, start)


def _path(state: State, f: int, op: Op) -> int:
    """Where it is kept from when on the warp's path is free."""
    stage: DataStage = state.data_stage[0]
    slot = state.warps[state.flights[f].warp].slot
    if op.kind == GLOBAL and op.is_copy == 0:
        return stage.l1_paths_at + slot
    return (stage.write_paths_at if op.is_store else stage.read_paths_at) + slot


def _slot(state: State, write: int, start: int) -> int:
    spec, slots = state.spec[0], state.slots
    stage: DataStage = state.data_stage[0]
    pace = spec.shared_memory_cycles_per_wavefront_per_warp
    slots_at, count, ports = stage.slots_at, stage.read_slots, spec.read_ports
    if write and spec.separate:
        slots_at, count, ports = stage.write_slots_at, stage.write_slots, spec.write_ports
    chosen = -1
    while chosen < 0:
        # The slot that has been free for the shortest time leaves the others to requests that can start sooner.
        chosen_free_at, same, soonest = -1, 0, NEVER
        for i in range(count):
            free_at = slots[slots_at + i]
            soonest = min(soonest, free_at)
            if free_at > start:
                same += 1 if (free_at - start) % pace == 0 else 0
            elif free_at > chosen_free_at:
                chosen, chosen_free_at = i, free_at
        if chosen < 0:
            start = soonest
        elif same >= ports:
            chosen = -1
            start += 1  # others' wavefronts pass in this very cycle
    stage.chosen = slots_at + chosen
    return start


def begin(state: State, f: int, start: int) -> int:
    """A request begins in the slot that was found for `start`; returns when its first wavefront passes.

    `data_stage[0].last` is when the last does.
    """
    spec, slots = state.spec[0], state.slots
    stage: DataStage = state.data_stage[0]
    flight = state.flights[f]
    op, cycles = state.ops[flight.op], state.accesses[flight.access].data_stage_cycles
    pace = spec.shared_memory_cycles_per_wavefront_per_warp
    if op.kind == LANE_REGISTER:
        return _begin_lane_register(state, f, start)
    of_reads = 1 if stage.slots_at <= stage.chosen < stage.slots_at + stage.read_slots else 0
    if of_reads:
        load = f if op.is_load and op.kind == SHARED else NO_LOAD
        state.slot_loads[stage.chosen - stage.slots_at] = load
        start = _past_lane_registers(state, start, load)
    stage.last = start + (cycles - 1) * pace
    if op.kind == GLOBAL and op.is_copy == 0 and op.is_store == 0:
        stage.last = _look_up(state, start, cycles)
    state.paths[_path(state, f, op)] = slots[stage.chosen] = stage.last + pace
    if op.is_store:
        stage.write_cycles += cycles
    else:
        stage.read_cycles += cycles
    return start


def store_leaves(state: State, cycle: int) -> None:
    """A wavefront of a global store will leave L1 at `cycle`, behind those of the stores before."""
    stage: DataStage = state.data_stage[0]
    each = state.spec[0].global_memory_l1_store_cycles
    forget(state, stage.leaving, stage.entered_at - each)
    push(state, stage.leaving, cycle)


def _look_up(state: State, start: int, cycles: int) -> int:
    """When the last of so many wavefronts has looked up its tags, between those that leave."""
    spec = state.spec[0]
    stage: DataStage = state.data_stage[0]
    each, pace = spec.global_memory_l1_store_cycles, spec.shared_memory_cycles_per_wavefront_per_warp
    last = start - pace
    for _ in range(cycles):
        last += pace
        for n in range(length(state, stage.leaving)):
            begin = nth(state, stage.leaving, n)
            if begin > last:
                break
            last = max(last, begin + each)
    return last


def _past_lane_registers(state: State, start: int, load: int) -> int:
    """When a request begins that would begin at `start`, where lane registers may be under way."""
    spec = state.spec[0]
    stage: DataStage = state.data_stage[0]
    each = spec.mio_lane_register_cycles
    forget(state, stage.alone, start - each - spec.mio_lane_register_early_cycles)
    for n in range(length(state, stage.alone)):
        begin = nth(state, stage.alone, n)
        if start == begin:
            start += 1
        while begin < start < begin + each:
            start += spec.shared_memory_cycles_per_wavefront_per_warp
            if load != NO_LOAD:
                state.passing[load].lost += 1
    return start


def _lane_register_slot(state: State, start: int) -> int:
    """When an S2R gets the data stage: behind others of its kind, when a slot is free."""
    spec, slots = state.spec[0], state.slots
    stage: DataStage = state.data_stage[0]
    if length(state, stage.alone) > 0:
        start = max(start, nth(state, stage.alone, length(state, stage.alone) - 1) + spec.mio_lane_register_cycles)
    soonest = NEVER
    for i in range(stage.read_slots):
        soonest = min(soonest, slots[stage.slots_at + i])
    start = max(start, soonest)
    chosen_free_at = -1
    for i in range(stage.read_slots):
        if chosen_free_at < slots[stage.slots_at + i] <= start:
            stage.chosen, chosen_free_at = stage.slots_at + i, slots[stage.slots_at + i]
    return start


def _begin_lane_register(state: State, f: int, start: int) -> int:
    """The cycle at which an S2R has the data stage.

    A load that passes in another slot is not told that its result comes later: that was settled with it.
    """
    spec, slots = state.spec[0], state.slots
    stage: DataStage = state.data_stage[0]
    pace = spec.shared_memory_cycles_per_wavefront_per_warp
    chosen, meets = stage.chosen - stage.slots_at, 0
    for i in range(stage.read_slots):
        meets += 1 if i != chosen and _last_passes(slots[stage.slots_at + i], start, pace) == start else 0
    if meets > 0:
        start += 1  # one of the others passes in this very cycle
    until = start + spec.mio_lane_register_cycles
    forget(state, stage.alone, start - spec.mio_lane_register_cycles - spec.mio_lane_register_early_cycles)
    push(state, stage.alone, start)
    for i in range(stage.read_slots):
        if i != chosen and _last_passes(slots[stage.slots_at + i], until - 1, pace) > start:
            if state.slot_loads[i] != NO_LOAD:
                state.passing[state.slot_loads[i]].lost += 1
            slots[stage.slots_at + i] += pace
    state.paths[stage.read_paths_at + state.warps[state.flights[f].warp].slot] = slots[stage.chosen] = until
    stage.last = until - pace
    stage.read_cycles += 1
    return start


def _last_passes(free_at: int, cycle: int, pace: int) -> int:
    """When a slot that is busy until `free_at` passes its last wavefront up to a cycle."""
    return free_at - pace * max(1, -((cycle - free_at) // pace))
