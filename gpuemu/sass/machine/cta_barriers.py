"""The barriers of a CTA: who has arrived at each, who waits there, and what their votes bring together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.lanes import Lanes


class CtaBarriers:
    """The CTA's barriers 0 to 15, and the reduction that BAR.RED makes over arriving lanes."""

    def __init__(self, lanes: Lanes):
        self._lanes = lanes
        self._waiting: dict[int, list[tuple[int, NDArray[np.bool_]]]] = {}
        self._arrived: dict[int, int] = {}
        self._votes: dict[int, NDArray[np.bool_]] = {}
        self._all_of: dict[int, bool] = {}
        self._expected: dict[int, int | None] = {}

    @property
    def idle(self) -> bool:
        """Whether nobody has arrived anywhere."""
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
        """`lanes` arrive, to go on at `pc` (None: they do not wait); `expected` threads, None for all that live.

        `votes` are brought together; `all_of`: true only if all are.
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
        """(barrier, pc, lanes, outcome) of every barrier that is complete, `alive` lanes being left.

        `outcome`: how many votes were true, and whether all were (for AND) or any was; None without votes.
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
        """(barrier, pc, lanes, lanes that have arrived) of every barrier that is not complete.

        `lanes` are the first that wait there, to go on at `pc`.
        """
        return [(barrier, *waiting[0], self._arrived.get(barrier, 0)) for barrier, waiting in self._waiting.items()]
