"""Run the points of a plan that are not known yet, wherever the workers are, and store the results as they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from gpuemu.base.cores import cores
from gpuemu.engine import compiling
from gpuemu.studies.elsewhere import Lost, Workers
from gpuemu.studies.sweeps.plan import PlannedSweep, Point
from gpuemu.studies.sweeps.store import Store
from gpuemu.studies.sweeps.work import Job, Outcome, Task

Progress = Callable[[int, int], None]
"""Called with the number of finished points and of all points, at the beginning and whenever some finish."""


def run_points(
    plan: PlannedSweep, known: Mapping[int, Outcome], store: Store, jobs: int | None = None,
    cluster: str | None = None, progress: Progress | None = None,
) -> dict[int, Outcome]:  # fmt: skip
    """The outcome of every point, by number: those that the store has, and new ones, which it then gets.

    After an interruption, the store has every point that came back.
    """
    outcomes = dict(known)
    same: dict[str, list[Point]] = {}
    for point in plan.points:
        same.setdefault(point.key, []).append(point)
    tasks = [_task(points[0]) for points in same.values() if points[0].number not in outcomes]
    tasks.sort(key=lambda task: (task.program, task.number))  # neighbors share a program
    told = progress or (lambda done, total: None)
    told(len(outcomes), len(plan.points))
    # Workers switch to compiled code on their own when it is ready.
    with (
        compiling(sum(plan.sources[task.source].instructions for task in tasks)),
        Workers(Job(plan.sources, plan.archs), min(jobs or cores(), len(tasks)) or 1, cluster) as workers,
    ):
        for place, outcome in workers.run(tasks):
            point = plan.points[tasks[place].number]
            if isinstance(outcome, Lost):
                outcome = Outcome(point.number, error=str(outcome), final=False)
            store.add(point, outcome)
            for twin in same[point.key]:
                outcomes[twin.number] = replace(outcome, number=twin.number)
            told(len(outcomes), len(plan.points))
    return outcomes


def _task(point: Point) -> Task:
    return Task(point.number, point.source, point.arch, point.overrides, point.layout)
