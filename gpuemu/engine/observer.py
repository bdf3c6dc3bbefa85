"""Watching a run: an observer is told what happens, and nothing is asked where nobody listens.

class Acts(Observer):
    def acts(self, cycle: int, unit: str, sub_core: int) -> None:
        print(cycle, unit)

gpuemu.run("v5_swizzle", observer=Acts())
"""

from __future__ import annotations

from collections.abc import Callable

from gpuemu.engine.log import Log


class Observer:
    """A look at a run; each of its methods does nothing."""

    def compiles(self, waits: bool) -> None:
        """The engine is not compiled yet: this process, or another if it `waits`, compiles it first, for minutes."""

    def begins(self, issued: Callable[[], int]) -> None:
        """A driver begins: anew where compiled code takes over. `issued` tells how many warp instructions have issued;
        another thread may ask while the run goes on.
        """

    def acts(self, cycle: int, unit: str, sub_core: int) -> None:
        """A unit has acted in a cycle, by its name in `engine.machine`; of each sub-core's, for which one.

        Compiled code tells of no single units: who overrides this is driven by SimPy.
        """

    def ends(self, log: Log) -> None:
        """All is over, and this is what happened."""


def sees_units(observer: Observer | None) -> bool:
    """Whether it wants to be told of single units."""
    return observer is not None and type(observer).acts is not Observer.acts
