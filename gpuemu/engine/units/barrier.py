"""The barrier unit joins the warps of a CTA. One unit serves all CTAs of the SM.

Arrivals wait in a queue of their sub-core (`barrier.queue_entries`). The unit takes them in the order of their issue,
of those of a cycle the oldest warp's first, each in `barrier.arrival_interval_cycles`. It releases all warps
`barrier.latency_cycles` after the last arrival. A barrier of a single warp keeps the unit for
`barrier.single_warp_cycles`. A barrier without a thread count waits for every warp of the CTA that has not ended. A
cluster's barrier stops a warp at once. An opening is a fence at the data stage (`window.py`).
"""

from __future__ import annotations

from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import Cta, State
from gpuemu.engine.unit import Kept, Takes, Unit, each_sub_core, each_warp
from gpuemu.engine.units.phases import wake, wake_sub_core
from gpuemu.engine.units.pipes import enter_queue, leave_queue
from gpuemu.engine.units.rings import length, nth, pop, push
from gpuemu.engine.units.window import opens, way_of
from gpuemu.isa.kind import Kind
from gpuemu.isa.opcodes import CLUSTER_BARRIER
from gpuemu.program.units import Destination

IDS = CLUSTER_BARRIER + 1
"""The number of barriers of a CTA, with the cluster's as the last."""


class Gathering(Record):
    """Arrivals at one barrier of the CTA in one slot since its last opening. It expects `expected` warps; 0 means all
    live ones.
    """

    expected: int
    arrivals: int
    taken_at: int


class BarrierUnit(Record):
    """The unit, and the cycle in which it can take the next arrival."""

    free_at: int


class Arrivals(Record):
    """A sub-core's queue of arrivals, for each its warp, its op and the cycle of its issue; it belongs to a `pipe`."""

    queue: int
    pipe: int

    def begin(self, m: Setup, number: int) -> None:
        """No warp has arrived."""
        self.queue = m.room.ring("arrivals at barriers", 3 * (m.spec.barrier_queue_entries + 1))
        self.pipe = m.pipe_behind(Destination.BARRIER, number)


class AtBarrier(Record):
    """The barrier that a warp waits at, or -1, and the op with which it arrived."""

    id: int
    op: int


def take_barrier(state: State, c: int, w: int, o: int, now: int) -> None:
    """A warp issues a barrier instruction."""
    own: Arrivals = state.arrivals[c]
    push(state, own.queue, w)
    push(state, own.queue, o)
    push(state, own.queue, now)
    enter_queue(state, own.pipe, now)
    wake(state, state.phase[0].barrier, now)
    if state.ops[o].arrives_only == 0:
        at_once = state.ops[o].barrier_id == CLUSTER_BARRIER
        state.warps[w].blocked_from = now + (1 if at_once else state.spec[0].barrier_blocks_after_cycles)


def tick_barrier(state: State, now: int) -> int:
    """Take the arrivals whose turn has come, and open the barriers that are complete."""
    unit: BarrierUnit = state.barrier[0]
    c = _next(state)
    while c >= 0 and unit.free_at <= now:
        own: Arrivals = state.arrivals[c]
        w = pop(state, own.queue)
        o = pop(state, own.queue)
        pop(state, own.queue)
        if leave_queue(state, state.cores[c], own.pipe, now + 1):
            wake_sub_core(state, c, now + 1)
        _arrive(state, w, o, now)
        c = _next(state)
    for slot in range(state.sm[0].resident_ctas):
        number = state.cta_of_slot[slot]
        if number >= 0 and state.ctas[number].last_end == now + 1 and state.ctas[number].live > 0:
            for barrier in range(IDS):
                if state.gatherings[slot * IDS + barrier].expected == 0:
                    _open_if_complete(state, state.ctas[number], barrier, now)
    return unit.free_at if c >= 0 else NEVER


def _next(state: State) -> int:
    """The sub-core with the arrival that was issued first, of equals the oldest warp's; -1 without any."""
    best, best_issue, best_warp = -1, NEVER, 0
    for c in range(state.spec[0].sm_sub_cores):
        queue: int = state.arrivals[c].queue
        if length(state, queue) > 0:
            w, issued = nth(state, queue, 0), nth(state, queue, 2)
            if issued < best_issue or (issued == best_issue and w < best_warp):
                best, best_issue, best_warp = c, issued, w
    return best


def _arrive(state: State, w: int, o: int, now: int) -> None:
    """Count the arrival of a warp that has issued a barrier instruction."""
    spec = state.spec[0]
    unit: BarrierUnit = state.barrier[0]
    op, cta = state.ops[o], state.ctas[state.warps[w].cta]
    gathering = state.gatherings[cta.slot * IDS + op.barrier_id]
    if gathering.arrivals == 0:
        gathering.expected = op.barrier_warps
    taken = max(unit.free_at, now) + spec.barrier_arrival_interval_cycles
    unit.free_at = taken
    if (op.barrier_warps if op.barrier_warps > 0 else cta.warps) == 1:
        unit.free_at += max(0, spec.barrier_single_warp_cycles - spec.barrier_arrival_interval_cycles)
    gathering.arrivals += 1
    gathering.taken_at = taken
    if op.arrives_only == 0:
        state.at_barrier[w].id = op.barrier_id
        state.at_barrier[w].op = o
    _open_if_complete(state, cta, op.barrier_id, now)


def _open_if_complete(state: State, cta: Cta, barrier: int, now: int) -> None:
    spec = state.spec[0]
    gathering = state.gatherings[cta.slot * IDS + barrier]
    expected = gathering.expected if gathering.expected > 0 else cta.live
    if gathering.arrivals == 0 or gathering.arrivals < expected:
        return
    complete = gathering.taken_at
    if gathering.expected == 0:
        complete = max(complete, cta.last_end)
    opens_at, ways = complete + spec.barrier_latency_cycles, 0
    if barrier == CLUSTER_BARRIER:
        opens_at += spec.cluster_barrier_cycles
    for w in range(cta.first_warp, cta.first_warp + cta.warps):
        warp = state.warps[w]
        if state.at_barrier[w].id == barrier:
            state.at_barrier[w].id = -1
            warp.opens_at = opens_at
            ways |= way_of(state, warp.core)
            wake_sub_core(state, warp.core, max(now + 1, opens_at))
    opens(state, opens_at, state.warps[cta.first_warp].cta, ways, now)
    gathering.arrivals = 0


BARRIER = Unit(
    "barrier",
    tick_barrier,
    records={
        "barrier": Kept(BarrierUnit),
        "arrivals": Kept(Arrivals, each_sub_core),
        "at_barrier": Kept(AtBarrier, each_warp),
        "gatherings": Kept(Gathering, lambda m: m.program.resident_ctas * IDS),
    },
    takes=(
        Takes(
            take_barrier, (Kind.BARRIER,), behind=Destination.BARRIER, throttle="mio_throttle",
            queue=lambda s: s.barrier_queue_entries,
        ),
    ),
)  # fmt: skip
