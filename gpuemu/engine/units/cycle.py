"""A cycle: the phases of `engine.machine` in order, and a loop over cycles.

A phase acts in the cycles that it or another phase requests: never earlier, and at most once per cycle. Its action may
let a later phase act in the same cycle, and any other phase in the next.
"""

from __future__ import annotations

from collections.abc import Callable

from gpuemu.engine.records import NEVER
from gpuemu.engine.state import State

TICKS: list[tuple[Callable[..., int], bool]] = []
"""For each unit with a phase its function, and whether it acts for each sub-core. `engine.machine` fills the list."""


def tick(state: State, phase: int, now: int) -> int:
    """Let a phase act; returns the next cycle that it requests. Compiled code has a branch for each unit."""
    does, each_core = TICKS[state.acts[phase]]
    return does(state, state.core_of[phase], now) if each_core else does(state, now)


def act(state: State, phase: int, now: int) -> None:
    """Let a phase act in a cycle that it requested, and note its next request. It does not act again in this cycle."""
    state.wish[phase] = NEVER
    wanted = tick(state, phase, now)
    state.wish[phase] = max(now + 1, min(wanted, state.wish[phase]))


def advance(state: State, cycles: int) -> int:
    """Let everything act in the next `cycles` cycles with any activity; returns the last of them, or NEVER if nothing
    is left.
    """
    wish, now = state.wish, 0
    for _ in range(cycles):
        now = NEVER
        for phase in range(len(wish)):
            now = min(now, wish[phase])
        if now == NEVER:
            return NEVER
        for phase in range(len(wish)):
            if wish[phase] == now:
                act(state, phase, now)
    return now
