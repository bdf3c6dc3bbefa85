"""Sleeps: NANOSLEEP stops a warp until a clock of nanoseconds reaches a multiple of a power of two.

The power is the next one above the requested time, at most `sleep.most_nanoseconds`. A warp that requests 500 again and
again continues every 512 ns, and the first time after anything up to that. The phase of the clock at the begin of a
launch is unknown; gpuemu assumes half of such a turn before a multiple. A warp that requests less than
`sleep.least_nanoseconds`, or a time that a trace does not have, stops only for `sleep.cycles`. A warp whose lanes all
have their predicate off does not stop. NANOSLEEP.SYNCS does not stop either: it sleeps until the phase of an mbarrier
is over, and the test before it has already waited here.
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
    """The nanoseconds that an instruction requests, if it has the number; `until_phase`: an mbarrier wakes it."""

    asked: int
    until_phase: int

    def begin(self, m: Setup, number: int) -> None:
        """Initialize from the operands."""
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
