"""A sub-core's scheduler, which issues at most one warp instruction per cycle.

A warp may issue when its stall count has run out, its dependences are settled, and the pipe of its next instruction
accepts. At a barrier the warp goes on for `barrier.blocks_after_cycles`. Then it issues only fixed-latency arithmetic
until the barrier opens. `order.py` has the order of the warps, `issue.py` the effects of an issue.
"""

from __future__ import annotations

from gpuemu.engine.records import NEVER, Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.state import Core, State, Warp
from gpuemu.engine.unit import Kept, Unit, each_sub_core
from gpuemu.engine.units.issue import issue, waits_for_caches, waits_for_products
from gpuemu.engine.units.order import count, give_way, goes_before, is_kept
from gpuemu.engine.units.pipes import closed_before
from gpuemu.engine.units.ports import goes_on_at, next_stop


class Choices(Record):
    """Room for the ready warps of a sub-core."""

    at: int

    def begin(self, m: Setup, number: int) -> None:
        """There is room for all warps."""
        self.at = m.room.numbers("choice", m.spec.sm_max_warps)


def tick_sub_core(state: State, c: int, now: int) -> int:
    """Issue an instruction if a warp is ready."""
    core, choices, warps, pipes = state.cores[c], state.choice, state.warps, state.pipes
    if now < core.next_slot:
        return core.next_slot
    soonest, ready, code_waits = NEVER, 0, state.code[0].waits
    choices_at = state.choices[c].at
    for i in range(core.warps):
        w = state.warps_of[core.warps_at + i]
        warp = warps[w]
        if warp.ready_at <= now:
            _see(state, core, warp, now)
        possible = max(warp.ready_at, pipes[warp.pipe].free_at, now)
        if warp.blocked_from != NEVER:
            possible = _past_barrier(state, warp, possible)
        if (
            possible <= now
            and (code_waits or state.ops[warp.op].constant_line >= 0)
            and waits_for_caches(state, core, w, now)
        ):
            possible = warp.ready_at
        if possible <= now and now < state.products[c].done_at and waits_for_products(state, c, w, now):
            possible = warp.ready_at
        if possible <= now:
            choices[choices_at + ready] = w
            ready += 1
        soonest = min(soonest, possible)
    stop = next_stop(state, c, now)
    goes_on = goes_on_at(state.ports[c], now)
    if goes_on > now:
        ready = 0
        soonest = goes_on
    if now == core.next_slot:
        give_way(state, core, 1 if ready == 0 else 0)
    if ready == 0:
        return min(soonest, stop) if stop > now else soonest
    count(state, c, now)
    issue(state, c, _choose(state, c, ready, now), now)
    return core.next_slot


def _choose(state: State, c: int, ready: int, now: int) -> int:
    """The ready warp that issues."""
    core = state.cores[c]
    choices: list[int] = state.choice
    choices_at: int = state.choices[c].at
    best = choices[choices_at]
    for i in range(ready):
        w = choices[choices_at + i]
        if w == core.current and is_kept(state, core, now):
            return w
        if goes_before(state, w, best):
            best = w
    return best


def _past_barrier(state: State, warp: Warp, possible: int) -> int:
    """The first cycle in which a warp at a barrier may issue, if it might otherwise at `possible`."""
    op = state.ops[warp.op]
    if op.passes_barrier or possible >= warp.opens_at or (possible < warp.blocked_from and op.slips_barrier):
        return possible
    return warp.opens_at


def _see(state: State, core: Core, warp: Warp, now: int) -> None:
    """A warp has become ready: note for how long its core and its pipe had accepted nothing."""
    ready = warp.ready_at
    if warp.opens_at <= now and warp.opens_at > ready and state.ops[warp.op].passes_barrier == 0:
        ready = warp.opens_at
    if ready <= now and ready != warp.seen_at:
        pipe = state.pipes[warp.pipe]
        warp.seen_at = ready
        warp.seen_core = closed_before(core.closed_total, core.closed_until, ready)
        warp.seen_pipe = closed_before(pipe.closed_total, pipe.closed_until, ready)


SUB_CORE = Unit(
    "sub_core", tick_sub_core, each_core=True, records={"choices": Kept(Choices, each_sub_core)}, columns=("choice",)
)
