"""A dask.distributed cluster: an existing one (`tcp://host:8786`), or one of N processes here (`local:N`)."""

from __future__ import annotations

import asyncio
import logging
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from gpuemu.base.errors import EXPECTED, GpuemuError
from gpuemu.base.extras import install
from gpuemu.base.interrupts import held, ready_trackers

CLUSTER = "--cluster"
RIGHT = "expected tcp://HOST:PORT of a dask scheduler, or local:N for N processes here"
WAIT_S = 30
"""The seconds for a cluster to answer, and for its first worker to join."""
_SOON_S = 0.1


def check_cluster(text: str) -> None:
    """Raise GpuemuError if the text names no cluster, or if the extra is missing."""
    if not re.fullmatch(r"local:[1-9][0-9]{0,3}|(tcp|tls|ucx|ws|wss)://\S+", text):
        raise GpuemuError.one(CLUSTER, None, "", f"'{text}'", RIGHT)
    if find_spec("distributed") is None:
        found = "dask.distributed is not installed"
        raise GpuemuError.one(CLUSTER, None, "", found, f"Install it with {install('cluster')}")


def losses() -> tuple[type[Exception], ...]:
    """The exception for work whose workers ended several times. After one loss, dask gives the work to another
    worker.
    """
    return (import_module("distributed").KilledWorker,)


@contextmanager
def client(address: str) -> Iterator[Any]:
    """A client of the cluster. Raises GpuemuError if the cluster does not answer or has no workers."""
    check_cluster(address)
    dask: Any = import_module("distributed")  # typed differently from version to version
    with ExitStack() as stack:
        stack.enter_context(_quiet())
        try:
            where = stack.enter_context(_local(dask, address)) if address.startswith("local:") else address
            found = stack.enter_context(dask.Client(where, timeout=WAIT_S, set_as_default=False))
            found.wait_for_workers(1, timeout=WAIT_S)
        except (OSError, TimeoutError) as error:
            found = f"no cluster answers at {address} ({error})"
            raise GpuemuError.one(CLUSTER, None, "", found, f"Give {RIGHT.removeprefix(EXPECTED)}") from None
        except RuntimeError as error:
            found = f"the processes of {address} did not start ({error})"
            right = 'Call sweep() below if __name__ == "__main__":'
            raise GpuemuError.one(CLUSTER, None, "", found, right) from None
        yield found


def give_up(client: Any) -> None:
    """End the workers of a local cluster, whatever they run. dask itself would wait for some seconds."""
    if client.cluster is not None:
        client.sync(lambda: _all_closed(client.cluster.workers.values()))


async def _all_closed(workers: Iterable[Any]) -> None:
    await asyncio.gather(*(one.close(timeout=_SOON_S) for one in workers), return_exceptions=True)


def submitted(client: Any, function: Callable[[bytes], Any], argument: bytes) -> Any:
    """The function's result, computed on a worker, as a future that other calls can take."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")  # A recorded trace may be large.
        return client.submit(function, argument, pure=False)


def explained(address: str) -> Callable[[Future[Any]], Future[Any]]:
    """Futures of a cluster's executor that raise GpuemuError if the cluster went away, or cannot run any."""

    own: tuple[type[Exception], ...] = (GpuemuError, *losses())

    def explain(future: Future[Any]) -> Future[Any]:
        better: Future[Any] = Future()

        def done(_: Future[Any]) -> None:
            try:
                better.set_result(future.result())
            except own as error:
                better.set_exception(error)
            except CancelledError:
                found, right = f"the cluster at {address} went away", "Repeat the command when it is back: it resumes"
                better.set_exception(GpuemuError.one(CLUSTER, None, "", found, right))
            except Exception as error:
                found = f"the cluster at {address} cannot run it: {type(error).__name__}: {error}"
                right = "Install the same version of gpuemu on every worker"
                better.set_exception(GpuemuError.one(CLUSTER, None, "", found, right))

        future.add_done_callback(done)
        return better

    return explain


@contextmanager
def _local(dask: Any, address: str) -> Iterator[Any]:
    # Dask samples its workers a hundred times per second for a page that nobody opens here.
    unwatched = import_module("dask.config").set({"distributed.worker.profile.enabled": False})
    ready_trackers()
    with ExitStack() as stack:
        with held(), unwatched:  # An interruption here finds the cluster on the stack, which closes it.
            cluster = stack.enter_context(dask.LocalCluster(
                n_workers=int(address.removeprefix("local:")), threads_per_worker=1, processes=True,
                dashboard_address=":0", silence_logs=logging.CRITICAL,
            ))  # fmt: skip
        yield cluster


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence dask's log, which reports every worker that comes and goes."""
    handlers = logging.getLogger("distributed").handlers
    levels = [handler.level for handler in handlers]
    for handler in handlers:
        handler.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for handler, level in zip(handlers, levels, strict=True):
            handler.setLevel(level)
