"""Time a trace with many edits, on all cores; the results are in the order of the edits."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuemu.arch import Architecture
from gpuemu.base.cores import cores
from gpuemu.base.errors import GpuemuError
from gpuemu.emulate import replay
from gpuemu.program.lowering import REPLAY_ONLY, lower
from gpuemu.program.program import Program
from gpuemu.studies.elsewhere import Workers
from gpuemu.studies.why.edits import Edit, relaid, without
from gpuemu.trace.model import Trace
from gpuemu.views.result import Result

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Timed:
    """The outcome of an edit: the cycles without the cause, or the reason why it cannot run."""

    cycles: int = 0
    error: str = ""


@dataclass
class Timing:
    """The job of the workers: a trace, an architecture, and edits to time."""

    trace: Trace
    arch: Architecture
    _kept: OrderedDict[object, Program] = field(default_factory=OrderedDict, repr=False, compare=False)

    def result(self, edit: Edit) -> Result:
        """The run with an edit. Raises GpuemuError if it cannot run."""
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
        """The cycles with an edit."""
        try:
            return Timed(self.result(edit).cycles)
        except GpuemuError as error:
            return Timed(error=str(error.problems[0]))

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_kept": OrderedDict()}


class Runner:
    """Times edits, in other processes if that takes long. This is a context that ends the processes."""

    def __init__(self, trace: Trace, arch: Architecture, jobs: int | None, runs: int, progress: Progress | None):
        """`runs`: the approximate number of runs; `jobs`: processes, by default one per core."""
        self._workers = Workers(Timing(trace, arch), jobs or cores())
        self._progress = progress or (lambda done, total: None)
        self._total = runs
        self._done = 0

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._workers.__exit__(*raised)

    def expect(self, runs: int) -> None:
        """Announce this many further runs."""
        self._total = self._done + runs
        self._progress(self._done, self._total)

    def times(self, edits: Sequence[Edit]) -> list[Timed]:
        """The outcomes of edits, in their order. Raises GpuemuError if workers are lost again and again."""
        return self._workers.outcomes(edits, self._one_done)

    def _one_done(self) -> None:
        self._done += 1
        self._progress(self._done, self._total)
