"""Measure the work that Numba would have made many times shorter if it were installed, and advise to install it.

The time is measured where work that Numba could compile runs without it. Nested measurements count once. Time spent
waiting for workers that do such work also counts, as long as it takes in this process.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

WORTH_SAYING_SECONDS = 10.0
_SHARE = 0.9
"""Minimum fraction of that time that compiled code saves: replays and products take a tenth or less."""
_seconds = 0.0
_inside = False


def has_numba() -> bool:
    """Whether Numba is installed."""
    return find_spec("numba") is not None


@contextmanager
def unaided() -> Iterator[None]:
    """Measure work that Numba would have done faster."""
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
    """Return advice to install Numba if it would have saved over ten seconds since the last call; otherwise ""."""
    global _seconds
    saved, _seconds = _SHARE * _seconds, 0.0
    if saved <= WORTH_SAYING_SECONDS or has_numba():
        return ""
    return f"with Numba, once it has compiled, this takes about {saved:.0f} s less: pip install numba"
