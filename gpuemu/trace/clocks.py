"""The clock values of a replay, with which machine code can be executed again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_NANOSECONDS = 1000
"""Nanoseconds per cycle at 1 MHz."""


@dataclass(frozen=True)
class ClockValues:
    """The cycle of each read of the clock or of %globaltimer, counted from the launch of the first CTA.

    `cycles`: (CTA, warp) → int64 [reads], in the warp's program order. `clock_mhz` converts cycles to nanoseconds.
    """

    cycles: Mapping[tuple[int, int], NDArray[np.int64]]
    clock_mhz: int

    def nanoseconds(self, cycles: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return %globaltimer at these cycles, rounded down. The timer is 0 at the launch."""
        return np.asarray(cycles * np.uint64(_NANOSECONDS) // np.uint64(self.clock_mhz))
