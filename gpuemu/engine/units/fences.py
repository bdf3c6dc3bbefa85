"""Fences: MEMBAR, and FENCE.VIEW.ASYNC between stores to shared memory and reads by the copy engine or wgmma.

FENCE.VIEW.ASYNC ends `fence.async_cycles` after its issue. It does not end before `fence.stores_cycles` after the last
of its warp's stores to shared memory, nor before an earlier MEMBAR ends. A MEMBAR of the CTA takes `fence.cta_cycles`;
the SM begins one every `fence.cta_interval_cycles`.

MEMBARs of the GPU or the system go in rounds. The first begins a round, which those of the next `fence.gather_cycles`
join. The next round begins at least `fence.round_cycles` later, with all that came meanwhile. A MEMBAR joins when the
preceding MEMBAR of the CTA of its warp is over. All of a round end `fence.gpu_cycles` after its begin. At ERRBAR a warp
waits until its own MEMBARs are over, at CGAERRBAR `cluster.acknowledge_cycles` longer.
"""

from __future__ import annotations

from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Takes, Unit, each_op, each_warp
from gpuemu.engine.units.dependences import new_flight, result_at, sources_at
from gpuemu.engine.units.phases import wake
from gpuemu.engine.units.rings import length, nth, push, take
from gpuemu.isa.kind import Kind

CTA, GPU, ASYNC, STANDS, STANDS_CLUSTER = range(5)


class Fences(Record):
    """The fences that wait for stores; the next begin of a CTA's fence; the begin of the last round of the GPU's
    fences.
    """

    waits: int
    cta_at: int
    round_at: int

    def begin(self, m: Setup, number: int) -> None:
        """No fence waits."""
        self.round_at = -(1 << 40)
        self.waits = m.room.ring("fences that wait for stores", m.spec.sm_max_warps + 1)


class FenceOp(Record):
    """The kind of fence that an instruction is."""

    what: int

    def begin(self, m: Setup, number: int) -> None:
        """Initialize from the opcode."""
        instruction = m.program.code[m.program.ops[number].index]
        if instruction.mnemonic == "FENCE":
            self.what = ASYNC
        elif instruction.mnemonic in ("ERRBAR", "CGAERRBAR"):
            self.what = STANDS_CLUSTER if instruction.mnemonic == "CGAERRBAR" else STANDS
        elif instruction.mnemonic == "MEMBAR":
            self.what = CTA if instruction.has("CTA") else GPU


class Membars(Record):
    """The ends of a warp's last MEMBAR of the GPU, and of its last MEMBAR of the CTA."""

    over_at: int
    cta_over_at: int


def take_fence(state: State, c: int, w: int, o: int, now: int) -> None:
    """A warp issues a fence."""
    spec, what = state.spec[0], state.fence_op[o].what
    f = new_flight(state, c, w, o, now)
    sources_at(state, f, now + 1, now)
    if what == ASYNC:
        push(state, state.fences[0].waits, f)
        wake(state, state.phase[0].fences, now + 1)
    elif what in (STANDS, STANDS_CLUSTER):
        result_at(state, f, now + 1, now)
        over = max(now + 1, state.membars[w].over_at)
        if what == STANDS_CLUSTER:
            over += spec.cluster_acknowledge_cycles
        if over > now + 1:
            state.warps[w].blocked_from, state.warps[w].opens_at = now + 1, over
    else:
        if what == GPU:
            over = _round(state, max(now, state.membars[w].cta_over_at)) + spec.fence_gpu_cycles
        else:
            taken = max(now, state.fences[0].cta_at)
            state.fences[0].cta_at = taken + spec.fence_cta_interval_cycles
            over = state.membars[w].cta_over_at = taken + spec.fence_cta_cycles
        state.shared_stores[w].done_at = max(state.shared_stores[w].done_at, over - spec.fence_stores_cycles)
        if what == GPU:
            state.membars[w].over_at = over
        result_at(state, f, over, now)


def _round(state: State, now: int) -> int:
    """The begin of the round that a MEMBAR of the GPU belongs to."""
    spec = state.spec[0]
    fences: Fences = state.fences[0]
    if now > fences.round_at + spec.fence_gather_cycles:
        fences.round_at = max(now, fences.round_at + spec.fence_round_cycles)
    return fences.round_at


def tick_fences(state: State, now: int) -> int:
    """Let the fences go on whose stores are decided."""
    spec, waits, i = state.spec[0], state.fences[0].waits, 0
    while i < length(state, waits):
        f = nth(state, waits, i)
        flight = state.flights[f]
        stores = state.shared_stores[flight.warp]
        if stores.undecided > 0:
            i += 1
            continue
        take(state, waits, i)
        over = max(state.issue[flight.position] + spec.fence_async_cycles, stores.done_at + spec.fence_stores_cycles)
        result_at(state, f, max(now, over), now)
    return now + 1 if length(state, waits) > 0 else NEVER


FENCES = Unit(
    "fences",
    tick_fences,
    records={"fences": Kept(Fences), "fence_op": Kept(FenceOp, each_op), "membars": Kept(Membars, each_warp)},
    takes=(Takes(take_fence, (Kind.VARIABLE,), pipe="fences", flies=True),),
)
