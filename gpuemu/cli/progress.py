"""Progress on stderr: a bar for work of more than two seconds on a terminal, a line per minute elsewhere.

The computation does not know about the bar. It hands out a function that counts the finished warp instructions, and a
thread calls it ten times per second, or once per minute.

    executing  ━━━━━━━━━━━━━━━━━╸━━━━━━━━━━━━━━━━━━━━━━  3/8 CTAs  1,203,402 warp instructions  0:00:04
    replaying  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━  1,203,402 of 1,600,000 warp instructions  0:00:02
    simulating causes  ━━━━━━━━━━━━━━━━━━━━━━━╸━━━━━━━━  40/72 runs  0:00:21
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
"""Shorter work shows no bar."""
_EVERY_SECONDS = 0.1
LINE_SECONDS = 60.0
"""The time between lines where there is no terminal, such as in a CI log."""

Count = Callable[[], int]


_COMPILES = "compiling the engine, once for all runs"
_WAITS = "waiting for another process that compiles the engine"


def _observer(watch: Callable[[Count], None], compiles: Callable[[bool], None] = lambda waits: None) -> Observer:
    """Receives the function that counts issued instructions, and the news that the engine is being compiled."""
    from gpuemu.engine import Observer

    class Issues(Observer):
        def compiles(self, waits: bool) -> None:
            compiles(waits)

        def begins(self, issued: Count) -> None:
            watch(issued)

    return Issues()


class ProgressBar:
    """A context that shows the progress of a computation.

    `doing` is the word in front. The total is `ctas` to execute, reported by `count_ctas`; or `runs`, reported by
    `count_runs`; or `instructions`, the number of warp instructions if it is known.
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
        self._ctas_done = 0
        self._count: Count | None = None
        self._before = ""
        """The work that precedes counting, and when it began."""
        self._before_since = self._since = 0.0
        self._stop: Event | None = None
        self._thread: Thread | None = None

    @property
    def observer(self) -> Observer:
        """Watches a replay."""
        return _observer(self.watch, self.compiles)

    def count_runs(self, done: int, total: int) -> None:
        """Set the number of finished runs and of all runs."""
        self._ctas_done, self._runs = done, total

    def watch(self, count: Count) -> None:
        """Set the function that counts finished instructions."""
        self._count, self._before = count, ""

    def compiles(self, waits: bool) -> None:
        """Set whether another process compiles the engine, or this one."""
        self._before, self._before_since = _WAITS if waits else _COMPILES, time.monotonic()

    def count_ctas(self, done: int, total: int) -> None:
        """Set the number of finished CTAs and of all CTAs."""
        self._ctas_done, self._ctas = done, total

    def __enter__(self) -> ProgressBar:
        from threading import Event, Thread

        self._stop, self._since = Event(), time.monotonic()
        run = self._draw if self._stream.isatty() else self._write_lines
        self._thread = Thread(target=run, name="progress", daemon=True)
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

    def _write_lines(self) -> None:
        assert self._stop is not None
        while not self._stop.wait(LINE_SECONDS):
            doing, counts, _, _ = self._state()
            seconds = f"{time.monotonic() - self._since:.0f} s"
            try:
                self._stream.write(f"{doing}: {', '.join(filter(None, (counts, seconds)))}\n")
                self._stream.flush()
            except (OSError, ValueError):  # Nobody reads it any more.
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
        doing, counts, completed, total = self._state()
        bar.update(task, description=doing, counts=counts, completed=completed, total=total, refresh=True)

    def _state(self) -> tuple[str, str, int, int | None]:
        """The work, its counts in words, the finished amount and the total."""
        if self._before:
            return self._before, f"{time.monotonic() - self._before_since:.0f} s", 0, None
        if self._runs is not None:
            return self._doing, f"{self._ctas_done}/{self._runs} runs", self._ctas_done, self._runs
        done = 0 if self._count is None else self._count()
        counts = "" if self._count is None else f"{done:,} warp instructions"
        if self._instructions is not None:
            return self._doing, f"{done:,} of {self._instructions:,} warp instructions", done, self._instructions
        if self._ctas > 1:
            counts = "  ".join(filter(None, (f"{self._ctas_done}/{self._ctas} CTAs", counts)))
            return self._doing, counts, self._ctas_done, self._ctas
        return self._doing, counts, 0, None
