"""The phases of a cycle, in order, and a loop over them.

A phase acts at the cycles that it or others wish for: never before, and no two twice in a cycle. What it does may let
a later phase act in the same cycle, any other in the next.
"""

from __future__ import annotations

from gpuemu.engine.records import NEVER
from gpuemu.engine.state import State
from gpuemu.engine.units.barrier import tick_barrier
from gpuemu.engine.units.data_path import tick_data_path
from gpuemu.engine.units.divergence import tick_divergence
from gpuemu.engine.units.launch import tick_launch
from gpuemu.engine.units.load_store import tick_load_store
from gpuemu.engine.units.pass_on import tick_pass_on
from gpuemu.engine.units.phases import (
    DATA_PATH,
    DIVERGENCE,
    LAUNCH,
    LOAD_STORE,
    PASS_ON,
    RESULTS,
    SUB_CORES,
    WAY_BACK,
    WINDOW,
)
from gpuemu.engine.units.result_port import tick_results
from gpuemu.engine.units.scheduler import tick_sub_core
from gpuemu.engine.units.way_back import tick_way_back
from gpuemu.engine.units.window import tick_window


def tick(state: State, phase: int, now: int) -> int:
    """Let a phase act; returns the next cycle that it wants. Back to front, each with why it comes there."""
    if phase == LAUNCH:  # a CTA begins in the very cycle in which its place falls free
        return tick_launch(state, now)
    if phase == LOAD_STORE:  # a place in a queue that a dispatch frees can be taken in the same cycle
        return tick_load_store(state, now)
    if phase == DATA_PATH:  # what is dispatched waits for the path from its first cycle on
        return tick_data_path(state, now)
    if phase == PASS_ON:  # a register that the path holds back does not come to the data stage
        return tick_pass_on(state, now)
    if phase == WINDOW:  # what comes to the data stage can begin in the same cycle
        return tick_window(state, now)
    if phase == WAY_BACK:  # what passes the data stage goes back from the cycle on in which it is ready
        return tick_way_back(state, now)
    if phase == RESULTS:  # what has come back is written at once if its port and bank are free
        return tick_results(state, now)
    if phase == DIVERGENCE:  # it sends before sub-cores issue, so that a place falls free for them
        return tick_divergence(state, now)
    if phase < SUB_CORES + state.spec[0].sm_sub_cores:  # sub-cores see what is settled by this cycle
        return tick_sub_core(state, phase - SUB_CORES, now)
    return tick_barrier(state, now)  # arrivals of a cycle are taken when all sub-cores have issued


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
