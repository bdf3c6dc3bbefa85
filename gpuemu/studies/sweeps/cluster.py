"""Points on a dask.distributed cluster: one that is there (`tcp://host:8786`), or one of N processes (`local:N`).

A worker that is lost costs time alone: the scheduler hands its chunk to another. The job is a task like any other,
so that a worker that joins late, or in the place of one that is gone, gets it.
"""

from __future__ import annotations

import logging
import math
import pickle
import re
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from gpuemu.base.errors import GpuemuError
from gpuemu.studies.sweeps.pools import Finished
from gpuemu.studies.sweeps.work import Job, Outcome, Task

CLUSTER = "--cluster"
RIGHT = "tcp://HOST:PORT, the address of a dask scheduler, or local:N for N processes here, is right"
WAIT_S = 30
"""So long a cluster may take to answer, and its first worker to join."""
_ONE_AT_A_TIME = threading.Lock()


def check_cluster(text: str) -> None:
    """Raise GpuemuError if it is no cluster, or the extra for it is missing."""
    if not re.fullmatch(r"local:[1-9][0-9]{0,3}|(tcp|tls|ucx|ws|wss)://\S+", text):
        raise GpuemuError.one(CLUSTER, None, "", f"'{text}'", RIGHT)
    if find_spec("distributed") is None:
        found = "no dask.distributed here"
        raise GpuemuError.one(CLUSTER, None, "", found, 'pip install "gpuemu-sm[cluster]" is right')


def load(job: bytes) -> Job:
    """On a worker: the job. Raises GpuemuError if another version of gpuemu planned it."""
    loaded: Job = pickle.loads(job)
    wrong = loaded.check_program()
    if wrong:
        right = "the same version on every worker as here is right"
        raise GpuemuError.one(CLUSTER, None, "", f"a worker with {wrong}", right)
    return loaded


def run(job: Job, chunk: bytes) -> bytes:
    """On a worker: a chunk. Several threads of one worker would only wait for each other, so they take turns.

    A pickle of tasks, and one of outcomes and seconds: dask would look into lists, for futures in them.
    """
    with _ONE_AT_A_TIME:
        return pickle.dumps(job.run(pickle.loads(chunk)))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the log of dask, which tells of every worker that comes and goes."""
    handlers = logging.getLogger("distributed").handlers
    levels = [handler.level for handler in handlers]
    for handler in handlers:
        handler.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for handler, level in zip(handlers, levels, strict=True):
            handler.setLevel(level)


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes that start meanwhile do not hear Ctrl-C: it reaches all of a terminal, and is for us to answer."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Cluster:
    """Runs chunks on a cluster. Raises GpuemuError if it does not answer or has no workers."""

    def __init__(self, address: str, job: Job):
        check_cluster(address)
        self._dask: Any = import_module("distributed")  # typed differently from version to version
        self._address = address
        self._stack = ExitStack()
        self._stack.enter_context(_quiet())
        try:
            where = address
            if address.startswith("local:"):
                # Dask looks at its workers a hundred times a second, for a page that nobody opens here.
                unwatched = import_module("dask.config").set({"distributed.worker.profile.enabled": False})
                with _deaf_children(), unwatched:
                    local = self._dask.LocalCluster(
                        n_workers=int(address.removeprefix("local:")), threads_per_worker=1, processes=True,
                        dashboard_address=":0", silence_logs=logging.CRITICAL,
                    )  # fmt: skip
                where = self._stack.enter_context(local).scheduler_address
            client = self._dask.Client(where, timeout=WAIT_S, set_as_default=False)
            self._client = self._stack.enter_context(client)
            self._client.wait_for_workers(1, timeout=WAIT_S)
        except (OSError, TimeoutError) as error:
            self._stack.close()
            found = f"no cluster that answers at {address} ({error})"
            raise GpuemuError.one(CLUSTER, None, "", found, RIGHT) from None
        except RuntimeError as error:
            self._stack.close()
            found = f"processes of {address} that did not start ({error})"
            right = 'a script that calls sweep() below if __name__ == "__main__": is right'
            raise GpuemuError.one(CLUSTER, None, "", found, right) from None
        except BaseException:
            self._stack.close()
            raise
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")  # a recorded trace may well be
            self._job = self._client.submit(load, pickle.dumps(job), pure=False)
        self._workers, self._counted_at = 1, -math.inf
        self._chunks: dict[str, list[Task]] = {}
        self._results = self._dask.as_completed(loop=self._client.loop, with_results=True, raise_errors=False)
        self._next: Iterator[Any] = iter(self._results)

    @property
    def width(self) -> int:
        """Workers that are there now, as of a second ago."""
        now = time.monotonic()
        if now > self._counted_at + 1:
            self._workers, self._counted_at = max(1, len(self._client.ncores())), now
        return self._workers

    def submit(self, chunk: list[Task]) -> None:
        """Take a chunk on."""
        future = self._client.submit(run, self._job, pickle.dumps(chunk), pure=False)
        self._chunks[future.key] = chunk
        self._results.add(future)

    def collect(self) -> Finished:
        """Wait for a chunk to come back. Raises GpuemuError if the cluster went away, or cannot run any."""
        future, result = next(self._next)
        chunk = self._chunks.pop(future.key)
        if future.status == "finished":
            outcomes: list[Outcome]
            outcomes, seconds = pickle.loads(result)
            return Finished(chunk, outcomes, seconds)
        error = future.exception() if future.status == "error" else None
        if isinstance(error, self._dask.KilledWorker):
            return Finished(chunk, None, lost="the cluster's workers that had it ended")
        if isinstance(error, GpuemuError):
            raise error
        if error is None:
            found, right = f"a cluster at {self._address} that went away", "the same command goes on when it is back"
        else:
            found = f"a cluster at {self._address} that cannot run it: {type(error).__name__}: {error}"
            right = "gpuemu-sm, the same version as here, on every worker is right"
        raise GpuemuError.one(CLUSTER, None, "", found, right)

    def close(self) -> None:
        """Give up what runs, and let go of the cluster; end it, if it was started here."""
        self._client.cancel([self._job], force=True)
        self._stack.close()
