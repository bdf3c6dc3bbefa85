"""The barriers of a CTA: the lanes that have arrived, the lanes that wait, and the result of their votes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.lanes import Lanes


class CtaBarriers:
    """The CTA's barriers 0 to 15, and the reduction of BAR.RED over arriving lanes."""

    def __init__(self, lanes: Lanes):
        self._lanes = lanes
        self._waiting: dict[int, list[tuple[int, NDArray[np.bool_]]]] = {}
        self._arrived: dict[int, int] = {}
        self._votes: dict[int, NDArray[np.bool_]] = {}
        self._all_of: dict[int, bool] = {}
        self._expected: dict[int, int | None] = {}

    @property
    def idle(self) -> bool:
        """Whether no lane has arrived at any barrier."""
        return not self._arrived

    def arrive(
        self,
        barrier: int,
        lanes: NDArray[np.bool_],
        pc: int | None,
        expected: int | None,
        votes: NDArray[np.bool_] | None,
        all_of: bool = False,
    ) -> None:
        """`lanes` arrive, and continue at `pc` (do not wait if None). `expected` threads, None for all live ones.

        `votes` are combined. With `all_of`, the result is true only if all votes are.
        """
        self._expected[barrier] = expected
        self._arrived[barrier] = self._arrived.get(barrier, 0) + int(np.count_nonzero(lanes))
        if pc is not None:
            self._waiting.setdefault(barrier, []).append((pc, lanes))
        if votes is not None:
            kept = self._votes.setdefault(barrier, np.zeros(self._lanes.count, dtype=np.bool_))
            kept |= votes & lanes
            self._all_of[barrier] = all_of

    def opened(self, alive: int) -> list[tuple[int, int, NDArray[np.bool_], tuple[int, bool] | None]]:
        """Return (barrier, pc, lanes, outcome) of every complete barrier, with `alive` live lanes.

        `outcome`: the number of true votes, and whether all were true (for AND) or any, or None without votes.
        """
        found = []
        for barrier, arrived in list(self._arrived.items()):
            expected = self._expected[barrier]
            if arrived < (alive if expected is None else expected):
                continue
            votes = self._votes.pop(barrier, None)
            del self._arrived[barrier]
            together: dict[int, NDArray[np.bool_]] = {}
            for pc, lanes in self._waiting.pop(barrier, []):
                together[pc] = together[pc] | lanes if pc in together else lanes
            outcome = None
            if votes is not None:
                count = int(np.count_nonzero(votes))
                outcome = count, count == arrived if self._all_of[barrier] else count > 0
            found += [(barrier, pc, together[pc], outcome) for pc in sorted(together)]
        return found

    def waiting(self) -> list[tuple[int, int, NDArray[np.bool_], int]]:
        """Return (barrier, pc, lanes, number of arrived lanes) of every incomplete barrier.

        `lanes` are the first that wait there, and continue at `pc`.
        """
        return [(barrier, *waiting[0], self._arrived.get(barrier, 0)) for barrier, waiting in self._waiting.items()]
