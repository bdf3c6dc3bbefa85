"""From the load/store unit to the data stage, and what becomes of each request there.

Requests come to the window in the order in which their registers are there, a load before a store of the same cycle.
Accesses to global memory go in the order of their dispatch: a load waits until the registers of the stores before it
are there. An entry of the pool falls free `pool_release_cycles` after its request has got in; an asynchronous copy past
L1 keeps it until it is sent on. Data of stores are held until some time after their last wavefront.
"""

from __future__ import annotations

from gpuemu.engine.code import AccessRecord, Op
from gpuemu.engine.records import NEVER
from gpuemu.engine.state import State
from gpuemu.engine.units.data_stage import NO_LOAD, send_copy, serve, serve_lane_register
from gpuemu.engine.units.dependences import result_at, sources_at
from gpuemu.engine.units.global_memory import load, store
from gpuemu.engine.units.kinds import COPY_COMMIT, GLOBAL, SHARED, SHUFFLE
from gpuemu.engine.units.rings import length, nth, push, take
from gpuemu.engine.units.way_back import comes_back


def tick_pass_on(state: State, now: int) -> int:
    """Pass on what is there by now."""
    ahead = state.spec[0].ahead
    while length(state, state.load_store[0].sent) > 0:
        there = state.flights[first_sent(state)].there
        if there > now + ahead:
            return there - ahead
        take_complete(state, now + ahead, now)
    return NEVER


def comes(state: State, f: int) -> None:
    """A request has been dispatched: its registers are on the way."""
    unit, flight = state.load_store[0], state.flights[f]
    op, access = state.ops[flight.op], state.accesses[flight.access]
    flight.in_transit = 1
    push(state, unit.sent, f)
    unit.sent_registers += op.stored_registers
    if op.kind != COPY_COMMIT:
        unit.sent_places += access.takes_place
    if op.is_plain_global_store:
        unit.sent_wavefronts += access.data_stage_cycles


def first_sent(state: State) -> int:
    """Whose registers are there first."""
    sent = state.load_store[0].sent
    best = nth(state, sent, 0)
    for i in range(1, length(state, sent)):
        f = nth(state, sent, i)
        if _comes_before(state, f, best):
            best = f
    return best


def _comes_before(state: State, f: int, g: int) -> int:
    one, other = state.flights[f], state.flights[g]
    if one.there != other.there:
        return 1 if one.there < other.there else 0
    if one.comes_behind != other.comes_behind:
        return 1 if one.comes_behind < other.comes_behind else 0
    if one.dispatched_at != other.dispatched_at:
        return 1 if one.dispatched_at < other.dispatched_at else 0
    return 1 if one.core < other.core else 0


def take_complete(state: State, cycle: int, now: int) -> None:
    """The first that is there goes on to the data stage, or turns out to come later."""
    spec, unit = state.spec[0], state.load_store[0]
    f = first_sent(state)
    flight = state.flights[f]
    op, there = state.ops[flight.op], flight.there
    if unit.sent_wavefronts > 0 and op.kind == GLOBAL and op.is_copy == 0 and op.is_store == 0:
        stores = -1
        for i in range(length(state, unit.sent)):
            other = state.flights[nth(state, unit.sent, i)]
            if state.ops[other.op].is_plain_global_store and other.dispatched_at < flight.dispatched_at:
                stores = max(stores, other.there)
        if stores >= there:
            flight.there, flight.comes_behind = stores, 1
            return
    if op.taken_complete:
        if unit.next_accept > cycle:
            later = unit.next_accept - cycle
            flight.refused += later
            flight.there, flight.comes_behind = unit.next_accept, 1
            sources_at(state, f, flight.sources_read_at + later, now)
            return
        state.cores[flight.core].accepted_at = cycle
        unit.next_accept = cycle + spec.mio_request_interval_cycles
    for i in range(length(state, unit.sent)):
        if nth(state, unit.sent, i) == f:
            take(state, unit.sent, i)
            break
    flight.in_transit = 0
    _serve(state, f, op, state.accesses[flight.access], now)


def _serve(state: State, f: int, op: Op, access: AccessRecord, now: int) -> None:
    """It comes to the data stage; what becomes of it."""
    spec, unit, flight = state.spec[0], state.load_store[0], state.flights[f]
    warp = state.warps[flight.warp]
    there = flight.there
    flight.start = there
    if op.kind == COPY_COMMIT:
        _done(state, f, max(there, warp.copies_done_at), now)
        warp.copies_done_at = 0
        return
    unit.sent_places -= access.takes_place
    if access.copy_pieces > 0:
        flight.start = send_copy(state, there, access.copy_pieces)
        sent = flight.start + access.copy_pieces - 1
        done_at = load(state, f, max(there, sent - spec.mio_copy_latency_cycles))
        warp.copies_done_at = max(warp.copies_done_at, done_at)
        _done(state, f, done_at, now)
        return
    l1 = 1 if op.kind == GLOBAL and op.is_copy == 0 else 0
    number = f if op.is_load and op.kind == SHARED else NO_LOAD
    flight.start = serve(state, f, there, op.is_store, number, l1)
    last = state.data_stage[0].last
    if access.data_stage_cycles > 0:
        push(state, unit.entered, state.data_stage[0].entered_at + spec.mio_pool_release_cycles)
    if op.stored_registers > 0:
        release = spec.mio_store_data_release_cycles
        if op.kind == GLOBAL:
            release = spec.global_memory_store_data_release_cycles
        unit.sent_registers -= op.stored_registers
        push(state, unit.held_data, last + release)
        push(state, unit.held_registers, op.stored_registers)
    # Latencies count from the issue: what a request does up to here when nothing waits is part of them.
    tail = last - spec.mio_queue_latency_cycles
    if op.is_plain_global_store:
        done_at = store(state, f, flight.start, last)
        unit.sent_wavefronts -= access.data_stage_cycles
        unit.stored_wavefronts += access.data_stage_cycles
        push(state, unit.stored, done_at)
        push(state, unit.stored, access.data_stage_cycles)
        buffered = spec.global_memory_store_buffer_sectors * spec.store_sector_parts // spec.store_cycle_parts
        _done(state, f, max(last + spec.global_memory_store_latency_cycles, done_at - buffered), now)
    elif op.kind == GLOBAL:
        done_at = load(state, f, last) + access.return_cycles
        if op.is_copy:
            done_at = _copied(state, done_at, access.data_stage_cycles)
            warp.copies_done_at = max(warp.copies_done_at, done_at)
        if op.is_load:
            comes_back(state, f, done_at, now)
        else:
            _done(state, f, done_at, now)
    elif op.kind == SHUFFLE:
        comes_back(state, f, tail - spec.mio_data_read_cycles + spec.mio_shuffle_latency_cycles, now)
    elif op.is_store:
        _done(state, f, tail + spec.shared_memory_latency_cycles, now)
    else:
        latency = spec.shared_memory_latency_cycles
        if op.is_atomic:
            latency = spec.shared_memory_atomic_latency_cycles - spec.mio_data_read_cycles
        comes_back(state, f, tail + flight.comes_later + access.return_cycles + latency, now)


def _copied(state: State, there: int, lines: int) -> int:
    """When what came `there` into L1 has been copied to shared memory, in the order in which it was asked for."""
    spec, stage = state.spec[0], state.data_stage[0]
    begins = max(there, stage.copied_at)
    stage.copied_at = begins + spec.global_memory_l1_copy_cycles + lines * spec.copy_line_parts // spec.copy_cycle_parts
    return max(there, stage.copied_at - spec.global_memory_l1_copy_cycles - spec.copy_line_parts // spec.copy_cycle_parts)


def _done(state: State, f: int, cycle: int, now: int) -> None:
    """Nothing comes back; it is done then."""
    state.flights[f].completion = cycle
    result_at(state, f, cycle, now)


def serve_lane(state: State, f: int, cycle: int, now: int) -> None:
    """An S2R of a lane's number, which sends no registers, is dispatched; its result waits for none before it."""
    spec, flight = state.spec[0], state.flights[f]
    early = spec.mio_lane_register_early_cycles
    sources_at(state, f, cycle, now)
    flight.start = serve_lane_register(state, f, cycle - early)
    push(state, state.load_store[0].entered, state.data_stage[0].entered_at + spec.mio_pool_release_cycles)
    latency = spec.mio_lane_register_latency_cycles - spec.mio_queue_latency_cycles
    _done(state, f, flight.start + early + latency, now)
