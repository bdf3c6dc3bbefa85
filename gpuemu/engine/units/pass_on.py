"""The way from the load/store unit to the data stage.

Requests come to the window in the order in which their registers arrive, a load before a store of the same cycle.
Accesses to global memory keep the order of their dispatch: a load waits until the registers of the stores before it
have arrived.
"""

from __future__ import annotations

from gpuemu.engine.records import NEVER
from gpuemu.engine.state import State
from gpuemu.engine.unit import Unit
from gpuemu.engine.units.dependences import sources_at
from gpuemu.engine.units.kinds import COPY_COMMIT, GLOBAL
from gpuemu.engine.units.phases import early, turn
from gpuemu.engine.units.pool import LoadStore
from gpuemu.engine.units.rings import length, nth, push, take
from gpuemu.engine.units.window import comes as comes_to_data_stage


def tick_pass_on(state: State, now: int) -> int:
    """Pass on the requests whose registers have arrived."""
    cycle = early(state, now)
    while length(state, state.load_store[0].sent) > 0:
        there = state.flights[first_sent(state)].there
        if there > cycle:
            return turn(state, there)
        take_complete(state, cycle, now)
    return NEVER


def comes(state: State, f: int) -> None:
    """A request has been dispatched, and its registers are on the way."""
    flight = state.flights[f]
    unit: LoadStore = state.load_store[0]
    op, access = state.ops[flight.op], state.accesses[flight.access]
    flight.in_transit = 1
    push(state, unit.sent, f)
    unit.sent_registers += op.stored_registers
    if op.kind != COPY_COMMIT:
        unit.sent_places += access.takes_place
    if op.is_plain_global_store:
        unit.sent_wavefronts += access.data_stage_cycles


def first_sent(state: State) -> int:
    """The request whose registers arrive first."""
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
    """The request that arrives first goes on to the data stage, or turns out to come later."""
    spec = state.spec[0]
    unit: LoadStore = state.load_store[0]
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
            sources_at(state, f, state.outcomes[f].sources_read_at + later, now)
            return
        state.mio[flight.core].accepted_at = cycle
        unit.next_accept = cycle + spec.mio_request_interval_cycles
    for i in range(length(state, unit.sent)):
        if nth(state, unit.sent, i) == f:
            take(state, unit.sent, i)
            break
    flight.in_transit = 0
    comes_to_data_stage(state, f, now)


def serve_lane(state: State, f: int, cycle: int, now: int) -> None:
    """An S2R of a lane's number, which sends no registers, is dispatched."""
    flight = state.flights[f]
    sources_at(state, f, cycle, now)
    state.load_store[0].sent_places += state.accesses[flight.access].takes_place
    flight.there = cycle - state.spec[0].mio_lane_register_early_cycles
    comes_to_data_stage(state, f, now)


PASS_ON = Unit("pass_on", tick_pass_on)
