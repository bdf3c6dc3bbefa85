"""Loads whose value a lane may never use: a read counts when the lane uses the value. See `value_flow.later_uses`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]


@dataclass
class _Read:
    lanes: Bools
    log: Callable[[Bools], None]


class PendingReads:
    """The last read of each lane, by their loads' offsets. `uses`: the users of each load's value."""

    def __init__(self, uses: dict[int, frozenset[int]]):
        self.uses = uses
        self._loads: dict[int, list[int]] = {}
        for load, users in uses.items():
            for user in users:
                self._loads.setdefault(user, []).append(load)
        self.start()

    def start(self) -> None:
        """A new CTA."""
        self.per_cta: dict[int, list[_Read]] = {}
        """The reads of the executing CTA, by the offset of the load."""

    def hold(self, load: int, lanes: Bools, log: Callable[[Bools], None]) -> None:
        """Lanes execute a load. `log` records it for those lanes that use it."""
        reads = self.per_cta.setdefault(load, [])
        reads[:] = [read for read in reads if not (read.lanes & lanes).any()]
        reads.append(_Read(lanes, log))

    def is_use(self, offset: int) -> bool:
        """Whether an instruction uses the value of some load."""
        return offset in self._loads

    def use(self, offset: int, lanes: Bools) -> None:
        """Lanes execute an instruction that uses loaded values."""
        for load in self._loads[offset]:
            for read in self.per_cta.get(load, ()):
                here = read.lanes & lanes
                if here.any():
                    read.log(here)
