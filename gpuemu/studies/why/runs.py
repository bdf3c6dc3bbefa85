"""Timing a trace without this and that: many edits, on all cores, their results in the order of the edits."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError
from gpuemu.emulate import replay
from gpuemu.program.lowering import REPLAY_ONLY, lower
from gpuemu.program.program import Program
from gpuemu.studies.elsewhere import Workers, cores
from gpuemu.studies.why.edits import Edit, relaid, without
from gpuemu.trace.model import Trace
from gpuemu.views.result import Result

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Timed:
    """What came of an edit: the cycles without it, or why it cannot be run."""

    cycles: int = 0
    error: str = ""


@dataclass
class Timing:
    """The job of the workers: a trace and an architecture, and edits to time them with."""

    trace: Trace
    arch: Architecture
    _kept: OrderedDict[object, Program] = field(default_factory=OrderedDict, repr=False, compare=False)

    def result(self, edit: Edit) -> Result:
        """The run without what the edit takes away. Raises GpuemuError where it cannot run so."""
        arch = self.arch.with_overrides(dict(edit.settings), where="gpuemu why") if edit.settings else self.arch
        trace = relaid(self.trace, edit.relaid) if edit.relaid else self.trace
        lowered = tuple(s for s in edit.settings if not s[0].startswith(REPLAY_ONLY))
        key = edit.relaid, lowered
        if key not in self._kept:
            self._kept[key] = lower(trace, arch)
            while len(self._kept) > 3:
                self._kept.popitem(last=False)
        return replay(trace, arch, without(self._kept[key], arch, edit))

    def run(self, edit: Edit) -> Timed:
        """The cycles without what the edit takes away."""
        try:
            return Timed(self.result(edit).cycles)
        except GpuemuError as error:
            return Timed(error=str(error.problems[0]))

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_kept": OrderedDict()}


class Runner:
    """Times edits, in other processes where they take long; a context, at the end of which these end."""

    def __init__(self, trace: Trace, arch: Architecture, jobs: int | None, runs: int, progress: Progress | None):
        """`runs`: how many there will be, about; `jobs`: processes, by default one for each core."""
        self._workers = Workers(Timing(trace, arch), jobs or cores())
        self._progress = progress or (lambda done, total: None)
        self._total = runs
        self._done = 0

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._workers.__exit__(*raised)

    def expect(self, runs: int) -> None:
        """So many are still to come."""
        self._total = self._done + runs
        self._progress(self._done, self._total)

    def times(self, edits: Sequence[Edit]) -> list[Timed]:
        """What comes of each edit, in their order. Raises GpuemuError if workers are lost again and again."""
        return self._workers.outcomes(edits, self._one_done)

    def _one_done(self) -> None:
        self._done += 1
        self._progress(self._done, self._total)
