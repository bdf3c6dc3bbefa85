"""The end of a warp: behind its last instruction it waits until its accesses are over.

A load's result is there then, a store has left L1. Barriers do not wait for it any longer; its registers, its slot and
its CTA's place are kept until then.
"""

from __future__ import annotations

from gpuemu.engine.state import State
from gpuemu.engine.units.phases import wake
from gpuemu.program.stall_reasons import DRAIN


def sent(state: State, w: int) -> None:
    """An access of the warp is under way, and not decided."""
    state.warps[w].under_way += 1


def over(state: State, w: int, cycle: int) -> None:
    """It is decided that one of them is over at `cycle`."""
    warp = state.warps[w]
    warp.under_way -= 1
    warp.drained_at = max(warp.drained_at, cycle)
    if warp.op < 0 and warp.under_way == 0:
        _ends(state, w)


def issued_last(state: State, w: int, now: int) -> None:
    """The warp has issued its last instruction."""
    warp = state.warps[w]
    cta = state.ctas[warp.cta]
    warp.ended_at = cta.last_end = now + 1
    cta.live -= 1
    cta.draining += 1
    if warp.under_way == 0:
        _ends(state, w)


def _ends(state: State, w: int) -> None:
    warp = state.warps[w]
    cta = state.ctas[warp.cta]
    drained = max(0, warp.drained_at - warp.ended_at)
    state.waited[warp.position * state.sm[0].reasons + DRAIN] = drained
    warp.ended_at += drained
    cta.draining -= 1
    cta.drained_at = max(cta.drained_at, warp.ended_at)
    if cta.live == 0 and cta.draining == 0:
        wake(state, state.phase[0].launch, cta.drained_at + state.spec[0].sm_cta_launch_cycles)
