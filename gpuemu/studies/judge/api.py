"""`gpuemu.judge`: an untrusted kernel against a reference.

judgement = gpuemu.judge("kernel.cu", "problem.py", chips=["RTX 4090", "H100"])
judgement["verdict"], judgement["reason"], judgement["times"][0]["nanoseconds"]
"""

from __future__ import annotations

import atexit
import math
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any

from gpuemu.arch.hardware import Arch, hardware
from gpuemu.base.cores import cores
from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.base.strict_yaml import path_text
from gpuemu.base.telling import tell_once
from gpuemu.studies.judge.box import LimitError
from gpuemu.studies.judge.confined import LANDLOCK, NAMESPACES
from gpuemu.studies.judge.judging import LIMIT, Task
from gpuemu.studies.judge.process import WorkerProcess

BUDGET = 20_000_000
SECONDS = 60.0
MEMORY_BYTES = 8 << 30
FORMAT = 2
"""The version of the JSON; judgement.schema.json describes it."""
_SEEDS = 1 << 53
"""The number of seeds. Each is an exact number in JSON."""

_lock = threading.Lock()
_workers: list[WorkerProcess] = []
_idle: list[WorkerProcess] = []
_ended = 0
"""How often all processes have been ended."""


def judge(
    kernel: str | os.PathLike[str],
    against: str | os.PathLike[str],
    arch: Arch | Sequence[Arch] | None = None,
    *,
    chips: str | Iterable[str] = (),
    draws: int = 3,
    seed: int | None = None,
    budget: int = BUDGET,
    seconds: float = SECONDS,
    memory_bytes: int = MEMORY_BYTES,
    options: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Judge a .cu, .cubin or .ptx file, or a Triton file with `launch(...)`; returns the JSON of judgement.schema.json.

    `against` may also be a folder of gpu-mode or a file of KernelBench; `kernel` is then a solution in their form, and
    `settings` are other values for the arguments of the tests, or for the file's constants.

    The inputs of the problem `against` are drawn `draws` times, and once more for the time. All draws come from `seed`;
    for None, the system gives a seed, which is in the judgement. A buffer of `gpuemu.empty` holds random bits. After
    each draw, on each architecture with different machine code, every argument must equal the result of
    `reference(...)`, and no tool of `gpuemu.check` may find an error. Times are emulated on each chip.

    The verdicts are: right; wrong (values); cheats (it reads a clock); faulty (a tool found an error); refused (it
    cannot be compiled or executed, or a CTA executes more than `budget` warp instructions); limit (more than `seconds`
    or `memory_bytes`, including child processes).

    The candidate's host code and its compiler run in a separate process, see docs/howto/judge.md. Raises GpuemuError
    for a problem that is wrong in itself.
    """
    task = _task(
        kernel, against, arch, chips=chips, draws=draws, seed=seed, budget=budget, memory_bytes=memory_bytes,
        options=options, settings=settings,
    )  # fmt: skip
    return _judge(_ended, task, seconds)


def _task(
    kernel: str | os.PathLike[str], against: str | os.PathLike[str], arch: Arch | Sequence[Arch] | None = None, *,
    chips: str | Iterable[str] = (), draws: int = 3, seed: int | None = None, budget: int = BUDGET,
    memory_bytes: int = MEMORY_BYTES, options: Sequence[str] = (), settings: Mapping[str, Any] | None = None,
) -> Task:  # fmt: skip
    """The work of `judge`, with the parameters of the same names. Raises GpuemuError."""
    _check("draws", draws, draws >= 1, "expected at least 1")
    _check("seed", seed, seed is None or seed >= 0, "expected a whole number of at least 0")
    files = [path_text(one, "judge()", "expected the path of a file") for one in (kernel, against)]
    drawn = secrets.randbelow(_SEEDS) if seed is None else seed
    changed = tuple(sorted((settings or {}).items()))
    return Task(files[0], files[1], hardware(arch, chips), draws, drawn, budget, memory_bytes, tuple(options), changed)


def _judge(ended: int, task: Task, seconds: float) -> dict[str, Any]:
    """The judgement. `ended`: how often all processes had ended before. If it has grown, nothing starts."""
    _check("seconds", seconds, math.isfinite(seconds) and seconds > 0, "expected a number above 0")
    try:
        worker = _taken(task.memory_bytes, ended)
        try:
            answer = worker.ask(task, seconds)
            if "spent" in answer:
                worker.end()
        except BaseException:
            worker.end()
            raise
        finally:
            _given_back(worker)
    except LimitError as error:
        return {"format": FORMAT, **task.judgement(LIMIT, str(error))}
    if "problems" in answer:
        raise GpuemuError(Problem(*one) for one in answer["problems"])
    _tell_of(answer["lacks"])
    return {"format": FORMAT, **answer["judgement"]}


def judge_many(
    kernels: Sequence[str | os.PathLike[str]], against: str | os.PathLike[str], *words: Any, jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None, each: Callable[[dict[str, Any]], None] | None = None,
    **named: Any,
) -> list[dict[str, Any]]:  # fmt: skip
    """The judgements of several kernels, in their order; `jobs` at a time, by default one per core.

    `each` receives a judgement as soon as it and those before it are there. If something ends the work, `each` receives
    those that are there. `progress` receives the finished number and the total.
    """
    tell_each, told = each or (lambda judgement: None), progress or (lambda done, total: None)
    threads = ThreadPoolExecutor(min(jobs or cores(), len(kernels)) or 1, "judge")
    futures: list[Future[dict[str, Any]]] = []
    waiting = futures
    ended, seconds = _ended, named.pop("seconds", SECONDS)
    try:
        futures += [
            threads.submit(lambda one: _judge(ended, _task(one, against, *words, **named), seconds), kernel)
            for kernel in kernels
        ]
        waiting = futures[:]
        for done, _ in enumerate(as_completed(futures), 1):
            told(done, len(kernels))
            while waiting and waiting[0].done():
                tell_each(waiting[0].result())
                waiting.pop(0)
    except BaseException:
        threads.shutdown(wait=False, cancel_futures=True)
        finished = [one for one in waiting if one.done() and not one.cancelled() and one.exception() is None]
        end_workers()
        for one in finished:
            tell_each(one.result())
        raise
    finally:
        threads.shutdown()
    return [one.result() for one in futures]


def end_workers() -> None:
    """End all judging processes and what they run."""
    global _ended
    with _lock:
        _ended += 1
        workers = _workers[:]
        _workers.clear()
        _idle.clear()
    for one in workers:
        one.end()


atexit.register(end_workers)


def _forget() -> None:
    """After a fork, in the child: the processes belong to the parent."""
    global _lock
    _lock = threading.Lock()
    _workers.clear()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _check(name: str, value: object, is_right: bool, right: str) -> None:
    if not is_right:
        raise GpuemuError.one("judge()", None, name, str(value), right)


def _taken(memory_bytes: int, ended: int) -> WorkerProcess:
    """A process that is idle; each process serves further judgements. Raises LimitError once all are ended."""
    with _lock:
        if ended != _ended:
            raise LimitError("its process ended")
        for one in _idle:
            if one.memory_bytes == memory_bytes and one.is_alive:
                _idle.remove(one)
                return one
        started = WorkerProcess(memory_bytes)
        _workers.append(started)
        return started


def _given_back(worker: WorkerProcess) -> None:
    with _lock:
        if worker.is_alive and worker in _workers:
            _idle.append(worker)
        elif worker in _workers:
            _workers.remove(worker)


def _tell_of(lacks: Sequence[str]) -> None:
    """Report once what this system lacks to confine a candidate."""
    if lacks:
        names = {NAMESPACES: "user namespaces", LANDLOCK: "Landlock"}
        tell_once(
            f"judge: this system offers no {' and no '.join(names[one] for one in lacks)}, which confine a candidate's "
            "host code. Judge files of strangers in a container (docs/howto/judge.md)."
        )
