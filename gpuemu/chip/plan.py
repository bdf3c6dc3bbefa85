"""Chooses the CTAs that execute and are recorded: those of one SM, their followers, and some across the grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.chance import mixed
from gpuemu.chip.copy_scout import copied
from gpuemu.chip.cta_work import as_often
from gpuemu.chip.sampling import followers, further, longest_of, of_one_sm, spread, work_of_all
from gpuemu.chip.scout import counted, scout
from gpuemu.chip.work_queues import Handouts
from gpuemu.sass.grid_plan import Executed
from gpuemu.sass.machine.environment import Environment, ExecutionError
from gpuemu.sass.machine.memory.storage import LOCAL_WINDOW
from gpuemu.sass.machine.operands import UnsupportedError
from gpuemu.trace.events import table
from gpuemu.trace.model import GridSample, Launch, Trace


@dataclass(frozen=True)
class SampledGrid:
    """Times the CTAs of one of the busiest SMs, and samples the others.

    `seed`: choose that SM and the sampled CTAs at random, so that a kernel cannot know which CTAs are timed.
    `is_brief`: record fewer CTAs if they are long, also in a launch that executes all CTAs. Recording is slow. `most`:
    the warp instructions of timed CTAs that gpuemu records; of a launch with more, it records a `part` of them.
    `work`: the warp instructions of each CTA, if an earlier execution of the launch has counted them.
    """

    seed: int | None = None
    is_brief: bool = False
    most: int | None = None
    part: int = 0
    work: NDArray[np.float64] | None = field(default=None, compare=False)

    def begin(self, launch: Launch, sms: int, resident: int) -> SampledLaunch:
        """The plan for a chip with `sms` SMs, each with places for `resident` CTAs."""
        return SampledLaunch(launch, sms, resident, self.seed, self.is_brief, self.most, self.part, self.work)


@dataclass
class SampledLaunch:
    """The plan of one launch, and its findings. `timed`: the CTAs that are timed, which can be the whole grid."""

    launch: Launch
    sms: int
    resident: int
    seed: int | None = None
    is_brief: bool = False
    most: int | None = None
    part: int = 0
    work: NDArray[np.float64] | None = None
    timed: Sequence[int] = field(init=False)
    _followers: list[int] = field(init=False, default_factory=list)
    _queues: Handouts | None = field(init=False, default=None)
    _heaviest: list[int] = field(init=False, default_factory=list)
    _first: dict[int, NDArray[np.int64]] = field(init=False, default_factory=dict)
    _copies: dict[int, NDArray[np.int64]] = field(init=False, default_factory=dict)
    _work: NDArray[np.float64] | None = field(init=False, default=None)
    _is_cut: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        ctas, sms = self.launch.ctas, self.sms
        busiest = min(ctas, ctas % sms or sms) if ctas < self.resident * sms else sms
        first = 0 if self.seed is None else int(mixed(np.array([self.seed]))[0] % np.uint64(busiest))
        self.timed = range(first, ctas, sms)[: self.resident]

    @property
    def _is_part(self) -> bool:
        """Whether the grid has more CTAs than are timed."""
        return self.launch.ctas > len(self.timed)

    def recorded_beside(self, timed_only: bool) -> Sequence[int]:
        """CTAs to record besides the timed ones. None if the launch executes the timed ones only."""
        return self._beside(None, None) if self._is_part and not timed_only else []

    def enough_beside(self, each: int) -> Sequence[int] | None:
        """CTAs to record besides the timed ones, if a CTA executes `each` warp instructions. None means no change."""
        return self._beside(each, None) if self._is_part and self.is_brief else None

    def gives_up(self, each: int) -> bool:
        """Whether the timed CTAs are too long to record, if a CTA executes `each` warp instructions."""
        return self.most is not None and each * len(self.timed) > self.most

    def shorten(self) -> int:
        """Record only parts of each CTA. Return their warp instructions per CTA, or zero for nothing."""
        self._is_cut = self.part > 0
        return self.part // len(self.timed)

    def _beside(self, each: int | None, left: NDArray[np.bool_] | None) -> list[int]:
        """The followers of the timed CTAs, and some CTAs across the grid. `each`: warp instructions of a CTA."""
        self._followers = followers(self.launch, self.timed, self.sms, each)
        return [*self._followers, *spread(self.launch, [*self.timed, *self._followers], each, left, self.seed)]

    def work_queues(self, timed_only: bool) -> Handouts | None:
        """The words that distribute work, if not all CTAs execute."""
        if self._is_part and timed_only:
            self._queues = Handouts(min(self.launch.ctas, self.resident * self.sms))
        return self._queues

    def explore(
        self, environment: Environment, executed: Executed, run: Callable[[Iterable[int]], None], timed_only: bool
    ) -> None:
        """Find where other CTAs load from. If only the timed CTAs have executed, execute some others."""
        self._work = executed.work if executed.work.all() else None
        if not self._is_part:
            return
        self._first, left = scout(environment)
        if timed_only and executed.timed.warps:
            try:
                self._work = self._execute_more(environment, executed, run, left)
            except (ExecutionError, UnsupportedError):  # continue with the CTAs executed so far
                self._heaviest = []
                self._work = as_often(self.launch.ctas, known_of(executed)) if self._is_cut else None
        elif self._work is not None and executed.timed.warps:
            others = sorted({warp.cta for warp in executed.others.warps})
            self._heaviest = longest_of(self._work, self.timed, others, self.sms)
        recorded = [(of.warps, table(of.events)) for of in (executed.timed, executed.others)]
        self._copies = copied(environment, recorded, self._first)

    def _execute_more(
        self, environment: Environment, executed: Executed, run: Callable[[Iterable[int]], None],
        left: NDArray[np.bool_],
    ) -> NDArray[np.float64]:  # fmt: skip
        """The instructions of each CTA of the grid, from the CTAs that execute here.

        `left`: the CTAs that exit at once. Raises ExecutionError and UnsupportedError.
        """
        launch, sms = self.launch, self.sms
        run(self._beside(sum(known_of(executed).values()) // len(self.timed), left))
        work = self.work
        if work is None:
            work = work_of_all(launch, known_of(executed), left, partial(counted, environment))
        if work is None:
            run(further(launch, known_of(executed)))
            work = as_often(launch.ctas, known_of(executed), sms)
        by_now = known_of(executed)
        self._heaviest = of_one_sm(work, [*self.timed, *self._followers], sms, self.resident)
        run(cta for cta in self._heaviest if cta not in by_now)
        return work

    def sample(self, environment: Environment, others: Trace) -> GridSample | None:
        """The findings about the other CTAs, or None if there are none. `others`: a trace of the sampled CTAs."""
        if not self._is_part and not self._is_cut:
            return None
        follow = tuple(self._followers)
        buffers = tuple((b.start, b.bytes) for b in environment.memory.buffers if b.start < LOCAL_WINDOW)
        hands_out = self._queues is not None and self._queues.any
        return GridSample(
            others,
            follow,
            tuple(self._heaviest),
            self._first,
            buffers,
            hands_out,
            self._work,
            self._copies,
            self._is_cut,
        )


def known_of(executed: Executed) -> dict[int, int]:
    """The warp instructions of each CTA that has executed."""
    numbers = np.flatnonzero(executed.work)
    return dict(zip(numbers.tolist(), executed.work[numbers].astype(int).tolist(), strict=True))
