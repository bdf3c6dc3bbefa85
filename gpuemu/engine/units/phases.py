"""Waking: a phase acts in a cycle that it or another phase requests. `engine.machine` lists the phases in order.

The load/store unit and all units after it, up to the way back, have a clock of their own. It is early by the cycles by
which requests may release their sources before they leave their queue (0 on sm_90).
"""

from __future__ import annotations

from gpuemu.engine.state import State


def wake(state: State, phase: int, cycle: int) -> None:
    """A phase, one of `state.phase[0]`, acts at `cycle` or earlier."""
    if cycle < state.wish[phase]:
        state.wish[phase] = cycle


def wake_sub_core(state: State, c: int, cycle: int) -> None:
    """Wake sub-core `c`'s scheduler at `cycle`."""
    wake(state, state.phase[0].sub_core + c, cycle)


def early(state: State, now: int) -> int:
    """The cycle that the clock of the load/store unit shows."""
    return now + state.spec[0].ahead


def turn(state: State, cycle: int) -> int:
    """The cycle in which the clock of the load/store unit shows `cycle`."""
    return cycle - state.spec[0].ahead
