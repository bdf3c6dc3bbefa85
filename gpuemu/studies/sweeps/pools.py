"""Where points run: here, or in worker processes of this machine. `cluster` has the third place.

Workers are processes of their own, started with the interpreter's own command line, and not `multiprocessing`:
that would import the caller's script anew in each of them, or fork a process that may have threads.
"""

from __future__ import annotations

import pickle
import queue
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, Protocol, cast

from gpuemu.base.errors import GpuemuError

_WORKER = "import sys; sys.path[:] = {path!r}; from gpuemu.studies.sweeps.worker import serve; serve()"
_GONE = (EOFError, OSError, pickle.UnpicklingError)
"""What talking to a process that has ended raises."""
STARTS = 3
"""So often a worker is started that dies before it is ready."""
PATIENCE_S = 5
"""So long a worker may take to end when nothing more is asked of it."""


class Job(Protocol):
    """What all points share; a worker gets it once, as a pickle."""

    def run(self, tasks: list[Any]) -> tuple[list[Any], float]:
        """The outcomes of these points, or of the first few, and the seconds they took."""

    def check_program(self) -> str:
        """What is wrong with running it here, or ""."""


@dataclass(frozen=True)
class Finished:
    """A chunk that came back, and the seconds it took.

    `outcomes` are those of all its points or of the first few, None if its worker was lost; `lost` says how.
    """

    chunk: list[Any]
    outcomes: list[Any] | None
    seconds: float = 0.0
    lost: str = ""


class Pool(Protocol):
    """Runs chunks of points, several at a time."""

    @property
    def width(self) -> int:
        """How many chunks run at a time."""

    def submit(self, chunk: list[Any]) -> None:
        """Take a chunk on."""

    def collect(self) -> Finished:
        """Wait for a chunk to come back."""

    def close(self) -> None:
        """Let go of everything, at once."""


class Here:
    """Runs points in this process, when they are collected."""

    width = 1

    def __init__(self, job: Job):
        self._job = job
        self._chunks: deque[list[Any]] = deque()

    def submit(self, chunk: list[Any]) -> None:
        """Take a chunk on."""
        self._chunks.append(chunk)

    def collect(self) -> Finished:
        """Run the next chunk."""
        chunk = self._chunks.popleft()
        outcomes, seconds = self._job.run(chunk)
        return Finished(chunk, outcomes, seconds)

    def close(self) -> None:
        """Nothing is held."""


class Processes:
    """Worker processes on this machine. One that dies costs the chunk it had, and another takes its place.

    Until the first is ready, points run in this process, so that a short sweep does not wait for any.
    """

    def __init__(self, job: Job, processes: int):
        self.width = processes
        self._here = job
        self._ready = [threading.Event() for _ in range(processes)]
        self._job = pickle.dumps(job)
        self._chunks: queue.SimpleQueue[list[Any] | None] = queue.SimpleQueue()
        self._finished: queue.SimpleQueue[Finished | BaseException] = queue.SimpleQueue()
        self._closing = False
        self._workers = [_Worker() for _ in range(processes)]
        self._threads = [threading.Thread(target=self._tend, args=(n,), daemon=True) for n in range(processes)]
        for thread in self._threads:
            thread.start()

    def _may_run_here(self) -> bool:
        return not any(ready.is_set() for ready in self._ready)

    def wait_until_ready(self) -> None:
        """Wait for all workers."""
        for ready in self._ready:
            ready.wait()

    @property
    def pids(self) -> list[int]:
        """The workers' process numbers."""
        return [worker.process.pid for worker in self._workers]

    def submit(self, chunk: list[Any]) -> None:
        """Take a chunk on."""
        self._chunks.put(chunk)

    def collect(self) -> Finished:
        """Wait for a chunk to come back."""
        while True:
            if self._may_run_here():
                with suppress(queue.Empty):
                    chunk = self._chunks.get_nowait()
                    if chunk is not None:
                        return Finished(chunk, *self._here.run(chunk))
            try:
                finished = self._finished.get(timeout=1)  # so that Ctrl-C is heard on every system
            except queue.Empty:
                continue
            if isinstance(finished, BaseException):
                raise finished
            return finished

    def close(self) -> None:
        """End the workers; what they have not finished is given up."""
        self._closing = True
        for _ in self._workers:
            self._chunks.put(None)
        for worker in self._workers:
            worker.process.kill()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        for worker in self._workers:  # among them any that took another's place meanwhile
            worker.end()

    def _tend(self, number: int) -> None:
        """Feed one worker, and whoever takes its place; each thread has one."""
        try:
            worker = self._started(number)
            while (chunk := self._chunks.get()) is not None:
                try:
                    outcomes, seconds = worker.run(chunk)
                except _GONE:
                    if self._closing:
                        return
                    self._finished.put(Finished(chunk, None, lost=worker.how_it_ended()))
                    self._workers[number] = _Worker()
                    worker = self._started(number)
                    continue
                self._finished.put(Finished(chunk, outcomes, seconds))
        except BaseException as error:  # the thread that collects has to hear of it
            if not self._closing:
                self._finished.put(error)

    def _started(self, number: int) -> _Worker:
        """The worker, when it is ready; if it dies before, another."""
        for _ in range(STARTS):
            worker = self._workers[number]
            try:
                worker.begin(self._job)
            except _GONE:
                if self._closing:
                    raise
                how = worker.how_it_ended()
                self._workers[number] = _Worker()
                continue
            self._ready[number].set()
            return worker
        right = "a machine with room for --jobs workers, or fewer of them, is right"
        raise GpuemuError.one("--jobs", None, "", f"a worker that did not start: {how}", right)


class _Worker:
    """A process running `worker.serve`, and the pipes to it."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", _WORKER.format(path=[p for p in sys.path if isinstance(p, str)])]
        # In a group of its own: what Ctrl-C means is for us to say, and a terminal would tell the whole group.
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)

    @property
    def _input(self) -> IO[bytes]:
        return cast(IO[bytes], self.process.stdin)

    @property
    def _output(self) -> IO[bytes]:
        return cast(IO[bytes], self.process.stdout)

    def begin(self, job: bytes) -> None:
        """Hand it the job, and wait until it is ready. Raises GpuemuError if the program has changed meanwhile."""
        self._input.write(job)
        self._input.flush()
        wrong = pickle.load(self._output)
        if wrong:
            right = "source files that stay as they are while a sweep runs are right"
            raise GpuemuError.one("gpuemu sweep", None, "", f"a worker with {wrong}", right)

    def run(self, chunk: list[Any]) -> tuple[list[Any], float]:
        """Have it run a chunk. Raises EOFError or OSError if it is gone."""
        pickle.dump(chunk, self._input)
        self._input.flush()
        answer: tuple[list[Any], float] = pickle.load(self._output)
        return answer

    def how_it_ended(self) -> str:
        """With which signal or status; nothing more can be asked of it."""
        try:
            status = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "it no longer answered"
        finally:
            self._close()
        return f"it was ended by signal {-status}" if status < 0 else f"it ended with status {status}"

    def end(self) -> None:
        """End it, now."""
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self._close()

    def _close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
