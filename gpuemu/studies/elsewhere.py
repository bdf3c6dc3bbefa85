"""Run the tasks of one job in processes of this machine or on a dask cluster.

    with Workers(job, jobs=8) as workers:
        for place, outcome in workers.run(tasks):    # as they come
            ...

Both are a `concurrent.futures.Executor`: loky's, whose processes do not import the caller's script again, and dask's
own. This process works alone for the first second, so that short work waits for no process.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from gpuemu.base.cache import cache_folder
from gpuemu.base.cores import share_cores
from gpuemu.base.errors import GpuemuError
from gpuemu.base.interrupts import follow, held, ready_trackers
from gpuemu.base.telling import say_no_more, told

HERE_S = 1.0
"""The seconds in which this process works alone, before it starts others."""
CHUNK_S = 0.2
"""The duration of a chunk of tasks in seconds: long compared with the cost of sending it, short compared with the
time that a user waits, or loses by an interruption.
"""
AHEAD = 2
"""The number of chunks that a worker has, including the running one, so that it never waits for the next."""
ATTEMPTS = 3
"""The number of attempts for a task that crashes its worker."""
IDLE_S = 60
"""A process ends after this many seconds without work, in case the program that started it is gone."""


class Job(Protocol):
    """The shared part of all tasks. A worker gets it once, as a pickle."""

    def run(self, task: Any) -> Any:
        """The outcome of a task."""


@dataclass(frozen=True)
class Lost:
    """Stands for the outcome of a task whose worker crashed in every attempt."""

    def __str__(self) -> str:
        return f"its worker was lost {ATTEMPTS} times"


@lru_cache(maxsize=1)
def program_digest() -> str:
    """A hash of this version of the program, because another version may compute something else."""
    content = hashlib.sha256()
    package = Path(__file__).resolve().parents[1]
    for path in sorted(package.rglob("*.py")):
        content.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return content.hexdigest()


class Workers:
    """Runs the tasks of a job in `jobs` processes of this machine (1: in this one), or on a cluster."""

    def __init__(self, job: Job, jobs: int, cluster: str | None = None):
        self._job = job
        self._jobs = jobs
        self._cluster = cluster
        self._place: _Place | None = None
        self._seconds_each = 0.0

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        self._leave(at_once=kind is not None)

    def run(self, tasks: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """The outcome of each task, or `Lost`, with its index, in the order of completion. Raises what a task
        raises.
        """
        waiting = deque(enumerate(tasks))
        if self._cluster is None and self._place is None:
            yield from self._run_here(waiting)
        out: dict[Future[Any], list[tuple[int, Any]]] = {}
        suspects: list[tuple[int, Any]] = []
        while waiting or out:
            while waiting and not suspects and len(out) < AHEAD * self._there().width:
                chunk = self._chunk(waiting)
                try:
                    out[self._there().submit([task for _, task in chunk])] = chunk
                except self._there().losses:
                    suspects += chunk
            for future in wait(out, return_when=FIRST_COMPLETED).done:
                chunk = out.pop(future)
                try:
                    outcomes, seconds = future.result()
                except self._there().losses:
                    suspects += chunk
                    continue
                self._seconds_each = seconds / len(chunk)
                yield from zip((number for number, _ in chunk), outcomes, strict=True)
            if suspects and not out:  # One of them crashed its worker. Running each alone shows which.
                self._leave()
                for number, task in suspects:
                    yield number, self._run_alone(task)
                suspects.clear()

    def outcomes(self, tasks: Sequence[Any], done: Callable[[], None] = lambda: None) -> list[Any]:
        """The outcomes of the tasks in their order; `done` is called after each. Raises GpuemuError if one is lost."""
        found: dict[int, Any] = {}
        for number, outcome in self.run(tasks):
            if isinstance(outcome, Lost):
                right = "Use fewer --jobs, or a machine with more memory"
                raise GpuemuError.one("--jobs", None, "", f"a run failed: {outcome}", right)
            found[number] = outcome
            done()
        return [found[number] for number in range(len(tasks))]

    def _run_here(self, waiting: deque[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        started = time.perf_counter()
        done = 0
        while waiting and (self._jobs == 1 or time.perf_counter() - started < HERE_S):
            number, task = waiting.popleft()
            yield number, self._job.run(task)
            done += 1
        self._seconds_each = (time.perf_counter() - started) / max(1, done)

    def _chunk(self, waiting: deque[tuple[int, Any]]) -> list[tuple[int, Any]]:
        """The next tasks: enough for CHUNK_S seconds, or fewer if only few are left to share."""
        share = -(-len(waiting) // (AHEAD * self._there().width))
        length = min(share, max(1, round(CHUNK_S / self._seconds_each))) if self._seconds_each else 1
        return [waiting.popleft() for _ in range(length)]

    def _run_alone(self, task: Any) -> Any:
        for _ in range(ATTEMPTS):
            try:
                return self._there().submit([task]).result()[0][0]
            except self._there().losses:
                self._leave()
        return Lost()

    def _there(self) -> _Place:
        if self._place is None:
            job = pickle.dumps((program_digest(), self._job))
            self._place = _Processes(job, self._jobs) if self._cluster is None else _Dask(job, self._cluster)
        return self._place

    def _leave(self, at_once: bool = True) -> None:
        if self._place is not None:
            self._place.leave(at_once)
            self._place = None


class _Place(Protocol):
    losses: tuple[type[Exception], ...]
    """The exceptions for a lost worker."""

    @property
    def width(self) -> int:
        """The number of workers now."""

    def submit(self, tasks: list[Any]) -> Future[tuple[list[Any], float]]:
        """Submit these tasks. The future returns their outcomes and the seconds that they took."""

    def leave(self, at_once: bool) -> None:
        """Release the workers; `at_once`: abandon what they run."""


class _Processes:
    losses: tuple[type[Exception], ...] = (BrokenExecutor,)

    def __init__(self, job: bytes, jobs: int):
        from loky import ProcessPoolExecutor
        from loky.backend.resource_tracker import ensure_running

        self.width = jobs
        cache_folder()  # Report an error of the job here, not in each worker.
        ready_trackers(ensure_running)
        with held():
            begin = (job, os.getpid(), told())
            self._executor = ProcessPoolExecutor(jobs, timeout=IDLE_S, initializer=_begin, initargs=begin)

    def submit(self, tasks: list[Any]) -> Future[tuple[list[Any], float]]:
        with held():  # This starts processes, and takes locks that an interruption would leave taken.
            future: Future[tuple[list[Any], float]] = self._executor.submit(_run_begun, tasks)
        return future

    def leave(self, at_once: bool) -> None:
        with held():
            self._executor.shutdown(wait=True, kill_workers=at_once)


class _Dask:
    def __init__(self, job: bytes, address: str):
        from gpuemu.studies import dask_cluster

        self.losses = dask_cluster.losses()
        with ExitStack() as stack:
            self._client = stack.enter_context(dask_cluster.client(address))
            # The job is a task like any other, so that a worker that joins late gets it, too.
            self._job = dask_cluster.submitted(self._client, _load, job)
            self._explained, self._give_up = dask_cluster.explained(address), dask_cluster.give_up
            self._executor: Executor = self._client.get_executor(pure=False)
            self._counted_at, self._width = 0.0, 1
            self._stack = stack.pop_all()

    @property
    def width(self) -> int:
        now = time.monotonic()
        if now > self._counted_at + 1:
            self._counted_at, self._width = now, max(1, len(self._client.ncores()))
        return self._width

    def submit(self, tasks: list[Any]) -> Future[tuple[list[Any], float]]:
        return self._explained(self._executor.submit(_run_there, self._job, pickle.dumps(tasks)))

    def leave(self, at_once: bool) -> None:
        self._client.cancel([self._job], force=True)
        if at_once:
            self._give_up(self._client)
        self._stack.close()


_begun = b""
_ONE_AT_A_TIME = threading.Lock()


def _begin(job: bytes, parent: int, said: frozenset[str]) -> None:
    """In a process of this machine: keep the job, and do not repeat warnings."""
    global _begun
    follow(parent)
    say_no_more(said)
    share_cores()
    _begun = job


@lru_cache(maxsize=1)
def _load(job: bytes) -> Job:
    """On a worker: the job. Raises GpuemuError if another version of the program asks."""
    digest, loaded = pickle.loads(job)
    if digest != program_digest():
        right = "Install the same version on every worker, and leave source files unchanged"
        raise GpuemuError.one("gpuemu", None, "", "a worker has another version of gpuemu", right)
    found: Job = loaded
    return found


def _run_begun(tasks: list[Any]) -> tuple[list[Any], float]:
    return _run(_load(_begun), tasks)


def _run_there(job: Job, tasks: bytes) -> tuple[list[Any], float]:
    """Several threads of one worker of a cluster would only wait for each other, so they take turns."""
    with _ONE_AT_A_TIME:
        return _run(job, pickle.loads(tasks))  # dask would search a list for futures.


def _run(job: Job, tasks: list[Any]) -> tuple[list[Any], float]:
    started = time.perf_counter()
    outcomes = [job.run(task) for task in tasks]
    return outcomes, time.perf_counter() - started
