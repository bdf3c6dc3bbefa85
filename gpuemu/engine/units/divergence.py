"""The SM's address divergence unit: constants and registers that do not differ by lane. All sub-cores take turns.

LDC, S2UR, S2R of anything but a lane's number, REDUX and MATCH wait in a queue of their sub-core
(`address_divergence.queue_entries`). A sub-core can send one `address_divergence.queue_latency_cycles` after its issue.
The instruction keeps the sub-core's way there, and its place in the queue, for its issue interval. The unit takes a
request when the load/store unit would, from the sub-core served longest ago, while fewer than
`address_divergence.pool_entries` wait. It begins one every `address_divergence.interval_cycles`.

An LDC with a register in its address has its turn later by its additional latency, and keeps that register until its
result is there. The sources of all other instructions count as read `address_divergence.source_release_cycles` after
the first cycle of the sending, or after the `mio.cycles_per_source_register` of the registers of REDUX and MATCH.
"""

from __future__ import annotations

from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Takes, Unit, each_sub_core
from gpuemu.engine.units.constants import LDC, constant_there
from gpuemu.engine.units.dependences import new_flight, result_at, sources_at
from gpuemu.engine.units.phases import wake, wake_sub_core
from gpuemu.engine.units.pipes import enter_queue, leave_queue
from gpuemu.engine.units.rings import first, forget, length, pop, push
from gpuemu.isa.kind import Kind
from gpuemu.program.units import Destination


class Divergence(Record):
    """The address divergence unit."""

    taken_at: int
    starts: int
    next_start: int

    def begin(self, m: Setup, number: int) -> None:
        """No request has come."""
        self.starts = m.room.ring("requests in the address divergence unit", m.spec.address_divergence_pool_entries + 2)
        self.taken_at = -m.spec.mio_request_interval_cycles


class Divergent(Record):
    """A sub-core's `queue` to the unit, which belongs to a `pipe`; when it last sent a request, and when its way is
    free.
    """

    queue: int
    pipe: int
    sent_at: int
    free_at: int

    def begin(self, m: Setup, number: int) -> None:
        """No instruction has come."""
        places = m.spec.address_divergence_queue_entries + 2
        self.queue = m.room.ring("requests in a queue of the address divergence unit", places)
        self.pipe = m.pipe_behind(Destination.ADDRESS_DIVERGENCE, number)
        self.sent_at = number - m.spec.sm_sub_cores


def take_divergence(state: State, c: int, w: int, o: int, now: int) -> None:
    """An instruction goes to its queue."""
    own: Divergent = state.divergent[c]
    push(state, own.queue, new_flight(state, c, w, o, now))
    enter_queue(state, own.pipe, now)
    wake(state, state.phase[0].divergence, now + state.spec[0].address_divergence_queue_latency_cycles)


def tick_divergence(state: State, now: int) -> int:
    """Take the request whose turn it is, if there is room."""
    spec = state.spec[0]
    unit: Divergence = state.divergence[0]
    forget(state, unit.starts, now - 1)
    best, soonest = -1, NEVER
    for c in range(spec.sm_sub_cores):
        own: Divergent = state.divergent[c]
        if length(state, own.queue) > 0:
            flight = state.flights[first(state, own.queue)]
            able = max(flight.as_issued_at + spec.address_divergence_queue_latency_cycles, own.free_at)
            soonest = min(soonest, able)
            if able <= now and (best < 0 or own.sent_at < state.divergent[best].sent_at):
                best = c
    if soonest == NEVER:
        return NEVER
    room_at = unit.taken_at + spec.mio_request_interval_cycles
    if length(state, unit.starts) >= spec.address_divergence_pool_entries:
        room_at = max(room_at, now + 1)
    if best < 0 or room_at > now:
        return max(now + 1, max(soonest, room_at))
    _send(state, best, now)
    return now + 1


def _send(state: State, c: int, now: int) -> None:
    spec = state.spec[0]
    unit: Divergence = state.divergence[0]
    own: Divergent = state.divergent[c]
    f = pop(state, own.queue)
    flight = state.flights[f]
    op = state.ops[flight.op]
    sent = now + op.issue_interval_cycles
    own.sent_at, own.free_at, unit.taken_at = now, sent, now
    if leave_queue(state, state.cores[c], own.pipe, sent):
        wake_sub_core(state, c, sent)
    start = max(now + op.late_cycles, unit.next_start)
    unit.next_start = start + spec.address_divergence_interval_cycles
    push(state, unit.starts, start)
    if op.loaded_line >= 0:
        start = max(start, constant_there(state, op.loaded_line, LDC, start))
    done_at = start + op.latency_cycles - op.late_cycles - spec.address_divergence_queue_latency_cycles
    read = now + max(1, spec.mio_cycles_per_source_register * op.sent_banks)
    sources_at(state, f, done_at if op.late_cycles > 0 else read + spec.address_divergence_source_release_cycles, now)
    result_at(state, f, done_at, now)


DIVERGENCE = Unit(
    "divergence",
    tick_divergence,
    records={"divergence": Kept(Divergence), "divergent": Kept(Divergent, each_sub_core)},
    takes=(
        Takes(
            take_divergence, (Kind.VARIABLE,), Destination.ADDRESS_DIVERGENCE, flies=True,
            queue=lambda s: s.address_divergence_queue_entries,
        ),
    ),
)  # fmt: skip
