"""The plan of a launch: the CTAs to record, and how the others are explored. `gpuemu.chip.plan` implements it.

`trace_kernel` receives the plan from its caller, because this room does not know how a chip distributes CTAs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.environment import Environment, WorkQueues
from gpuemu.sass.taken import Taken
from gpuemu.trace.model import GridSample, Launch, Trace


class Executed(NamedTuple):
    """The CTAs that have executed: `timed` has the recorded timed CTAs, `others` the recorded further ones.

    `work`: warp instructions of each CTA of the grid, 0 for a CTA that did not execute.
    """

    timed: Taken
    others: Taken
    work: NDArray[np.float64]


class LaunchPlan(Protocol):
    """The plan of one launch. `timed`: the CTAs to record for the replay, in order."""

    timed: Sequence[int]

    def recorded_beside(self, timed_only: bool) -> Sequence[int]:
        """Return further CTAs to record while the launch executes. `timed_only`: only the timed CTAs execute."""

    def enough_beside(self, each: int) -> Sequence[int] | None:
        """Return the further CTAs to record, if a CTA executes `each` warp instructions. None means no change."""

    def gives_up(self, each: int) -> bool:
        """Whether the timed CTAs are too long to record, if a CTA executes `each` warp instructions."""

    def shorten(self) -> int:
        """Record only parts of each CTA, because the timed ones are too long. Return their warp instructions per CTA.

        Zero means that nothing is recorded.
        """

    def work_queues(self, timed_only: bool) -> WorkQueues | None:
        """Return the words that distribute work, if not all CTAs execute."""

    def explore(
        self, environment: Environment, executed: Executed, run: Callable[[Iterable[int]], None], timed_only: bool
    ) -> None:
        """Explore the rest of the grid, after the timed CTAs have executed.

        `run` executes CTAs and appends them to `executed.others`; it raises ExecutionError and UnsupportedError.
        """

    def sample(self, environment: Environment, others: Trace) -> GridSample | None:
        """Return the facts about the grid beyond the timed CTAs; `others` is the trace of the further CTAs.

        The result is None if the timed CTAs are the whole grid.
        """


class GridPlan(Protocol):
    """Makes the plan of a launch."""

    def begin(self, launch: Launch, sms: int, resident: int) -> LaunchPlan:
        """Return the plan for a chip with `sms` SMs, on each of which `resident` CTAs are resident at once."""
