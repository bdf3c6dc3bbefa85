"""Which of the warps of a sub-core goes first, of those that can issue in the same cycle.

Greedy-then-fair, what an H200 does: the scheduler stays with a warp until that yields, branches, or waits for its pipe
or queue. Else it takes the warp with the lowest count of issues, of equals the youngest. The counts have few bits and
see an issue some cycles late; when one that is full is to rise, all are halved instead. Behind all others come the
warps that yielded with their last instruction, those that had to wait for room in a queue, and those that a counter
held back right behind their last issue: if their stall count was 1, else if nobody issued then and their pipe was free.

Whether a warp waits for the tensor core or the special-function unit shows right behind its last issue, whatever its
stall count; for other pipes when that has run out.

Warps that yield with each instruction, NOPs, loads behind a full queue fall into orders that repeat themselves, and
these come out: `tests/engine/test_warp_order.py` has them. Of 28,265 choices between two warps with random stall counts
and yields none came out wrong, with the right one of the 256 states in which their counts may begin.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from gpuemu.engine.pipes import QueuedPipe
from gpuemu.program.units import Unit

if TYPE_CHECKING:
    from gpuemu.engine.machine import Machine
    from gpuemu.engine.warp import Warp

FAIR = "greedy_then_fair"
SHOWN_AT_ONCE = (Unit.TENSOR, Unit.SPECIAL_FUNCTION)
"""That a warp waits for one of these shows right behind its last issue."""


class WarpOrder:
    """The warps of a sub-core, in the order in which the policy looks at them, and the issues that do not count yet."""

    __slots__ = (
        "_delay", "_fair", "_most", "_pipe_wait", "_rotates", "_tensor_wait", "_uncounted", "_youngest_first", "warps",
    )  # fmt: skip

    def __init__(self, machine: Machine):
        self._fair = machine.policy == FAIR
        self._rotates = machine.policy == "loose_round_robin"
        self._youngest_first = machine.policy == "greedy_then_youngest"
        self._pipe_wait, self._tensor_wait = machine.pipe_wait_cycles, machine.tensor_wait_cycles
        self._delay = machine.issue_count_delay_cycles
        self._most = 2**machine.issue_count_bits - 1
        self._uncounted: deque[tuple[int, Warp]] = deque()
        self.warps: list[Warp] = []

    def add(self, warp: Warp) -> None:
        """Take a newly launched warp, the youngest so far."""
        if self._youngest_first:
            self.warps.insert(0, warp)
        else:
            self.warps.append(warp)

    def first(self, ready: list[Warp], cycle: int) -> Warp:
        """Who of `ready`, in the order of `warps`, goes first in `cycle`; it counts what is seen by then."""
        first = ready[0]
        if self._fair and len(ready) > 1:
            self._count(cycle)
            best = (True, self._most)
            for warp in ready:
                rank = (warp.yielded or self._waits_for_room(warp), warp.issue_count)
                if rank <= best:
                    first, best = warp, rank
        return first

    def has_waited(self, warp: Warp, last_issue: int) -> bool:
        """Whether the warp, the last to issue, in that cycle, has found its pipe or queue busy since.

        The tensor core and the special-function unit are looked at behind that issue, whatever its stall count, the
        others when it has run out.
        """
        pipe = warp.pipe
        if pipe.unit in SHOWN_AT_ONCE:
            return pipe.free_at - (last_issue + 1) >= self._tensor_wait
        return self._waits(warp)

    def _waits(self, warp: Warp) -> bool:
        pipe = warp.pipe
        return pipe.free_at - max(warp.ready_at, pipe.taken_at + 1) >= self._pipe_wait

    def _waits_for_room(self, warp: Warp) -> bool:
        if isinstance(warp.pipe, QueuedPipe):
            return True  # one in its queue is as good as one that waited for it
        return not warp.pipe.has_intervals and self._waits(warp)

    def issued(self, warp: Warp, cycle: int, yields: bool) -> None:
        """The warp issues in `cycle` an instruction that yields or does not."""
        if self._fair:
            self._count(cycle)
            self._uncounted.append((cycle + self._delay, warp))
            warp.yielded = yields
        elif self._rotates:
            self.warps.remove(warp)
            self.warps.append(warp)

    def _count(self, cycle: int) -> None:
        """Count what is seen by `cycle`."""
        uncounted = self._uncounted
        while uncounted and uncounted[0][0] <= cycle:
            _, warp = uncounted.popleft()
            if warp.issue_count < self._most:
                warp.issue_count += 1
            else:
                for other in self.warps:
                    other.issue_count >>= 1
