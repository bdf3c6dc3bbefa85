"""Clusters: accesses to the shared memory of other CTAs, which run on SMs of the same GPC.

All accesses leave one after another on the SM's way to the other SMs. A load of 128 bytes keeps the way for
`cluster.load_line_cycles`, a store for `cluster.store_line_cycles`, as if the words of its lanes were contiguous. A
load or an atomic completes `cluster.latency_cycles` after its turn. An arrival at another CTA's mbarrier, also that of
st.async, takes `cluster.arrive_cycles`. A store leaves as a store to global memory does. gpuemu does not emulate the
other SMs: their CTAs reach an mbarrier when this CTA executes the same operation (`program.events`).
"""

from __future__ import annotations

from gpuemu.engine.records import Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Takes, Unit, each_op
from gpuemu.engine.units.dependences import new_flight, result_at, sources_at
from gpuemu.engine.units.mbarriers import comes, event_of
from gpuemu.isa.kind import Kind
from gpuemu.isa.table import parse_opcode

_LINES = {"64": 2, "128": 4}


class WayOut(Record):
    """The cycle until which the way to the other SMs is taken."""

    free_at: int


class ClusterOp(Record):
    """The lines of 128 bytes that an access of all lanes has, and whether it stores."""

    lines: int
    stores: int

    def begin(self, m: Setup, number: int) -> None:
        """Initialize from the opcode."""
        opcode = parse_opcode(m.program.code[m.program.ops[number].index].opcode)
        self.lines = max((_LINES.get(name, 1) for name in opcode.modifiers), default=1)
        self.stores = int(opcode.mnemonic in ("ST", "ST_CLUSTER", "STAS"))


def take_cluster(state: State, c: int, w: int, o: int, now: int) -> None:
    """A warp issues an access."""
    spec, way, op = state.spec[0], state.way_out[0], state.cluster_op[o]
    f = new_flight(state, c, w, o, now)
    turn = max(now, way.free_at)
    way.free_at = turn + op.lines * (spec.cluster_store_line_cycles if op.stores else spec.cluster_load_line_cycles)
    sources_at(state, f, turn + spec.mio_store_source_release_cycles, now)
    if event_of(state, f) >= 0:
        comes(state, f, turn + spec.mbarrier_arrive_cycles, now)
        result_at(state, f, turn + spec.mbarrier_test_cycles, now)
    else:
        result_at(state, f, turn + spec.cluster_latency_cycles, now)


CLUSTER = Unit(
    "cluster",
    records={"way_out": Kept(WayOut), "cluster_op": Kept(ClusterOp, each_op)},
    takes=(
        Takes(take_cluster, (Kind.VARIABLE, Kind.ASYNCHRONOUS), pipe="cluster", flies=True, reason="long_scoreboard"),
    ),
)
