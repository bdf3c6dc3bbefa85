"""The end of a warp: after its last instruction it waits until its accesses are over.

A load is over when its result is there, a store when it has left L1 for the buffer before L2
(`global_memory.store_buffer_sectors`). Barriers no longer wait for the warp. Its registers, its slot and its CTA's
place stay taken until then.
"""

from __future__ import annotations

from gpuemu.engine.records import Record
from gpuemu.engine.state import State
from gpuemu.engine.unit import Kept, Unit, each_warp
from gpuemu.engine.units.phases import wake
from gpuemu.program.stall_reasons import DRAIN


class Life(Record):
    """The start and end of a warp. `under_way` of its accesses are undecided; the others are over at `drained_at`."""

    started_at: int
    ended_at: int
    under_way: int
    drained_at: int


def sent(state: State, w: int) -> None:
    """An access of the warp is under way and undecided."""
    state.lives[w].under_way += 1


def over(state: State, w: int, cycle: int) -> None:
    """An access of the warp is over at `cycle`."""
    life: Life = state.lives[w]
    life.under_way -= 1
    life.drained_at = max(life.drained_at, cycle)
    if state.warps[w].op < 0 and life.under_way == 0:
        _ends(state, w)


def issued_last(state: State, w: int, now: int) -> None:
    """The warp has issued its last instruction."""
    life: Life = state.lives[w]
    cta = state.ctas[state.warps[w].cta]
    life.ended_at = cta.last_end = now + 1
    cta.live -= 1
    cta.draining += 1
    if life.under_way == 0:
        _ends(state, w)


def _ends(state: State, w: int) -> None:
    warp = state.warps[w]
    life: Life = state.lives[w]
    cta = state.ctas[warp.cta]
    drained = max(0, life.drained_at - life.ended_at)
    state.waited[warp.position * state.sm[0].reasons + DRAIN] = drained
    life.ended_at += drained
    cta.draining -= 1
    cta.drained_at = max(cta.drained_at, life.ended_at)
    if cta.live == 0 and cta.draining == 0:
        wake(state, state.phase[0].launch, cta.drained_at + state.spec[0].sm_cta_launch_cycles)


DRAIN_OF_WARPS = Unit(
    "drain",
    records={"lives": Kept(Life, each_warp)},
    logs={"warp_start": ("lives", "started_at"), "warp_end": ("lives", "ended_at")},
)
