"""Hands an instruction that issues to the unit that takes it."""

from __future__ import annotations

from collections.abc import Callable

from gpuemu.engine.state import State

TAKERS: list[Callable[[State, int, int, int, int], None]] = []
"""The functions that `engine.machine` found in all units; compiled code has a branch for each."""


def take(state: State, c: int, w: int, o: int, now: int) -> None:
    """Warp `w` of sub-core `c` issues op `o`; its unit takes it."""
    TAKERS[state.ops[o].taker](state, c, w, o, now)
