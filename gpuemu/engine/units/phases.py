"""Waking: a phase acts at a cycle that it or another wishes for. `engine.machine` lists them in order.

The load/store unit has a clock of its own, and with it all behind it up to the way back: early by as much as requests
may release their sources sooner than they leave their queue (0 on sm_90).
"""

from __future__ import annotations

from gpuemu.engine.state import State


def wake(state: State, phase: int, cycle: int) -> None:
    """A phase, one of `state.phase[0]`, acts at `cycle`, if it does not before."""
    if cycle < state.wish[phase]:
        state.wish[phase] = cycle


def wake_sub_core(state: State, c: int, cycle: int) -> None:
    """The same of the scheduler of a sub-core."""
    wake(state, state.phase[0].sub_core + c, cycle)


def early(state: State, now: int) -> int:
    """What the clock of the load/store unit shows."""
    return now + state.spec[0].ahead


def turn(state: State, cycle: int) -> int:
    """When it shows that."""
    return cycle - state.spec[0].ahead
