"""Timing a trace without this and that: many edits, on all cores, their results in the order of the edits."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError
from gpuemu.emulate import replay
from gpuemu.program.lowering import lower
from gpuemu.program.program import Program
from gpuemu.studies.sweeps.api import cores
from gpuemu.studies.sweeps.plan import program_digest
from gpuemu.studies.sweeps.pools import Here, Pool, Processes
from gpuemu.studies.sweeps.work import REPLAY_ONLY
from gpuemu.studies.why.edits import Edit, relaid, without
from gpuemu.trace.model import Trace
from gpuemu.views.result import Result

Progress = Callable[[int, int], None]
WORTH_A_PROCESS = 200_000
"""Warp instructions of all runs together, below which they are done before a worker would have started."""
_AHEAD = 2
_ATTEMPTS = 2


@dataclass(frozen=True)
class Timed:
    """What came of an edit: the cycles without it, or why it cannot be run."""

    number: int
    cycles: int = 0
    error: str = ""


@dataclass
class Timing:
    """The job of the workers: a trace and an architecture, and edits to time them with."""

    trace: Trace
    arch: Architecture
    digest: str = ""
    _kept: OrderedDict[object, Program] = field(default_factory=OrderedDict, repr=False, compare=False)

    def run(self, tasks: list[tuple[int, Edit]]) -> tuple[list[Timed], float]:
        """Time each, one after the other."""
        started = time.perf_counter()
        return [self._timed(number, edit) for number, edit in tasks], time.perf_counter() - started

    def check_program(self) -> str:
        """What is wrong with running it here, or ""."""
        return "" if program_digest() == self.digest else "another version of gpuemu"

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

    def _timed(self, number: int, edit: Edit) -> Timed:
        try:
            return Timed(number, self.result(edit).cycles)
        except GpuemuError as error:
            return Timed(number, error=str(error.problems[0]))

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_kept": OrderedDict()}


class Runner:
    """Times edits in as many processes as are worth it; a context, at the end of which they end."""

    def __init__(self, trace: Trace, arch: Architecture, jobs: int | None, runs: int, progress: Progress | None):
        """`runs`: how many there will be, about; `jobs`: processes, by default one for each core."""
        work = runs * trace.executed_instructions
        processes = jobs or (cores() if work >= WORTH_A_PROCESS else 1)
        job = Timing(trace, arch, program_digest() if processes > 1 else "")
        self._pool: Pool = Processes(job, processes) if processes > 1 else Here(job)
        self._progress = progress or (lambda done, total: None)
        self._total = runs
        self._done = 0

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def expect(self, runs: int) -> None:
        """So many are still to come."""
        self._total = self._done + runs
        self._progress(self._done, self._total)

    def times(self, edits: Sequence[Edit]) -> list[Timed]:
        """What comes of each edit, in their order. Raises GpuemuError if workers are lost again and again."""
        waiting = list(enumerate(edits))[::-1]
        found: dict[int, Timed] = {}
        lost: dict[int, int] = {}
        out = 0
        while len(found) < len(edits):
            while waiting and out < _AHEAD * self._pool.width:
                self._pool.submit([waiting.pop()])
                out += 1
            finished = self._pool.collect()
            out -= 1
            if finished.outcomes is None:
                number, edit = finished.chunk[0]
                lost[number] = lost.get(number, 0) + 1
                if lost[number] >= _ATTEMPTS:
                    right = "a machine with room for them, or fewer --jobs, is right"
                    raise GpuemuError.one("--jobs", None, "", f"workers that are lost: {finished.lost}", right)
                waiting.append((number, edit))
                continue
            for timed in finished.outcomes:
                found[timed.number] = timed
                self._done += 1
            self._progress(self._done, self._total)
        return [found[number] for number in range(len(edits))]
