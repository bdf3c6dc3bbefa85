"""Waking: a phase acts at a cycle that it or another wishes for. `engine.machine` lists them in order."""

from __future__ import annotations

from gpuemu.engine.state import State


def wake(state: State, phase: int, cycle: int) -> None:
    """A phase, one of `state.phase[0]`, acts at `cycle`, if it does not before."""
    if cycle < state.wish[phase]:
        state.wish[phase] = cycle


def wake_sub_core(state: State, c: int, cycle: int) -> None:
    """The same of the scheduler of a sub-core."""
    wake(state, state.phase[0].sub_core + c, cycle)
