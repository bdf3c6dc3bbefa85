"""The data stage: banked shared memory and its ports, and the paths from and to the sub-cores.

A port (`shared_memory.ports`) passes one wavefront per cycle, a warp one every
`shared_memory.cycles_per_wavefront_per_warp`. A port therefore has that many slots, each of which serves one
instruction at that pace.

Accesses to global memory have a path of their own. They take the wavefronts that their lanes' words would have in
shared memory, or those of their lines' tags if that is more. Tags lie in banks (`global_memory.l1.tag_bank_masks`),
each of which finds one tag per cycle. A warp that reads 128 bytes across two lines takes one wavefront. A warp that
reads a word of each of 32 lines takes 8 if the tags lie in different banks, and 32 if they share one. Loads look up the
tags as they pass. A wavefront of a global store that leaves L1 delays them by `global_memory.l1.store_cycles`. An S2R
of a lane's number has the stage to itself for `mio.lane_register_cycles`: in the first cycle the arbiter keeps others
out, in the second a load's wavefront is lost and repeated.

Asynchronous copies (LDGSTS) depend on shared and global addresses together (`gpuemu/banks/copies.py`). Copies through
L1 (`cp.async.ca`) look up the tags of their lines, at most one of each bank of tags at a time. The data that a tag
wavefront found go on in the groups of a store. A lane waits for all earlier lanes that read from, or write to, one of
its banks. Copies of 16 bytes from each of 32 rows therefore take 32 wavefronts, however well they lie in shared memory.
Copies through L1 hit L1 and fill it as loads do. Copies past L1 (`.cg`, BYPASS) go in pieces, sectors of one line to
one line. They never take a port of the data stage, and invalidate the sectors that L1 has of their sources. If a trace
does not know a copy's source, the copy reads without gaps from the begin of a line.
"""

from __future__ import annotations

import numpy as np

from gpuemu.engine.code import OpRecord
from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.units.kinds import GLOBAL, LANE_REGISTER, SHARED
from gpuemu.engine.units.rings import forget, length, nth, push

NO_LOAD = -1


class DataStage(Record):
    """Slots of reads and writes, and paths by warp slot.

    A request begins in the slot `chosen`, and its last wavefront passes at `last`. The last request entered at
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
        # An S2R is remembered for the cycles that it has the stage to itself, and for those by which it comes early.
        alone = 4 + s.mio_lane_register_early_cycles // s.mio_lane_register_cycles
        self.alone = room.ring("lane registers at the data stage", min(m.requests, alone) + 1)
        self.leaving = room.ring("lines of stores that leave L1", self.lines_leaving(m) + 1)

    @staticmethod
    def lines_leaving(m: Setup) -> int:
        """The number of lines of stores known at once that have not left L1, or had not when the last request came.

        The pool limits the stores; each wavefront has as many lines as there are banks of tags. As many may have left,
        besides those that passed the ports in the cycles for which a leaving line keeps loads from the tags.
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
    """A request: when its first wavefront passes or it is sent on, and how many wavefronts it `lost` while an S2R had
    the stage.
    """

    start: int
    lost: int


def find_slot(state: State, f: int, earliest: int) -> int:
    """The cycle in which a request can begin to pass, at least `earliest`; `data_stage[0].chosen` is the slot then."""
    op = state.ops[state.flights[f].op]
    start = max(earliest, state.paths[_path(state, f, op)])
    if op.kind == LANE_REGISTER:
        return _lane_register_slot(state, start)
    return _slot(state, op.is_store, start)


def _path(state: State, f: int, op: OpRecord) -> int:
    """The place of the note when the warp's path is free."""
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
        # The slot that has been free for the shortest time: requests that can start sooner get the others.
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
            start += 1  # other requests' wavefronts pass in this very cycle
    stage.chosen = slots_at + chosen
    return start


def begin(state: State, f: int, start: int) -> int:
    """A request begins in the slot that was found for `start`; returns the cycle of its first wavefront.

    `data_stage[0].last` is the cycle of its last wavefront.
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
    """A wavefront of a global store will leave L1 at `cycle`, after those of earlier stores."""
    stage: DataStage = state.data_stage[0]
    each = state.spec[0].global_memory_l1_store_cycles
    forget(state, stage.leaving, stage.entered_at - each)
    push(state, stage.leaving, cycle)


def _look_up(state: State, start: int, cycles: int) -> int:
    """The cycle in which the last of `cycles` wavefronts has looked up its tags, between stores that leave L1."""
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
    """The cycle in which a request can begin that would begin at `start`, if S2Rs of lane numbers are under way."""
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
    """The cycle in which an S2R gets the data stage: after others of its kind, when a slot is free."""
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
    """The cycle in which an S2R has the data stage.

    A load that passes in another slot does not learn that its result comes later: that was settled when it began.
    """
    spec, slots = state.spec[0], state.slots
    stage: DataStage = state.data_stage[0]
    pace = spec.shared_memory_cycles_per_wavefront_per_warp
    chosen, meets = stage.chosen - stage.slots_at, 0
    for i in range(stage.read_slots):
        meets += 1 if i != chosen and _last_passes(slots[stage.slots_at + i], start, pace) == start else 0
    if meets > 0:
        start += 1  # another request's wavefront passes in this very cycle
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
    """The cycle up to `cycle` in which a slot that is busy until `free_at` passes its last wavefront."""
    return free_at - pace * max(1, -((cycle - free_at) // pace))
