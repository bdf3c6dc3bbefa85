"""The SM's load/store unit: requests leave the sub-cores' queues, and the unit dispatches them.

A request leaves its queue (`mio.queue_entries`) after `mio.queue_latency_cycles`, when its sub-core has sent the
registers of the request before it. The unit dispatches the request when there is room after the queues. It takes a
request every `mio.request_interval_cycles`. It takes most requests at their dispatch, and of several the one of the
sub-core served longest ago. It takes STS and ATOMS with their last register. These give way to a request that arrives
then from a sub-core that was served before their own sent the previous register. Stores, atomics and shuffles come to
the data stage `mio.data_read_cycles` later than loads. Each register beyond the first, and its delays on the way, add
to that.
"""

from __future__ import annotations

from gpuemu.engine.code import OpRecord
from gpuemu.engine.records import NEVER
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Unit, each_sub_core
from gpuemu.engine.units.dependences import sources_at
from gpuemu.engine.units.kinds import COPY_COMMIT, LANE_REGISTER
from gpuemu.engine.units.pass_on import comes, first_sent, serve_lane, take_complete
from gpuemu.engine.units.phases import early, turn, wake, wake_sub_core
from gpuemu.engine.units.pipes import leave_queue
from gpuemu.engine.units.pool import LoadStore, Mio
from gpuemu.engine.units.rings import first, forget, length, nth, pop, push, take


def tick_load_store(state: State, now: int) -> int:
    """Let requests leave their queues, and dispatch those for which there is room."""
    spec = state.spec[0]
    cycle = early(state, now)
    for c in range(spec.sm_sub_cores):
        mio: Mio = state.mio[c]
        if mio.outside < 0 and length(state, mio.queue) > 0 and leaves_at(state, c) <= cycle:
            mio.outside = pop(state, mio.queue)
            mio.left_at = cycle
            state.flights[mio.outside].has_left = 1
            if spec.mio_sending_entries:
                _frees_entry(state, c, cycle, now)
    while True:
        best, longest = -1, NEVER
        for c in range(spec.sm_sub_cores):
            waiting: Mio = state.mio[c]
            if waiting.outside >= 0 and _may_go(state, waiting.outside, cycle):
                op = state.ops[state.flights[waiting.outside].op]
                since = waiting.dispatched_at if op.taken_complete else waiting.accepted_at
                if since < longest:
                    best, longest = c, since
        if best < 0:
            break
        f = state.mio[best].outside
        if state.ops[state.flights[f].op].taken_complete == 0 and _another_first(state, best, cycle):
            take_complete(state, cycle, now)
        else:
            _dispatch(state, best, f, cycle, now)
            if state.flights[f].in_transit and state.flights[f].there == cycle:
                take_complete(state, cycle, now)
    wanted = NEVER
    for c in range(spec.sm_sub_cores):
        left: Mio = state.mio[c]
        if left.outside >= 0:
            wanted = now + 1
        elif length(state, left.queue) > 0:
            wanted = min(wanted, max(now + 1, turn(state, leaves_at(state, c))))
    return wanted


def leaves_at(state: State, c: int) -> int:
    """The cycle in which the first request of a sub-core's queue leaves it, if nothing delays its registers further."""
    spec = state.spec[0]
    mio: Mio = state.mio[c]
    flight = state.flights[first(state, mio.queue)]
    sent = mio.sending_until
    if mio.last_sent >= 0:
        behind_load = state.ops[state.flights[mio.last_sent].op].is_load
        if behind_load and state.ops[flight.op].is_load == 0:
            sent -= spec.mio_data_read_cycles  # it reads its first register later
    return max(flight.as_issued_at + spec.mio_queue_latency_cycles, sent)


def _frees_entry(state: State, c: int, cycle: int, now: int) -> None:
    core = state.cores[c]
    if leave_queue(state, core, core.pipes_at, cycle):
        wake_sub_core(state, c, max(now, cycle))


def _may_go(state: State, f: int, cycle: int) -> int:
    """Whether there is room after the queues, and the unit can take the request now."""
    spec, flight = state.spec[0], state.flights[f]
    unit: LoadStore = state.load_store[0]
    op, access = state.ops[flight.op], state.accesses[flight.access]
    if op.taken_complete == 0 and cycle < unit.next_accept:
        return 0
    if op.kind == COPY_COMMIT or access.takes_place == 0:
        return 1
    if op.is_plain_global_store:
        while length(state, unit.stored) > 0 and first(state, unit.stored) <= cycle:
            pop(state, unit.stored)
            unit.stored_wavefronts -= pop(state, unit.stored)
        room = max(0, spec.mio_store_pool_wavefronts - access.data_stage_cycles)
        if unit.sent_wavefronts + unit.stored_wavefronts > room:
            return 0
    if op.stored_registers > 0:
        held, i = unit.sent_registers, 0
        while i < length(state, unit.held_data):
            if nth(state, unit.held_data, i) <= cycle:
                take(state, unit.held_data, i)
                take(state, unit.held_registers, i)
            else:
                held += nth(state, unit.held_registers, i)
                i += 1
        if held > max(0, spec.mio_store_data_registers - op.stored_registers):
            return 0
    forget(state, unit.entered, cycle)
    copies, waiting = state.window[0].copies, 0
    for n in range(length(state, copies) - 1, -1, -1):
        if nth(state, copies, n) <= cycle:
            break
        waiting += 1
    return 1 if unit.sent_places + length(state, unit.entered) + waiting < spec.mio_pool_entries else 0


def _another_first(state: State, c: int, cycle: int) -> int:
    """Whether a complete request goes before the load of a sub-core that was served since it sent a register."""
    if length(state, state.load_store[0].sent) == 0:
        return 0
    flight = state.flights[first_sent(state)]
    if flight.there != cycle or state.ops[flight.op].taken_complete == 0:
        return 0
    sent = flight.there - flight.refused - state.spec[0].mio_cycles_per_source_register
    return 1 if sent <= state.mio[c].accepted_at else 0


def _dispatch(state: State, c: int, f: int, cycle: int, now: int) -> None:
    spec, flight = state.spec[0], state.flights[f]
    mio: Mio = state.mio[c]
    op = state.ops[flight.op]
    mio.dispatched_at = flight.dispatched_at = cycle
    if op.taken_complete == 0:
        mio.accepted_at = cycle
        state.load_store[0].next_accept = cycle + spec.mio_request_interval_cycles
    mio.outside = -1
    mio.last_sent = f
    _send(state, c, f, op, cycle, now)
    if spec.mio_sending_entries == 0:
        _frees_entry(state, c, cycle, now)


def _send(state: State, c: int, f: int, op: OpRecord, cycle: int, now: int) -> None:
    """Its registers go to the data stage, the address first; registers with data to store take turns."""
    spec, flight = state.spec[0], state.flights[f]
    mio: Mio = state.mio[c]
    if op.kind == LANE_REGISTER:
        mio.sending_until = cycle + 1
        serve_lane(state, f, cycle, now)
        return
    each = spec.mio_cycles_per_source_register
    if op.sends_data and op.source_words > 1:
        push(state, state.load_store[0].data_path, f)
        flight.due, flight.registers, flight.since = cycle + each, op.source_words - 1, mio.left_at
        wake(state, state.phase[0].data_path, max(now, turn(state, cycle + each)))
    sending = max(spec.mio_minimum_dispatch_interval_cycles, each * op.source_words)
    mio.sending_until = cycle + sending + flight.late
    beyond_one = each * (op.source_words - 1) + flight.late
    on_time = cycle - spec.mio_queue_latency_cycles  # its issue, as if it had not waited
    release, flight.there = spec.store_release, cycle + beyond_one + spec.mio_data_read_cycles
    if op.is_load:
        release, flight.there = spec.load_release, cycle + beyond_one
    sources_at(state, f, on_time + release + beyond_one, now)
    flight.comes_behind = 1 if flight.there > cycle else 0
    comes(state, f)
    wake(state, state.phase[0].pass_on, max(now, turn(state, flight.there)))


def sent_later(state: State, f: int, cycles: int, now: int) -> None:
    """The registers beyond the first are sent later, of a request in a queue or of the last that left it."""
    flight = state.flights[f]
    flight.late += cycles
    if state.outcomes[f].sources_read_at == NEVER:
        return
    sources_at(state, f, state.outcomes[f].sources_read_at + cycles, now)
    if flight.in_transit:
        flight.there += cycles
    mio: Mio = state.mio[flight.core]
    if mio.last_sent == f:
        mio.sending_until += cycles


LOAD_STORE = Unit(
    "load_store",
    tick_load_store,
    records={"load_store": Kept(LoadStore), "mio": Kept(Mio, each_sub_core)},
    logs={"dispatch": ("flights", "dispatched_at")},
)
