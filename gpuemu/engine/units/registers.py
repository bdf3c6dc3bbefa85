"""Registers that warps hand over: USETMAXREG.DEALLOC releases some, TRY_ALLOC requests more.

A warp that releases registers waits `registers.give_cycles`; a request takes `registers.take_cycles`. The trace has
only the attempt that succeeded. A request waits for another warp of the same CTA that is releasing registers, else it
goes on at once.
"""

from __future__ import annotations

from gpuemu.engine.records import Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Takes, Unit, each_op
from gpuemu.engine.units.dependences import new_flight, result_at, sources_at
from gpuemu.isa.kind import Kind


class HandOverOp(Record):
    """Whether an instruction releases registers."""

    gives: int

    def begin(self, m: Setup, number: int) -> None:
        """Initialize from the opcode."""
        self.gives = int(m.program.code[m.program.ops[number].index].has("DEALLOC"))


class Given(Record):
    """The cycle in which the last warp of a CTA has released its registers."""

    given_at: int


def take_registers(state: State, c: int, w: int, o: int, now: int) -> None:
    """A warp releases or requests registers."""
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
