"""Pseudorandom numbers that are the same on every machine. This is a hash, because NumPy's generators may change."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_STEP, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def mixed(numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return 64 bits for each number, as SplitMix64 makes them from its counter."""
    z = (numbers.astype(np.uint64) + np.uint64(1)) * _STEP
    z = (z ^ z >> np.uint64(30)) * _FIRST
    z = (z ^ z >> np.uint64(27)) * _SECOND
    return z ^ z >> np.uint64(31)


def bell(numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return roughly normal numbers of mean 0 and deviation 1, each the sum of the four parts of a number's bits."""
    parts = mixed(numbers)[:, None] >> np.arange(0, 64, 16, dtype=np.uint64) & np.uint64(0xFFFF)
    return np.asarray((parts.sum(axis=1).astype(np.int64) - 2 * 0xFFFF) * np.sqrt(3.0) / 0x10000)
