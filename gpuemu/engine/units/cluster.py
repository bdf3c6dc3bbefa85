"""Clusters: accesses to the shared memory of other CTAs, which lie on SMs of the same GPC.

A load or an atomic of it is there `cluster.latency_cycles` behind its issue, an arrival at its mbarrier
`cluster.arrive_cycles`; a store leaves as one to global memory does. What one SM's copy of the network carries at most
is not known: nothing waits for it. The SMs of the others are not emulated: what their CTAs bring to mbarriers comes
when the same operation of this one does (`program.events`).
"""

from __future__ import annotations

from gpuemu.engine.state import State
from gpuemu.engine.unit import Takes, Unit
from gpuemu.engine.units.dependences import new_flight, result_at, sources_at
from gpuemu.isa.kind import Kind


def take_cluster(state: State, c: int, w: int, o: int, now: int) -> None:
    """An access issues."""
    spec = state.spec[0]
    f = new_flight(state, c, w, o, now)
    sources_at(state, f, now + spec.mio_store_source_release_cycles, now)
    result_at(state, f, now + spec.cluster_latency_cycles, now)


CLUSTER = Unit(
    "cluster", takes=(Takes(take_cluster, (Kind.VARIABLE,), pipe="cluster", flies=True, reason="long_scoreboard"),)
)
