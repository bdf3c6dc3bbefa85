"""Synchronization within warps: __syncwarp, and everything else that orders the lanes of one warp.

Accesses of one phase of a warp, from one synchronization to the next, are ordered by lockstep alone. Where single lanes
arrive at mbarriers or release, a __syncwarp decides what they release (see `Strands`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.warp import LANES
from gpuemu.sass.machine.lanes import ballots
from gpuemu.studies.check.racecheck.vector_clocks import Strands

Bools = NDArray[np.bool_]
_PHASES_BITS = 40
"""The bits of a phase number below the CTA's rank, so that no two CTAs of a cluster share a number."""


@dataclass
class _Phases:
    """The phases of the warps of one CTA.

    `phase`: the newest phase of any warp. `phases`: the phase of each warp; the array never changes in place.
    `naming`: the lanes that wait at a WARPSYNC for others.
    """

    phase: int
    phases: NDArray[np.int64]
    naming: Bools


class WarpSyncs:
    """The phases of a CTA's warps. `releases`: whether the kernel has arrivals or releases that one lane may make."""

    def __init__(self, strands: Strands, exists: Bools, releases: bool):
        self._strands, self._exists, self._releases = strands, exists, releases
        self.start(0)

    def start(self, rank: int) -> None:
        """A new CTA of this rank in its cluster."""
        phase = rank << _PHASES_BITS
        self.per_cta = _Phases(phase, self._all_in(phase), np.zeros_like(self._exists))

    def calm(self, rank: int) -> None:
        """A barrier for all has opened: all warps begin the first phase again."""
        self.per_cta.phase = rank << _PHASES_BITS
        self.per_cta.phases = self._all_in(self.per_cta.phase)

    def _all_in(self, phase: int) -> NDArray[np.int64]:
        return np.full(len(self._exists) // LANES, phase)

    def ordered(self, lanes: Bools) -> None:
        """Lanes have executed an instruction that orders the lanes of a warp among themselves."""
        now = self.per_cta
        now.phase += 1
        now.phases = now.phases.copy()
        now.phases[lanes.reshape(-1, LANES).any(axis=1)] = now.phase

    def meet(self, lanes: Bools) -> None:
        """Lanes have executed a __syncwarp together."""
        self.ordered(lanes)
        if self._releases and lanes.any():
            self._strands.advance(lanes, meet=True)

    def names(self, lanes: Bools, wanted: Any, alive: Bools) -> None:
        """Lanes name, as bits, the lanes of their warp with which they want to synchronize."""
        bits = np.broadcast_to(np.asarray(wanted, np.uint32), lanes.shape)
        waits = lanes & ((bits & np.repeat(ballots(alive & ~lanes), LANES)) != 0)
        self.per_cta.naming = self.per_cta.naming | waits
        self.ordered(waits)
        self.meet(lanes & ~waits)

    def met(self, lanes: Bools) -> None:
        """These lanes have waited for the others of their warp, some of them at a WARPSYNC."""
        named = lanes & self.per_cta.naming
        self.per_cta.naming = self.per_cta.naming & ~lanes
        if (lanes & ~named).any():
            self._strands.advance(lanes & ~named)
        if named.any():
            self._strands.advance(named, meet=True)
