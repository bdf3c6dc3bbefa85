"""Whose turn it is: the order in which a sub-core looks at its warps.

Of those that can issue the first in this order goes, if the sub-core does not stay with the one that issued last.
With greedy-then-turns a warp goes last when it yields, or when it waited for its pipe and not for its turn alone. One
that yielded has its place before all others that yielded as soon as it issues something that does not, such as a
branch (H200, a loop of LOP3, four warps, each yields at its end and branches: it then goes before those that have
waited since they yielded).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuemu.engine.warp import Warp


class TurnOrder:
    """The warps of a sub-core, in the order in which the policy looks at them."""

    __slots__ = ("_youngest_first", "warps")

    def __init__(self, policy: str):
        self._youngest_first = policy == "greedy_then_youngest"
        self.warps: list[Warp] = []

    def add(self, warp: Warp) -> None:
        """Take a newly launched warp, the youngest so far."""
        if self._youngest_first:
            self.warps.insert(0, warp)
        else:
            self.warps.append(warp)

    def goes_last(self, warp: Warp, yielded: bool) -> None:
        """The warp has had its turn; `yielded`: of its own accord, not because it waited."""
        self.warps.remove(warp)
        self.warps.append(warp)
        warp.yielded = yielded

    def goes_on(self, warp: Warp) -> None:
        """A warp that had yielded issues again."""
        warp.yielded = False
        self.warps.remove(warp)
        behind = next((i for i, other in enumerate(self.warps) if other.yielded), len(self.warps))
        self.warps.insert(behind, warp)
