"""The data stage: banked shared memory behind its ports, and the paths from and to the sub-cores.

A port passes one wavefront a cycle, a warp one every `cycles_per_wavefront_per_warp`: a port is that many slots, each
serving one instruction at that pace. In front is a window of `window_entries`: what is in it goes when a slot and its
warp are free, and holds its entry for `window_release_cycles` more. Accesses to global memory have a path of their own.
Loads of those look up the tags of L1 as they pass; a wavefront of a global store that leaves L1 holds them up for
`l1.store_cycles`. Asynchronous copies past L1 take no port, but `copy_entries` of them at most wait to be sent on, a
piece a cycle. An S2R of a lane's number has the stage for itself for `lane_register_cycles`: in the first the arbiter
keeps others out, in the second a load's wavefront is lost and comes again.
"""

from __future__ import annotations

from gpuemu.engine.records import NEVER
from gpuemu.engine.state import State
from gpuemu.engine.units.rings import forget, length, nth, pop, push, take

NO_LOAD = -1


def serve(state: State, f: int, there: int, write: int, load: int, l1: int) -> int:
    """The cycle in which the first wavefront of a request passes; `data_stage[0].last` is that of the last.

    `load`: of a shared-memory load its number.
    """
    spec, stage, pool = state.spec[0], state.data_stage[0], state.pool
    flight = state.flights[f]
    cycles = state.accesses[flight.access].data_stage_cycles
    stage.last = there
    if cycles == 0:
        return there
    _pass_openings(state, there)
    pace = spec.shared_memory_cycles_per_wavefront_per_warp
    path = state.warps[flight.warp].slot
    path += stage.l1_paths_at if l1 else stage.write_paths_at if write else stage.read_paths_at
    slots_at, slots = stage.slots_at, stage.read_slots
    ports = spec.read_ports
    if write and spec.separate:
        slots_at, slots, ports = stage.write_slots_at, stage.write_slots, spec.write_ports
    start = max(_enter(state, there), pool[path])
    chosen = -1
    while chosen < 0:
        # The slot that has been free for the shortest time leaves the others to requests that can start sooner.
        chosen_free_at, same, soonest = -1, 0, NEVER
        for i in range(slots):
            free_at = pool[slots_at + i]
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
    if slots_at == stage.slots_at:
        pool[stage.loads_at + chosen] = load
        start = _past_lane_registers(state, start, load)
    stage.last = start + (cycles - 1) * pace
    if l1 and write == 0:
        stage.last = _look_up(state, start, cycles)
    pool[path] = pool[slots_at + chosen] = stage.last + pace
    if write:
        state.sm[0].write_cycles += cycles
    else:
        state.sm[0].read_cycles += cycles
    push(state, stage.window, start + spec.mio_window_release_cycles)
    return start


def _enter(state: State, there: int) -> int:
    """When a request enters the window: behind those before it, when it has an entry to spare."""
    stage, window = state.data_stage[0], state.data_stage[0].window
    entered, i = max(there, stage.entered_at), 0
    while i < length(state, window):
        if nth(state, window, i) <= entered:
            take(state, window, i)
        else:
            i += 1
    if length(state, window) >= state.spec[0].mio_window_entries:
        soonest = 0
        for n in range(1, length(state, window)):
            if nth(state, window, n) < nth(state, window, soonest):
                soonest = n
        entered = nth(state, window, soonest)
        take(state, window, soonest)
    stage.entered_at = entered
    return entered


def send_copy(state: State, there: int, pieces: int) -> int:
    """The cycle in which an asynchronous copy past L1 begins to be sent on."""
    spec, stage = state.spec[0], state.data_stage[0]
    stage.entered_at = max(there, stage.entered_at)
    waiting = length(state, stage.copies)
    if waiting >= spec.mio_copy_entries:
        stage.entered_at = max(stage.entered_at, nth(state, stage.copies, waiting - spec.mio_copy_entries))
    start = max(stage.entered_at + spec.mio_copy_latency_cycles, stage.copies_free_at)
    stage.copies_free_at = start + pieces
    if waiting > state.rings[stage.copies].mask:
        pop(state, stage.copies)  # there is room for as many as may still wait
    push(state, stage.copies, start)
    return start


def store_leaves(state: State, cycle: int) -> None:
    """A wavefront of a global store will leave L1 at `cycle`, behind those of the stores before."""
    stage = state.data_stage[0]
    each = state.spec[0].global_memory_l1_store_cycles
    forget(state, stage.leaving, stage.entered_at - each)
    push(state, stage.leaving, cycle)


def _look_up(state: State, start: int, cycles: int) -> int:
    """When the last of so many wavefronts has looked up its tags, between those that leave."""
    spec, stage = state.spec[0], state.data_stage[0]
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


def barrier_opens(state: State, cycle: int, warps: int, now: int) -> None:
    """A barrier opens at `cycle`, which lies ahead of every arrival so far, for so many warps that wait."""
    spec, stage = state.spec[0], state.data_stage[0]
    if spec.barrier_data_stage_cycles > 0:
        _pass_openings(state, now - spec.mio_lane_register_early_cycles)
        push(state, stage.openings, cycle)
        push(state, stage.opening_costs, spec.barrier_data_stage_cycles + min(warps, spec.sm_sub_cores))


def _pass_openings(state: State, arrival: int) -> None:
    """Nothing passes for a while behind the openings that come no later than `arrival`."""
    stage, pool = state.data_stage[0], state.pool
    while length(state, stage.openings) > 0:
        soonest = 0
        for n in range(1, length(state, stage.openings)):
            cycle, other = nth(state, stage.openings, n), nth(state, stage.openings, soonest)
            cost, other_cost = nth(state, stage.opening_costs, n), nth(state, stage.opening_costs, soonest)
            if cycle < other or (cycle == other and cost < other_cost):
                soonest = n
        opening, cost = nth(state, stage.openings, soonest), nth(state, stage.opening_costs, soonest)
        if opening > arrival:
            return
        take(state, stage.openings, soonest)
        take(state, stage.opening_costs, soonest)
        for i in range(stage.read_slots):
            pool[stage.slots_at + i] = max(pool[stage.slots_at + i], opening) + cost
        if state.spec[0].separate:
            for i in range(stage.write_slots):
                pool[stage.write_slots_at + i] = max(pool[stage.write_slots_at + i], opening) + cost


def _past_lane_registers(state: State, start: int, load: int) -> int:
    """When a request begins that would begin at `start`, where lane registers may be under way."""
    spec, stage = state.spec[0], state.data_stage[0]
    each = spec.mio_lane_register_cycles
    forget(state, stage.alone, stage.entered_at - each)
    for n in range(length(state, stage.alone)):
        begin = nth(state, stage.alone, n)
        if start == begin:
            start += 1
        while begin < start < begin + each:
            start += spec.shared_memory_cycles_per_wavefront_per_warp
            if load != NO_LOAD:
                state.flights[load].lost += 1
    return start


def serve_lane_register(state: State, f: int, arrival: int) -> int:
    """The cycle at which an S2R gets the data stage.

    A load that passes in another slot is not told that its result comes later: that was settled with it.
    """
    spec, stage, pool = state.spec[0], state.data_stage[0], state.pool
    _pass_openings(state, arrival)
    path = stage.read_paths_at + state.warps[state.flights[f].warp].slot
    pace = spec.shared_memory_cycles_per_wavefront_per_warp
    start = max(_enter(state, arrival), pool[path])
    forget(state, stage.alone, stage.entered_at - spec.mio_lane_register_cycles)
    if length(state, stage.alone) > 0:
        start = max(start, nth(state, stage.alone, length(state, stage.alone) - 1) + spec.mio_lane_register_cycles)
    soonest = NEVER
    for i in range(stage.read_slots):
        soonest = min(soonest, pool[stage.slots_at + i])
    start = max(start, soonest)
    chosen, chosen_free_at = -1, -1
    for i in range(stage.read_slots):
        if chosen_free_at < pool[stage.slots_at + i] <= start:
            chosen, chosen_free_at = i, pool[stage.slots_at + i]
    meets = 0
    for i in range(stage.read_slots):
        meets += 1 if i != chosen and _passes(pool[stage.slots_at + i], start, pace) else 0
    if meets > 0:
        start += 1  # one of the others passes in this very cycle
    until = start + spec.mio_lane_register_cycles
    push(state, stage.alone, start)
    for i in range(stage.read_slots):
        meets = 0
        for cycle in range(start + 1, until):
            meets += 1 if i != chosen and _passes(pool[stage.slots_at + i], cycle, pace) else 0
        if meets > 0:
            if pool[stage.loads_at + i] != NO_LOAD:
                state.flights[pool[stage.loads_at + i]].lost += 1
            pool[stage.slots_at + i] += pace
    pool[path] = pool[stage.slots_at + chosen] = until
    state.sm[0].read_cycles += 1
    push(state, stage.window, start + spec.mio_window_release_cycles)
    return start


def _passes(free_at: int, cycle: int, pace: int) -> int:
    """Whether a slot that is busy until `free_at` passes a wavefront in a cycle."""
    return 1 if cycle < free_at and (free_at - cycle) % pace == 0 else 0
