"""Numbers as if by chance, the same on every machine: a hash, where NumPy's generators may change their streams."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_STEP, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def mixed(numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """64 bits for each number, as SplitMix64 makes them of its counter."""
    z = (numbers.astype(np.uint64) + np.uint64(1)) * _STEP
    z = (z ^ z >> np.uint64(30)) * _FIRST
    z = (z ^ z >> np.uint64(27)) * _SECOND
    return z ^ z >> np.uint64(31)


def bell(numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """For each number one of mean 0 and deviation 1, about normal: the sum of the four parts of its bits."""
    parts = mixed(numbers)[:, None] >> np.arange(0, 64, 16, dtype=np.uint64) & np.uint64(0xFFFF)
    return np.asarray((parts.sum(axis=1).astype(np.int64) - 2 * 0xFFFF) * np.sqrt(3.0) / 0x10000)
