"""Join the recordings of several CTAs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.recording.recorder import Rows
from gpuemu.sass.machine.scheduling.cta import Cta
from gpuemu.trace.model import WarpTrace


class Taken:
    """The recorded warps of CTAs, and the address rows that they use."""

    def __init__(self, width: int) -> None:
        nothing = np.zeros((0, width), np.int64)
        self.warps: list[WarpTrace] = []
        self.rows: list[Rows] = [(nothing, nothing.astype(np.bool_), nothing.astype(np.uint8), None)]
        self.events: list[tuple[int, ...]] = []
        self._count = 0

    def add(self, cta: Cta) -> None:
        """Append the recording of a CTA."""
        if cta.cluster is not None:
            cta.recorder.receive(cta.cluster.incoming.get(cta.rank, ()))
        warps, rows = cta.recorder.trace_parts(cta.number, self._count, len(self.events))
        self.events.extend(cta.recorder.events)
        self.warps.extend(warps)
        self.rows.append(rows)
        self._count += len(rows[0])

    def columns(self) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.uint8]]:
        """Return the addresses, active lanes and spaces of all rows."""
        a, b, c = (np.concatenate([part[column] for part in self.rows]) for column in range(3))
        return a, b, c
