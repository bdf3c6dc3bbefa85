"""Clusters: accesses to the shared memory of other CTAs, which lie on SMs of the same GPC.

All go one behind another on the SM's way to the others, which a load of 128 bytes keeps for `cluster.load_line_cycles`,
a store for `cluster.store_line_cycles`, as if lanes had words that lie together. A load or an atomic is there
`cluster.latency_cycles` behind its turn; an arrival at another CTA's mbarrier, with what st.async brings,
`cluster.arrive_cycles`; a store leaves as one to global memory does. The SMs of the others are not emulated: what their
CTAs bring to mbarriers comes when the same operation of this one does (`program.events`).
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
    """Until when the way to the other SMs is taken."""

    free_at: int


class ClusterOp(Record):
    """Lines of 128 bytes that an access of all lanes has; whether it stores."""

    lines: int
    stores: int

    def begin(self, m: Setup, number: int) -> None:
        """By its opcode."""
        opcode = parse_opcode(m.program.code[m.program.ops[number].index].opcode)
        self.lines = max((_LINES.get(name, 1) for name in opcode.modifiers), default=1)
        self.stores = int(opcode.mnemonic in ("ST", "ST_CLUSTER", "STAS"))


def take_cluster(state: State, c: int, w: int, o: int, now: int) -> None:
    """An access issues."""
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
