"""The occupancy of the SM, and how often its schedulers had a warp that could issue."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.engine.log import Log
from gpuemu.program.program import Program
from gpuemu.program.stall_reasons import NOT_SELECTED


@dataclass(frozen=True)
class SchedulerCounts:
    """Sums over all sub-cores. `cycles`: the cycles in which a sub-core has a warp.

    `active_warps` and `eligible_warps`: the warps that live and that can issue, added up over these cycles. `issued`:
    the cycles in which a warp issues. A scheduler issues whenever a warp is eligible.
    """

    cycles: int
    active_warps: int
    eligible_warps: int
    issued: int

    def per_cycle(self, count: int) -> float:
        """A count per cycle."""
        return count / self.cycles if self.cycles else 0.0


@dataclass(frozen=True)
class OccupancyCounts:
    """Warps on the SM: the SM's maximum, the warps of this launch that fit, and the warps that were there.

    `cycles`: the cycles with a warp on the SM; `active_warps`: the warps, added up over these cycles.
    """

    max_warps: int
    theoretical_warps: int
    cycles: int
    active_warps: int

    @property
    def theoretical(self) -> float:
        """The share of the SM's warps that fit."""
        return self.theoretical_warps / self.max_warps

    @property
    def achieved(self) -> float:
        """The share that was there, on average."""
        return self.achieved_warps / self.max_warps

    @property
    def achieved_warps(self) -> float:
        """Warps that were there, on average."""
        return self.active_warps / self.cycles if self.cycles else 0.0


def scheduler_counts(program: Program, log: Log) -> SchedulerCounts:
    """The counts of the schedulers."""
    cores = [log.warp_sub_core == core for core in range(int(log.warp_sub_core.max(initial=-1)) + 1)]
    issued = len(program.path)
    return SchedulerCounts(
        cycles=sum(_covered(log.warp_start[core], log.warp_end[core]) for core in cores),
        active_warps=int((log.warp_end - log.warp_start).sum()),
        eligible_warps=issued + int(log.waited[:, NOT_SELECTED].sum()),
        issued=issued,
    )


def occupancy_counts(program: Program, log: Log, arch: Architecture) -> OccupancyCounts:
    """The counts of the SM's occupancy."""
    warps = int(np.diff(program.first_warp).max(initial=0))
    return OccupancyCounts(
        max_warps=arch.sm.max_warps,
        theoretical_warps=min(arch.sm.max_warps, program.resident_ctas * warps),
        cycles=_covered(log.warp_start, log.warp_end),
        active_warps=int((log.warp_end - log.warp_start).sum()),
    )


def _covered(start: NDArray[np.int64], end: NDArray[np.int64]) -> int:
    """The number of cycles that are in at least one of the stretches from start to end."""
    if not len(start):
        return 0
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    return int((end - np.maximum(start, np.append(start[:1], end[:-1]))).clip(0).sum())
