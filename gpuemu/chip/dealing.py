"""CTAs of a grid on the places of all SMs, as places fall free."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray


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
