"""How long work took that Numba would have made many times shorter, where there is no Numba, and what to say of it.

What Numba may compile is measured where it runs without; one inside another counts once. Waiting for workers that do
such work counts as they do: as long as it takes here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

WORTH_SAYING_SECONDS = 10.0
_SHARE = 0.9
"""Of that time, what compiled code saves at the least: replays and products take a tenth and less."""
_seconds = 0.0
_inside = False


def has_numba() -> bool:
    """Whether there is a Numba."""
    return find_spec("numba") is not None


@contextmanager
def unaided() -> Iterator[None]:
    """What is done within, Numba would have done sooner."""
    global _seconds, _inside
    if _inside:
        yield
        return
    started, _inside = time.perf_counter(), True
    try:
        yield
    finally:
        _seconds, _inside = _seconds + time.perf_counter() - started, False


def advice() -> str:
    """What to install if it would have saved more than ten seconds since this was last asked; else ""."""
    global _seconds
    saved, _seconds = _SHARE * _seconds, 0.0
    if saved <= WORTH_SAYING_SECONDS or has_numba():
        return ""
    return f"with Numba, once it has compiled, this takes about {saved:.0f} s less: pip install numba"
