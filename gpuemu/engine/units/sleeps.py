"""Sleeps: NANOSLEEP stops a warp until a clock of nanoseconds comes to a multiple of a power of two.

That is the next one above what was asked for, `sleep.most_nanoseconds` at most: who asks for 500 again and again goes
on every 512, and the first time after anything up to that. How the clock stands when the launch begins is not known;
it is taken to be half of such a turn before a multiple. Who asks for less than `sleep.least_nanoseconds`, or for what
a trace does not say, stands for `sleep.cycles` alone, and a warp whose lanes have all their predicate off goes on. So
does NANOSLEEP.SYNCS: it sleeps until an mbarrier's phase is over, for which the test in front of it has waited here.
"""

from __future__ import annotations

from gpuemu.engine.records import Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Takes, Unit, each_op
from gpuemu.engine.units.dependences import new_flight, result_at, sources_at
from gpuemu.engine.units.mbarriers import event_of
from gpuemu.isa.kind import Kind
from gpuemu.isa.operands import parse_integer


class SleepOp(Record):
    """For how many nanoseconds an instruction asks, if it says so itself; `until_phase`: an mbarrier wakes it."""

    asked: int
    until_phase: int

    def begin(self, m: Setup, number: int) -> None:
        """As written."""
        instruction = m.program.code[m.program.ops[number].index]
        if instruction.mnemonic == "NANOSLEEP" and instruction.operands:
            self.asked = parse_integer(instruction.operands[-1]) or 0
            self.until_phase = int(instruction.has("SYNCS"))


def take_sleep(state: State, c: int, w: int, o: int, now: int) -> None:
    """A warp goes to sleep."""
    spec, warp = state.spec[0], state.warps[w]
    f = new_flight(state, c, w, o, now)
    sources_at(state, f, now + 1, now)
    result_at(state, f, now + 1, now)
    e = event_of(state, f)
    asked = state.events[e].nanoseconds if e >= 0 else state.sleep_op[o].asked
    if asked < 0 or state.sleep_op[o].until_phase:
        return
    until = now + spec.sleep_cycles
    if asked >= spec.sleep_least_nanoseconds:
        turn = 1
        while turn <= asked and turn < spec.sleep_most_nanoseconds:
            turn *= 2
        parts = turn * spec.clock_mhz  # of a turn; a cycle has 1000
        over = ((2 * 1000 * now + parts) // (2 * parts) * 2 + 1) * parts
        until = max(until, -(-over // 2000))
    warp.sleeps_until = until


SLEEPS = Unit(
    "sleeps",
    records={"sleep_op": Kept(SleepOp, each_op)},
    takes=(Takes(take_sleep, (Kind.VARIABLE,), pipe="sleep", flies=True),),
)
