"""The work of a worker: run points of a job, doing the shared part of several points once.

A job is the common part of all points; a worker gets it once. Binding, lowering and building take most of a short run,
so a worker keeps the last few results of each. It gets points in an order that makes similar points neighbors.
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
"""The number of traces and programs that a worker keeps."""


@dataclass(frozen=True)
class Task:
    """A point in the form for a worker: its number, its trace and architecture, and its changes to them."""

    number: int
    source: int
    arch: int
    overrides: Mapping[str, Any]
    layout: Mapping[str, int]

    @property
    def program(self) -> tuple[Any, ...]:
        """Equal for points with the same program; sorting by it makes them neighbors."""
        lowered = [f"{name}={value!r}" for name, value in self.overrides.items() if not name.startswith(REPLAY_ONLY)]
        return self.source, self.arch, tuple(sorted(self.layout.items())), tuple(sorted(lowered))


@dataclass(frozen=True)
class Outcome:
    """The outcome of a point: the numbers of its run, or the reason why there are none.

    `final` is false if another attempt may succeed, because the machine failed and not the point.
    """

    number: int
    numbers: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    final: bool = True


@dataclass
class Job:
    """The common part of the points of a sweep."""

    sources: tuple[Source, ...]
    archs: tuple[Architecture, ...]
    _kept: OrderedDict[Hashable, Any] = field(default_factory=OrderedDict, repr=False, compare=False)

    def run(self, task: Task) -> Outcome:
        try:
            return Outcome(task.number, numbers_of(self._result(task)))
        except GpuemuError as error:
            return Outcome(task.number, error="\n".join(map(str, error.problems)))
        except Exception as error:  # The other points must go on.
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
    """The numbers of a run under flat names: those of `gpuemu run --fail-on`, and two more.

    `shared_bytes` is the static and dynamic shared memory of one CTA; `limited_by` is the resource with the tightest
    bound.
    """
    data = {**totals(result), "resident_ctas": result.program.resident_ctas}
    values = metrics(data)
    cycles = values.pop("cycles")
    limit = data["bounds"][0]["resource"] if data["bounds"] else ""
    found = {"cycles": cycles, "shared_bytes": result.trace.launch.shared_bytes, "limited_by": limit, **values}
    return {sys.intern(name): value for name, value in found.items()}  # so that a pickle has each name once
