"""The cores that this process may use, which the system or `taskset` may limit."""

from __future__ import annotations

import os

_shares = False


def share_cores() -> None:
    """From now on use one core, because other processes of the same job use the others."""
    global _shares
    _shares = True


def cores() -> int:
    """The number of cores that this process may use."""
    if _shares:
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
