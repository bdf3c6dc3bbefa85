"""A cycle: the phases of `engine.machine` in order, and a loop over them.

A phase acts at the cycles that it or others wish for: never before, and no two twice in a cycle. What it does may let
a later phase act in the same cycle, any other in the next.
"""

from __future__ import annotations

from collections.abc import Callable

from gpuemu.engine.records import NEVER
from gpuemu.engine.state import State

TICKS: list[tuple[Callable[..., int], bool]] = []
"""What `engine.machine` found: of each unit with a phase what it does, and whether it does that for each sub-core."""


def tick(state: State, phase: int, now: int) -> int:
    """Let a phase act; returns the next cycle that it wants. Compiled code has a branch for each unit."""
    does, each_core = TICKS[state.acts[phase]]
    return does(state, state.core_of[phase], now) if each_core else does(state, now)


def act(state: State, phase: int, now: int) -> None:
    """Let a phase act at a cycle it wished for, and note its next wish: of this cycle there is no other."""
    state.wish[phase] = NEVER
    wanted = tick(state, phase, now)
    state.wish[phase] = max(now + 1, min(wanted, state.wish[phase]))


def advance(state: State, cycles: int) -> int:
    """Let everything act in so many cycles in which something does; returns the last, or NEVER if nothing is left."""
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
