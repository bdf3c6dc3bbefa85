"""Registers that warps hand over: USETMAXREG.DEALLOC gives some up, TRY_ALLOC asks for more.

A warp that gives stands for `registers.give_cycles`; asking takes `registers.take_cycles`. The trace has the turn that
succeeded alone: one that asks in the same CTA while another gives waits for that, others go on at once.
"""

from __future__ import annotations

from gpuemu.engine.records import Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Takes, Unit, each_op
from gpuemu.engine.units.dependences import new_flight, result_at, sources_at
from gpuemu.isa.kind import Kind


class HandOverOp(Record):
    """Whether an instruction gives registers up."""

    gives: int

    def begin(self, m: Setup, number: int) -> None:
        """By its opcode."""
        self.gives = int(m.program.code[m.program.ops[number].index].has("DEALLOC"))


class Given(Record):
    """Of a CTA: when the last warp that gave registers up had done so."""

    given_at: int


def take_registers(state: State, c: int, w: int, o: int, now: int) -> None:
    """A warp gives registers up, or asks for some."""
    spec, warp = state.spec[0], state.warps[w]
    given = state.given[warp.cta]
    f = new_flight(state, c, w, o, now)
    sources_at(state, f, now + 1, now)
    if state.hand_over_op[o].gives:
        given.given_at = max(given.given_at, now + spec.registers_give_cycles)
        warp.blocked_from, warp.opens_at = now + 1, now + spec.registers_give_cycles
        result_at(state, f, now + spec.registers_give_cycles, now)
    else:
        result_at(state, f, max(now + spec.registers_take_cycles, given.given_at), now)


REGISTERS = Unit(
    "registers",
    records={"hand_over_op": Kept(HandOverOp, each_op), "given": Kept(Given, lambda m: m.program.ctas)},
    takes=(Takes(take_registers, (Kind.VARIABLE,), pipe="registers", flies=True),),
)
