"""A unit from outside the package, in one file: it turns and sums registers, for all sub-cores, one at a time.

It takes one every 4 cycles, in the order in which they come. A TOYROT is done 10 cycles later, a TOYSUM 20.
"""

from __future__ import annotations

from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Takes, Unit, each_op, each_sub_core
from gpuemu.engine.units.dependences import new_flight, result_at, sources_at
from gpuemu.engine.units.phases import wake
from gpuemu.engine.units.rings import length, pop, push

INTERVAL = 4


class Toy(Record):
    """The unit: what `waits`, and when it takes the next."""

    waits: int
    free_at: int

    def begin(self, m: Setup, number: int) -> None:
        """Nothing waits, and no more than are executed ever will."""
        self.waits = m.room.ring("instructions before the toy", 1 + len(m.program.path))


class ToyCore(Record):
    """How many a sub-core has sent."""

    sent: int


class ToyOp(Record):
    """What lowering hands it of each instruction: how long that takes, 0 if it is none of its own."""

    latency_cycles: int

    def begin(self, m: Setup, number: int) -> None:
        """By its mnemonic."""
        mnemonic = m.program.code[m.program.ops[number].index].opcode
        self.latency_cycles = {"TOYROT": 10, "TOYSUM": 20}.get(mnemonic, 0)


def take_toy(state: State, c: int, w: int, o: int, now: int) -> None:
    """One issues: it comes in the next cycle."""
    state.toy_core[c].sent += 1
    push(state, state.toy[0].waits, new_flight(state, c, w, o, now))
    wake(state, state.phase[0].toy, now + 1)


def tick_toy(state: State, now: int) -> int:
    """Take the first, if it is time."""
    toy = state.toy[0]
    if length(state, toy.waits) == 0:
        return NEVER
    if now < toy.free_at:
        return toy.free_at
    f = pop(state, toy.waits)
    toy.free_at = now + INTERVAL
    sources_at(state, f, now, now)
    result_at(state, f, now + state.toy_op[state.flights[f].op].latency_cycles, now)
    return toy.free_at


TOY = Unit(
    "toy",
    tick_toy,
    records={"toy": Kept(Toy), "toy_core": Kept(ToyCore, each_sub_core), "toy_op": Kept(ToyOp, each_op)},
    takes=(Takes(take_toy, pipe="toy", flies=True, reason="toy"),),
    logs={"toy_sent": ("toy_core", "sent")},
    instructions="TOYROT TOYSUM | variable toy | r | - | own",
    reasons=("toy",),
)
