"""A process for what may take too long, or too much memory: a call in it ends in time, or is ended.

One process of each kind lives on for the next call, so that a hundred cost the start of one.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor
from concurrent.futures import TimeoutError as LateError
from typing import Any

from gpuemu.base.errors import GpuemuError

_IDLE_S = 60
_places: dict[tuple[str, int | None], Any] = {}


class LimitError(Exception):
    """A limit was reached: the text says which."""


def in_a_sandbox(
    kind: str, function: Callable[..., Any], args: Sequence[Any], seconds: float, memory_bytes: int | None = None
) -> Any:
    """What a function returns. Raises what it raises, or LimitError where it takes more than it may."""
    from loky import ProcessPoolExecutor

    key = (kind, memory_bytes)
    for attempt in range(2):
        if key not in _places:
            _places[key] = ProcessPoolExecutor(1, timeout=_IDLE_S, initializer=_begin, initargs=(memory_bytes,))
        try:
            return _places[key].submit(_run, function, tuple(args)).result(seconds)
        except LateError:
            _end(key)
            raise LimitError(f"took more than {seconds:g} s") from None
        except MemoryError:
            raise LimitError(f"took more than {memory_bytes or 0:,} bytes of memory") from None
        except BrokenExecutor:
            _end(key)
            if attempt:
                raise LimitError("its process ended") from None
    raise AssertionError


def end_sandboxes() -> None:
    """End the processes, and what runs in them."""
    for key in list(_places):
        _end(key)


def _end(key: tuple[str, int | None]) -> None:
    _places.pop(key).shutdown(wait=True, kill_workers=True)


def _begin(memory_bytes: int | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if memory_bytes is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def _run(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    try:
        return function(*args)
    except (GpuemuError, MemoryError):
        raise
    except LimitError:
        raise
    except (
        Exception,
        SystemExit,
    ) as error:  # of a file that nobody trusts: what cannot be taken to another process is a sentence
        raise GpuemuError.one(
            "judge", None, "", f"{type(error).__name__}: {error}", "code that runs is right"
        ) from None
