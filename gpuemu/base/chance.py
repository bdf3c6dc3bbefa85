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
