"""A progress bar for what takes longer than two seconds, on a terminal.

The computation knows nothing of it: it hands out a function that tells how many warp instructions are done, and a
thread beside it asks ten times a second. Without a terminal there is no thread and nothing is asked.

    executing  ━━━━━━━━━━━━━━━━━╸━━━━━━━━━━━━━━━━━━━━━━  3/8 CTAs  1,203,402 warp instructions  0:00:04
    replaying  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━  1,203,402 of 1,600,000 warp instructions  0:00:02
    running without  ━━━━━━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━  40/72 runs  0:00:21
    compiling the engine, once for all runs  ━━━━━━━━━━  35 s
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from gpuemu.cli.terminal import own

if TYPE_CHECKING:
    from threading import Event, Thread

    from gpuemu.engine import Observer

AFTER_SECONDS = 2.0
"""What ends before needs no bar."""
_EVERY_SECONDS = 0.1

Count = Callable[[], int]


_COMPILES = "compiling the engine, once for all runs"
_WAITS = "waiting for another process that compiles the engine"


def _observer(watch: Callable[[Count], None], compiles: Callable[[bool], None] = lambda waits: None) -> Observer:
    """Hands on what tells how many instructions have issued, and that the engine is compiled first."""
    from gpuemu.engine import Observer

    class Issues(Observer):
        def compiles(self, waits: bool) -> None:
            compiles(waits)

        def begins(self, issued: Count) -> None:
            watch(issued)

    return Issues()


class ProgressBar:
    """A context in which a computation may be watched.

    `doing` is the word in front. `ctas`: how many there are to execute, of which `count_ctas` tells how many are
    done; or `runs`, told by `count_runs`; or `instructions`: how many warp instructions there are in all, if that is
    known.
    """

    def __init__(
        self,
        doing: str,
        *,
        ctas: int = 1,
        runs: int | None = None,
        instructions: int | None = None,
        stream: TextIO | None = None,
    ):
        self._doing = doing
        self._ctas = ctas
        self._runs = runs
        self._instructions = instructions
        self._stream = own(sys.stderr) if stream is None else stream
        self._shown = self._stream.isatty()
        self._ctas_done = 0
        self._count: Count | None = None
        self._before = ""
        """What is done before anything can be counted, and since when."""
        self._before_since = 0.0
        self._stop: Event | None = None
        self._thread: Thread | None = None

    @property
    def watch(self) -> Callable[[Count], None] | None:
        """Takes the function that tells how many instructions are done; None if nobody will see it."""
        return self._watch if self._shown else None

    @property
    def observer(self) -> Observer | None:
        """Watches a replay; None if nobody will see it."""
        return _observer(self._watch, self._take_compiling) if self._shown else None

    @property
    def compiles(self) -> Callable[[bool], None] | None:
        """Takes whether another process compiles the engine, or this one; None if nobody will see it."""
        return self._take_compiling if self._shown else None

    @property
    def count_ctas(self) -> Callable[[int, int], None] | None:
        """Takes the number of CTAs done and that of all; None if nobody will see it."""
        return self._take_ctas if self._shown else None

    @property
    def count_runs(self) -> Callable[[int, int], None] | None:
        """Takes the number of runs done and that of all; None if nobody will see it."""
        return self._take_runs if self._shown else None

    def _take_runs(self, done: int, total: int) -> None:
        self._ctas_done, self._runs = done, total

    def _watch(self, count: Count) -> None:
        self._count, self._before = count, ""

    def _take_compiling(self, waits: bool) -> None:
        self._before, self._before_since = _WAITS if waits else _COMPILES, time.monotonic()

    def _take_ctas(self, done: int, total: int) -> None:
        self._ctas_done, self._ctas = done, total

    def __enter__(self) -> ProgressBar:
        if self._shown:
            from threading import Event, Thread

            self._stop = Event()
            self._thread = Thread(target=self._draw, name="progress bar", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._thread is not None and self._stop is not None:
            self._stop.set()
            self._thread.join()

    def _draw(self) -> None:
        assert self._stop is not None
        if self._stop.wait(AFTER_SECONDS):
            return
        bar = self._bar()
        with bar:
            (task,) = bar.task_ids
            while True:
                self._update(bar, task)
                if self._stop.wait(_EVERY_SECONDS):
                    return

    def _bar(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        known = self._instructions is not None or self._ctas > 1 or self._runs is not None
        bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[counts]}"),
            TimeRemainingColumn() if known else TimeElapsedColumn(),
            console=Console(file=self._stream), transient=True, auto_refresh=False,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        total = self._instructions if self._instructions is not None else self._ctas if self._ctas > 1 else self._runs
        bar.add_task(self._doing, total=total, counts="")
        return bar

    def _update(self, bar: Any, task: Any) -> None:
        done = 0 if self._count is None else self._count()
        counts = "" if self._count is None else f"{done:,} warp instructions"
        completed, total = 0, self._instructions
        if self._before:
            seconds = f"{time.monotonic() - self._before_since:.0f} s"
            bar.update(task, description=self._before, counts=seconds, refresh=True)
            return
        if self._runs is not None:
            bar.update(task, total=self._runs, completed=self._ctas_done, counts=f"{self._ctas_done}/{self._runs} runs",
                       refresh=True)  # fmt: skip
            return
        if self._instructions is not None:
            completed, counts = done, f"{done:,} of {self._instructions:,} warp instructions"
        elif self._ctas > 1:
            completed, total = self._ctas_done, self._ctas
            counts = f"{self._ctas_done}/{self._ctas} CTAs  {counts}"
        bar.update(
            task, description=self._doing, total=total, completed=completed, counts=counts, refresh=True
        )  # fmt: skip
