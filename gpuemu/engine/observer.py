"""Watches a run: an observer hears what happens. A run without an observer asks nothing.

class Acts(Observer):
    def acts(self, cycle: int, unit: str, sub_core: int) -> None:
        print(cycle, unit)

gpuemu.run("v5_swizzle", observer=Acts())
"""

from __future__ import annotations

from collections.abc import Callable

from gpuemu.engine.log import Log


class Observer:
    """An observer of a run; each of its methods does nothing."""

    def compiles(self, waits: bool) -> None:
        """The engine is not compiled yet: this process, or another if it `waits`, compiles it first."""

    def begins(self, issued: Callable[[], int]) -> None:
        """A driver begins, also again when compiled code takes over. `issued` returns the warp instructions issued so
        far.

        Another thread may call it while the run goes on.
        """

    def acts(self, cycle: int, unit: str, sub_core: int) -> None:
        """A unit has acted in a cycle, by its name in `engine.machine`; a unit of each sub-core for that sub-core.

        Compiled code does not report single units: SimPy drives a run whose observer overrides this method.
        """

    def ends(self, log: Log) -> None:
        """The run is over, with this log."""


def sees_units(observer: Observer | None) -> bool:
    """Whether an observer wants to hear of single units."""
    return observer is not None and type(observer).acts is not Observer.acts
