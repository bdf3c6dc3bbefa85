"""Which of the warps of a sub-core goes first, of those that can issue in the same cycle.

Greedy-then-fair, what an H200 does (clock reads by two to four warps of a sub-core, 100,000 choices): the warp that has
issued the least lately, counted by a share of the issues that fades. An issue counts only some cycles later, and is an
advantage until then, but not before a queue: four warps of MUFU, or of stores behind a full queue, take strict turns.
Behind all others come those that yielded with their last instruction or wait for their pipe, however little they
issued. If one of these has had to wait for room in a queue, the one that issued longest ago goes first among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuemu.engine.machine import NEVER

if TYPE_CHECKING:
    from gpuemu.engine.machine import Machine
    from gpuemu.engine.warp import Warp

FAIR = "greedy_then_fair"
ISSUE = 256
"""What an issue adds to a warp's share: whole numbers are the same on every machine."""
_WHOLE = 1 << 16


class WarpOrder:
    """The warps of a sub-core, in the order in which the policy looks at them, and how much each has issued lately."""

    __slots__ = ("_advantage", "_delay", "_fair", "_left", "_recent", "_rotates", "_youngest_first", "warps")

    def __init__(self, machine: Machine):
        self._fair = machine.policy == FAIR
        self._rotates = machine.policy == "loose_round_robin"
        self._youngest_first = machine.policy == "greedy_then_youngest"
        self._recent = machine.recent_issue_cycles
        self._advantage = ISSUE * machine.recent_issue_percent // 100
        self._left = fading(machine.share_cycles)
        self._delay = machine.share_delay_cycles
        self.warps: list[Warp] = []

    def add(self, warp: Warp) -> None:
        """Take a newly launched warp, the youngest so far."""
        if self._youngest_first:
            self.warps.insert(0, warp)
        else:
            self.warps.append(warp)

    def first(self, ready: list[Warp], cycle: int, waits: Callable[[Warp], bool]) -> Warp:
        """Who of `ready`, in the order of `warps`, goes first in `cycle`; `waits` says who waits for its pipe."""
        if not self._fair or len(ready) == 1:
            return ready[0]
        in_line = any(warp.stood_in_line for warp in ready)
        first = ready[0]
        best = (True, NEVER, 0)
        for warp in ready:
            share = 0
            gives_way = warp.gave_way or waits(warp)
            if not (in_line and gives_way):
                share = self._share(warp, cycle)
                if cycle - warp.issued_at <= self._recent and warp.pipe.has_intervals:
                    share -= self._advantage
            rank = (gives_way, share, warp.issued_at)
            if rank < best:
                first, best = warp, rank
        return first

    def issued(self, warp: Warp, cycle: int, gave_way: bool, stood_in_line: bool) -> None:
        """The warp issues in `cycle`, and gives way until it issues again, or does not: for a yield, or for a queue."""
        if self._fair:
            self._count(warp, cycle - self._delay)
            warp.uncounted.append(cycle)
            warp.issued_at = cycle
            warp.gave_way = gave_way
            warp.stood_in_line = stood_in_line
        elif self._rotates:
            self.warps.remove(warp)
            self.warps.append(warp)

    def _share(self, warp: Warp, cycle: int) -> int:
        """What is left in `cycle` of what the warp had issued `share_delay_cycles` before."""
        seen = cycle - self._delay
        self._count(warp, seen)
        passed = seen - warp.counted_at
        return warp.share * self._left[passed] // _WHOLE if passed < len(self._left) else 0

    def _count(self, warp: Warp, seen: int) -> None:
        """Count what the warp has issued up to `seen`."""
        left = self._left
        while warp.uncounted and warp.uncounted[0] <= seen:
            issued_at = warp.uncounted.pop(0)
            passed = issued_at - warp.counted_at
            warp.share = ISSUE + (warp.share * left[passed] // _WHOLE if passed < len(left) else 0)
            warp.counted_at = issued_at


def fading(cycles: int) -> list[int]:
    """What is left of a whole (65536) after so many cycles, of which each takes one part in `cycles`, rounded up."""
    left = [_WHOLE]
    while left[-1]:
        left.append(left[-1] - -(-left[-1] // cycles))
    return left
