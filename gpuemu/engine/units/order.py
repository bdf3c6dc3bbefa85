"""Which of the warps of a sub-core goes first, of those that can issue in the same cycle.

Greedy-then-fair, what an H200 does: the scheduler stays with a warp until that yields, branches, or waits for its pipe
or queue. Else it takes the warp with the lowest count of issues, of equals the youngest. The counts have few bits and
see an issue some cycles late; when one that is full is to rise, all are halved instead. Behind all others come the
warps that yielded with their last instruction, those that had to wait for room in a queue, and those that a counter
held back right behind their last issue: if their stall count was 1, else if nobody issued then and their pipe was free.
Greedy-then-youngest takes else the youngest; loose round-robin the one whose last issue is longest ago, oldest-first
the oldest.
"""

from __future__ import annotations

from gpuemu.engine.spec import FAIR, OLDEST, ROTATING, YOUNGEST
from gpuemu.engine.state import Core, State
from gpuemu.engine.units.dependences import ready_at
from gpuemu.engine.units.kinds import QUEUE, SPECIAL_QUEUE
from gpuemu.engine.units.rings import first, length, pop, push


def goes_before(state: State, w: int, other: int) -> int:
    """Whether a warp goes before another; warps have their numbers in the order of age."""
    one, two, policy = state.warps[w], state.warps[other], state.spec[0].policy
    if policy == OLDEST:
        return 1 if w < other else 0
    if policy == YOUNGEST:
        return 1 if w > other else 0
    if policy == ROTATING:
        return 1 if one.order < two.order or (one.order == two.order and w < other) else 0
    behind, other_behind = _comes_last(state, w), _comes_last(state, other)
    if behind != other_behind:
        return 1 if behind < other_behind else 0
    if one.issue_count != two.issue_count:
        return 1 if one.issue_count < two.issue_count else 0
    return 1 if w > other else 0


def _comes_last(state: State, w: int) -> int:
    """Whether it yielded or had to wait for room; who goes to the special-function unit is as good as one that did."""
    warp = state.warps[w]
    kind = state.pipes[warp.pipe].kind
    if warp.yielded > 0 or kind == SPECIAL_QUEUE:
        return 1
    return _waits(state, w) if kind >= QUEUE else 0


def _waits(state: State, w: int) -> int:
    warp = state.warps[w]
    pipe = state.pipes[warp.pipe]
    waited = pipe.free_at - max(warp.ready_at, pipe.taken_at + 1)
    return 1 if waited >= state.spec[0].issue_pipe_wait_cycles else 0


def is_kept(state: State, core: Core, now: int) -> int:
    """Whether the warp that issued last goes before others that are ready now.

    Not if it waited for its pipe or queue, branched, or waited for a barrier. Whether it waits for the tensor core or
    the special-function unit shows right behind its issue, whatever its stall count; for other pipes when that is over.
    """
    if state.spec[0].policy == ROTATING or state.spec[0].policy == OLDEST:
        return 0
    if now <= core.next_slot:
        return 1
    warp = state.warps[core.current]
    if warp.branched_at == core.last_issue:
        return 0
    if now >= warp.blocked_from and state.ops[warp.op].passes_barrier == 0:
        return 0
    pipe = state.pipes[warp.pipe]
    if pipe.kind == SPECIAL_QUEUE or pipe.is_tensor:
        return 1 if pipe.free_at - (core.last_issue + 1) < state.spec[0].issue_tensor_wait_cycles else 0
    return 1 - _waits(state, core.current)


def give_way(state: State, core: Core, alone: int) -> None:
    """The last to issue gives way if a counter held it back at once (`alone`: nobody issues in the next slot)."""
    if core.current < 0 or state.warps[core.current].op < 0:
        return
    warp, behind = state.warps[core.current], core.last_issue + 1
    if warp.stalled_until <= behind or (alone and state.pipes[warp.pipe].free_at <= behind):
        reason = warp.reason
        if ready_at(state, core.current, behind) > behind:
            warp.yielded = 1
        warp.reason = reason


def issued(state: State, core: Core, w: int, now: int, yields: int) -> None:
    """The warp issues an instruction that yields or does not."""
    spec, warp = state.spec[0], state.warps[w]
    warp.order = 2 * now + 1
    warp.yielded = yields
    if spec.policy == FAIR:
        push(state, core.uncounted, now + spec.issue_issue_count_delay_cycles)
        push(state, core.uncounted, w)


def count(state: State, core: Core, now: int) -> None:
    """Count what is seen by now."""
    most = (1 << state.spec[0].issue_issue_count_bits) - 1
    while length(state, core.uncounted) > 0 and first(state, core.uncounted) <= now:
        pop(state, core.uncounted)
        warp = state.warps[pop(state, core.uncounted)]
        if warp.issue_count < most:
            warp.issue_count += 1
        else:
            for i in range(core.warps):
                other = state.warps[state.pool[core.warps_at + i]]
                other.issue_count = other.issue_count >> 1
