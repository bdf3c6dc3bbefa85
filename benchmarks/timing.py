"""What the benchmarks measure with."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds(action: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start
