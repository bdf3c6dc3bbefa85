"""What a worker does: run points of a job, doing once what many of them share.

A job is what all points share; a worker gets it once. Binding, lowering and building are the larger part of a
short run, so a worker keeps the last few of each, and is given points in an order that makes them neighbours.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError
from gpuemu.emulate import replay
from gpuemu.program.lowering import REPLAY_ONLY, lower
from gpuemu.program.program import Program
from gpuemu.studies.sweeps.sources import Source
from gpuemu.trace.model import Trace
from gpuemu.views.json_result import totals
from gpuemu.views.metrics import metrics
from gpuemu.views.result import Result

T = TypeVar("T")

KEPT = 4
"""Traces and programs that a worker keeps."""


@dataclass(frozen=True)
class Task:
    """A point as a worker needs it: its number, and what to change of which trace and architecture."""

    number: int
    source: int
    arch: int
    overrides: Mapping[str, Any]
    layout: Mapping[str, int]

    @property
    def program(self) -> tuple[Any, ...]:
        """Equal for points that are the same program; sorting by it makes them neighbours."""
        lowered = [f"{name}={value!r}" for name, value in self.overrides.items() if not name.startswith(REPLAY_ONLY)]
        return self.source, self.arch, tuple(sorted(self.layout.items())), tuple(sorted(lowered))


@dataclass(frozen=True)
class Outcome:
    """What became of a point: the numbers of its run, or why there are none.

    `final` is false where another attempt may go better: what failed was the machine and not the point.
    """

    number: int
    numbers: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    final: bool = True


@dataclass
class Job:
    """What the points of a sweep have in common."""

    sources: tuple[Source, ...]
    archs: tuple[Architecture, ...]
    _kept: OrderedDict[Hashable, Any] = field(default_factory=OrderedDict, repr=False, compare=False)

    def run(self, task: Task) -> Outcome:
        try:
            return Outcome(task.number, numbers_of(self._result(task)))
        except GpuemuError as error:
            return Outcome(task.number, error="\n".join(map(str, error.problems)))
        except Exception as error:  # the other points must go on
            return Outcome(task.number, error=f"{type(error).__name__}: {error}", final=False)

    def _result(self, task: Task) -> Result:
        arch = self.archs[task.arch]
        if task.overrides:
            arch = arch.with_overrides(task.overrides)
        source = self.sources[task.source]
        layout = tuple(sorted(task.layout.items()))
        trace: Trace = self._keep((Trace, task.source, layout), lambda: source.bind(task.layout))
        program: Program = self._keep((Program, task.program), lambda: lower(trace, arch))
        return replay(trace, arch, program)

    def _keep(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self._kept:
            self._kept[key] = make()
            while len(self._kept) > 2 * KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        found: T = self._kept[key]
        return found

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_kept": OrderedDict()}


def numbers_of(result: Result) -> dict[str, Any]:
    """The numbers of a run under flat names: what `gpuemu run --fail-on` can test, and two more.

    `shared_bytes` are those of one CTA, static and dynamic; `limited_by` is the resource with the tightest bound.
    """
    data = {**totals(result), "resident_ctas": result.program.resident_ctas}
    values = metrics(data)
    cycles = values.pop("cycles")
    limit = data["bounds"][0]["resource"] if data["bounds"] else ""
    found = {"cycles": cycles, "shared_bytes": result.trace.launch.shared_bytes, "limited_by": limit, **values}
    return {sys.intern(name): value for name, value in found.items()}  # a pickle then has each name once
