"""The numbers of the phases of a cycle (`units.cycle` lists them), and how one is woken."""

from __future__ import annotations

from gpuemu.engine.state import State

LAUNCH = 0
LOAD_STORE = 1
DATA_PATH = 2
PASS_ON = 3
WINDOW = 4
WAY_BACK = 5
RESULTS = 6
DIVERGENCE = 7
SUB_CORES = 8
"""The first sub-core's; the barrier unit's comes behind the last one's."""


def wake(state: State, phase: int, cycle: int) -> None:
    """A phase acts at `cycle`, if it does not before."""
    if cycle < state.wish[phase]:
        state.wish[phase] = cycle


def wake_barrier(state: State, cycle: int) -> None:
    """The same of the barrier unit."""
    wake(state, SUB_CORES + state.spec[0].sm_sub_cores, cycle)
