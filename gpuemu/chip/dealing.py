"""CTAs of a grid on the places of all SMs, as places fall free."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

GOLDEN = (5**0.5 - 1) / 2
"""Multiples of it, less their whole part, lie evenly between 0 and 1."""
EVEN = 0.02
"""CTAs whose instructions differ by no more than this part do the same."""


def instructions(grid: tuple[int, int, int], known: dict[int, int]) -> NDArray[np.float64]:
    """Warp instructions of each CTA from those of some: straight along the axes of the grid if these lie so, else any
    as often as it was found.
    """
    x, y, z = grid
    ctas = np.arange(x * y * z)
    numbers, values = np.array(list(known)), np.array(list(known.values()), float)
    if values.max() - values.min() <= EVEN * values.max():
        return np.full(len(ctas), values.mean())

    def axes(at: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.stack([np.ones(len(at)), at % x, at // x % y, at // (x * y)], axis=1).astype(float)

    if len(known) >= 5:
        found, *_ = np.linalg.lstsq(axes(numbers), values, rcond=None)
        off = np.abs(axes(numbers) @ found - values)
        if off.max() <= 0.05 * values.max():
            return np.asarray(np.maximum(values.min() * 0.5, axes(ctas) @ found))
    return np.asarray(np.sort(values)[(ctas * GOLDEN % 1.0 * len(values)).astype(int)])


def makespan(durations: NDArray[np.float64], places: int, gap: float) -> tuple[float, NDArray[np.int64]]:
    """When the last CTA ends that are dealt in order onto so many places, and when each begins."""
    count = len(durations)
    if count <= places:
        return float(durations.max()), np.zeros(count, np.int64)
    starts = np.zeros(count, np.int64)
    free = durations[:places].tolist()
    heapq.heapify(free)
    for cta, duration in enumerate(durations[places:].tolist(), places):
        begin = free[0] + gap
        starts[cta] = begin
        heapq.heapreplace(free, begin + duration)
    return max(free), starts
