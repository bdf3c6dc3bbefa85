"""The barrier unit joins the warps of a CTA. One unit serves all CTAs of the SM.

The unit takes the arrivals of a cycle one by one, the oldest warp's first, each in `barrier.arrival_interval_cycles`.
The unit releases all warps `barrier.latency_cycles` after the last arrival. A barrier of a single warp keeps the unit
for `barrier.single_warp_cycles`. A barrier without a thread count waits for every warp of the CTA that has not ended. A
cluster's barrier stops a warp at once. An opening is a fence at the data stage (`window.py`).
"""

from __future__ import annotations

from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import Cta, State
from gpuemu.engine.unit import Kept, Takes, Unit, each_warp
from gpuemu.engine.units.phases import wake, wake_sub_core
from gpuemu.engine.units.rings import length, nth, push, take
from gpuemu.engine.units.window import opens, way_of
from gpuemu.isa.kind import Kind
from gpuemu.isa.opcodes import CLUSTER_BARRIER

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
    """The unit: the warps whose arrival it has still to take, and the cycle in which it can take the next."""

    arrivals: int
    free_at: int

    def begin(self, m: Setup, number: int) -> None:
        """No warp has arrived."""
        self.arrivals = m.room.ring("arrivals at barriers in a cycle", m.spec.sm_sub_cores + 1)


class AtBarrier(Record):
    """The barrier that a warp waits at, or -1, and the op with which it arrived."""

    id: int
    op: int


def take_barrier(state: State, c: int, w: int, o: int, now: int) -> None:
    """A warp issues a barrier instruction."""
    state.at_barrier[w].op = o
    push(state, state.barrier[0].arrivals, w)
    wake(state, state.phase[0].barrier, now)
    if state.ops[o].arrives_only == 0:
        at_once = state.ops[o].barrier_id == CLUSTER_BARRIER
        state.warps[w].blocked_from = now + (1 if at_once else state.spec[0].barrier_blocks_after_cycles)


def tick_barrier(state: State, now: int) -> int:
    """Take the arrivals of this cycle, and open the barriers that are complete."""
    arrived = state.barrier[0].arrivals
    while length(state, arrived) > 0:
        first = 0
        for i in range(1, length(state, arrived)):
            if nth(state, arrived, i) < nth(state, arrived, first):
                first = i
        w = nth(state, arrived, first)
        take(state, arrived, first)
        _arrive(state, w, now)
    for slot in range(state.sm[0].resident_ctas):
        number = state.cta_of_slot[slot]
        if number >= 0 and state.ctas[number].last_end == now + 1 and state.ctas[number].live > 0:
            for barrier in range(IDS):
                if state.gatherings[slot * IDS + barrier].expected == 0:
                    _open_if_complete(state, state.ctas[number], barrier, now)
    return NEVER


def _arrive(state: State, w: int, now: int) -> None:
    """Count the arrival of a warp that has issued a barrier instruction in this cycle."""
    spec = state.spec[0]
    unit: BarrierUnit = state.barrier[0]
    at: AtBarrier = state.at_barrier[w]
    op, cta = state.ops[at.op], state.ctas[state.warps[w].cta]
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
        at.id = op.barrier_id
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
        "at_barrier": Kept(AtBarrier, each_warp),
        "gatherings": Kept(Gathering, lambda m: m.program.resident_ctas * IDS),
    },
    takes=(Takes(take_barrier, (Kind.BARRIER,)),),
)
