"""The order of the warps of a sub-core that can issue in the same cycle (`issue.policy`).

Greedy-then-fair, the policy of an H200: the scheduler stays with a warp until the warp yields, branches, or waits for
its pipe or queue. Then it takes a warp of the oldest CTA, of these the one with the lowest count of issues, and of
equals the youngest. The counts have `issue.issue_count_bits` and see an issue `issue.issue_count_delay_cycles` late.
When a full count would rise, all counts are halved instead.

Three groups of warps come last: warps that yielded with their last instruction, warps that had to wait for room in a
queue, and warps that a counter held back right after their last issue. The last group counts if its stall count was 1,
or if nobody issued then and its pipe was free. In place of CTA and count, greedy-then-youngest takes the youngest warp,
loose round-robin the warp whose last issue is longest ago, and oldest-first the oldest warp.
"""

from __future__ import annotations

from gpuemu.engine.records import Record
from gpuemu.engine.setup import Setup
from gpuemu.engine.spec import FAIR, OLDEST, ROTATING, YOUNGEST
from gpuemu.engine.state import Core, State
from gpuemu.engine.unit import Kept, Unit, each_sub_core, each_warp
from gpuemu.engine.units.dependences import ready_at
from gpuemu.engine.units.kinds import QUEUE, SPECIAL_QUEUE
from gpuemu.engine.units.rings import first, length, pop, push


class Rank(Record):
    """The rank of a warp: its count of `issues`, whether it `yielded` with the last, and its `turn`, of which the
    lowest wins.
    """

    issues: int
    yielded: int
    turn: int


class Uncounted(Record):
    """Issues of a sub-core that do not count yet: the cycle in which each does, and its warp, in turn."""

    issues: int

    def begin(self, m: Setup, number: int) -> None:
        """No warp has issued."""
        most = m.spec.issue_issue_count_delay_cycles + 2
        self.issues = m.room.ring("issues that do not count yet", 2 * most)


def goes_before(state: State, w: int, other: int) -> int:
    """Whether a warp goes before another; the numbers of warps are in the order of their age."""
    one: Rank = state.ranks[w]
    two: Rank = state.ranks[other]
    policy = state.spec[0].policy
    if policy == OLDEST:
        return 1 if w < other else 0
    if policy == YOUNGEST:
        return 1 if w > other else 0
    if policy == ROTATING:
        return 1 if one.turn < two.turn or (one.turn == two.turn and w < other) else 0
    behind, other_behind = _comes_last(state, w), _comes_last(state, other)
    if behind != other_behind:
        return 1 if behind < other_behind else 0
    if state.warps[w].cta != state.warps[other].cta:
        return 1 if state.warps[w].cta < state.warps[other].cta else 0
    if one.issues != two.issues:
        return 1 if one.issues < two.issues else 0
    return 1 if w > other else 0


def _comes_last(state: State, w: int) -> int:
    """Whether a warp yielded or had to wait for room. One that goes to the special-function unit counts as if it had
    yielded.
    """
    warp = state.warps[w]
    kind = state.pipes[warp.pipe].kind
    if state.ranks[w].yielded > 0 or kind == SPECIAL_QUEUE:
        return 1
    return _waits(state, w) if kind >= QUEUE else 0


def _waits(state: State, w: int) -> int:
    warp = state.warps[w]
    pipe = state.pipes[warp.pipe]
    waited = pipe.free_at - max(warp.ready_at, pipe.taken_at + 1)
    return 1 if waited >= state.spec[0].issue_pipe_wait_cycles else 0


def is_kept(state: State, core: Core, now: int) -> int:
    """Whether the warp that issued last goes before others that are ready now.

    It does not if it waited for its pipe or queue, branched, or waited for a barrier. A wait for the tensor core or the
    special-function unit shows right after its issue, whatever its stall count. A wait for another pipe shows when the
    stall count has run out.
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
    """The last warp to issue gives way if a counter held it back at once (`alone`: no warp issues in the next slot)."""
    if core.current < 0 or state.warps[core.current].op < 0:
        return
    warp, behind = state.warps[core.current], core.last_issue + 1
    if warp.stalled_until <= behind or (alone and state.pipes[warp.pipe].free_at <= behind):
        reason = warp.reason
        if ready_at(state, core.current, behind) > behind:
            state.ranks[core.current].yielded = 1
        warp.reason = reason


def issued(state: State, c: int, w: int, now: int, yields: int) -> None:
    """The warp issues an instruction, which `yields` or not."""
    spec = state.spec[0]
    rank: Rank = state.ranks[w]
    rank.turn = 2 * now + 1
    rank.yielded = yields
    if spec.policy == FAIR:
        push(state, state.uncounted[c].issues, now + spec.issue_issue_count_delay_cycles)
        push(state, state.uncounted[c].issues, w)


def count(state: State, c: int, now: int) -> None:
    """Count the issues that the counts see by now."""
    core, uncounted = state.cores[c], state.uncounted[c].issues
    most = (1 << state.spec[0].issue_issue_count_bits) - 1
    while length(state, uncounted) > 0 and first(state, uncounted) <= now:
        pop(state, uncounted)
        rank: Rank = state.ranks[pop(state, uncounted)]
        if rank.issues < most:
            rank.issues += 1
        else:
            for i in range(core.warps):
                other: Rank = state.ranks[state.warps_of[core.warps_at + i]]
                other.issues = other.issues >> 1


ORDER = Unit("order", records={"ranks": Kept(Rank, each_warp), "uncounted": Kept(Uncounted, each_sub_core)})
