"""Runs the points of a plan: in chunks of a length that suits, wherever the pool is, writing down what comes."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from gpuemu.studies.sweeps.plan import PlannedSweep, Point, program_digest
from gpuemu.studies.sweeps.pools import Finished, Pool
from gpuemu.studies.sweeps.store import Store
from gpuemu.studies.sweeps.work import CHUNK_S, Job, Outcome, Task

Progress = Callable[[int, int], None]
"""Called with the points done and all points, at the beginning and whenever some are done."""

AHEAD = 2
"""Chunks that a worker has, the one it runs included, so that it never waits for the next."""
ATTEMPTS = 3
"""So often a point is tried that takes its worker with it."""


def job_of(plan: PlannedSweep) -> Job:
    """What all points of the plan share."""
    return Job(plan.sources, plan.archs, program_digest())


def unfinished(plan: PlannedSweep, known: dict[int, Outcome]) -> list[Point]:
    """The points that have to be run: of those with one key, the first."""
    seen: dict[str, Point] = {}
    for point in plan.points:
        if point.number not in known:
            seen.setdefault(point.key, point)
    return list(seen.values())


class Runner:
    """Runs points in a pool. `outcomes` has what is known, by number; those of `known` are not run again."""

    def __init__(self, plan: PlannedSweep, known: dict[int, Outcome], store: Store, progress: Progress | None = None):
        self.outcomes = dict(known)
        self._plan = plan
        self._store = store
        self._progress = progress or (lambda done, total: None)
        self._same: dict[str, list[int]] = {}
        for point in plan.points:
            self._same.setdefault(point.key, []).append(point.number)

    def run(self, pool: Pool) -> None:
        """Run what is not known yet. Interrupted, it has written down every point that came back."""
        scheduler = _Scheduler(unfinished(self._plan, self.outcomes), pool)
        self._report()
        while (finished := scheduler.next()) is not None:
            self._take(finished)

    def _take(self, outcomes: Iterable[Outcome]) -> None:
        done = [(self._plan.points[outcome.number], outcome) for outcome in outcomes]
        self._store.add(done)
        for point, outcome in done:
            for number in self._same[point.key]:
                self.outcomes[number] = replace(outcome, number=number)
        self._report()

    def _report(self) -> None:
        self._progress(len(self.outcomes), len(self._plan.points))


class _Scheduler:
    """Cuts the points into chunks as workers ask for them, and hands out again what a lost worker had."""

    def __init__(self, points: list[Point], pool: Pool):
        tasks = [Task(p.number, p.source, p.arch, p.overrides, p.layout) for p in points]
        self._waiting = deque(sorted(tasks, key=lambda task: (task.program, task.number)))
        self._again: deque[Task] = deque()
        self._attempts: dict[int, int] = {}
        self._pool = pool
        self._out = 0
        self._seconds_each = 0.0

    def next(self) -> list[Outcome] | None:
        """What came back next; None when all has."""
        while True:
            while self._out < AHEAD * self._pool.width and (self._waiting or self._again):
                self._pool.submit(self._chunk())
                self._out += 1
            if not self._out:
                return None
            finished = self._pool.collect()
            self._out -= 1
            if finished.outcomes is None:
                given_up = self._lost(finished)
                if given_up:
                    return given_up
                continue
            done = len(finished.outcomes)
            self._waiting.extendleft(reversed(finished.chunk[done:]))
            if finished.seconds > 0:
                each = finished.seconds / done
                self._seconds_each = each if not self._seconds_each else (self._seconds_each + each) / 2
            return finished.outcomes

    def _chunk(self) -> list[Task]:
        if self._again:
            return [self._again.popleft()]  # one by one, so that it shows which of them it is
        share = math.ceil(len(self._waiting) / (AHEAD * self._pool.width))
        length = 1
        if self._seconds_each:
            shortest, longest = (max(1, round(s / self._seconds_each)) for s in (CHUNK_S / 10, CHUNK_S))
            length = min(max(share, shortest), longest)
        return [self._waiting.popleft() for _ in range(min(length, len(self._waiting)))]

    def _lost(self, finished: Finished) -> list[Outcome]:
        """Have the points of a lost worker run again; those given up by now, as outcomes."""
        given_up = []
        for task in finished.chunk:
            attempts = self._attempts[task.number] = self._attempts.get(task.number, 0) + 1
            if attempts < ATTEMPTS:
                self._again.append(task)
            else:
                error = f"its worker was lost {attempts} times: {finished.lost}"
                given_up.append(Outcome(task.number, error=error, final=False))
        return given_up
