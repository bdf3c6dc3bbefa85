"""The plan of a launch: which CTAs are recorded, and how the others are explored. `gpuemu.chip.plan` has one.

`trace_kernel` receives the plan from its caller, because how a chip deals out CTAs is not known in this room.
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
    """The CTAs that have executed: `timed` is what was recorded of those that are timed, `others` of further ones.

    `work`: warp instructions of each CTA of the grid, 0 where a CTA did not execute.
    """

    timed: Taken
    others: Taken
    work: NDArray[np.float64]


class LaunchPlan(Protocol):
    """The plan of one launch. `timed`: the CTAs to record for the replay, in order."""

    timed: Sequence[int]

    def recorded_beside(self, timed_only: bool) -> Sequence[int]:
        """Further CTAs to record while the launch executes. `timed_only`: the launch executes the timed ones only."""

    def work_queues(self, timed_only: bool) -> WorkQueues | None:
        """The words that hand out work, where not all CTAs execute."""

    def explore(
        self, environment: Environment, executed: Executed, run: Callable[[Iterable[int]], None], timed_only: bool
    ) -> None:
        """Find out about the rest of the grid, now that the timed CTAs have executed.

        `run` executes CTAs and appends them to `executed.others`; it raises ExecutionError and UnsupportedError.
        """

    def sample(self, environment: Environment, others: Trace) -> GridSample | None:
        """What is known of the grid beside the timed CTAs; `others` is the trace of the further CTAs.

        None where the timed CTAs are the whole grid.
        """


class GridPlan(Protocol):
    """Makes the plan of a launch."""

    def begin(self, launch: Launch, sms: int, resident: int) -> LaunchPlan:
        """The plan for a chip of so many SMs, on each of which so many CTAs live at once."""
