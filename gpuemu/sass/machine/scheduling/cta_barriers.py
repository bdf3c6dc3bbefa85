"""The barriers of a CTA: the lanes that have arrived, the lanes that wait, and the result of their votes.

The state is in arrays, because compiled loops execute barriers, too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.opcodes import CLUSTER_BARRIER
from gpuemu.sass.compiled.columns import (
    BARRIER_ALL_OF,
    BARRIER_ARRIVED,
    BARRIER_EXPECTED,
    BARRIER_HEADS,
    BARRIER_SINCE,
    BARRIER_VOTES,
)
from gpuemu.sass.machine.lanes import Lanes


class CtaBarriers:
    """The CTA's barriers 0 to 15 and that of its cluster, and the reduction of BAR.RED over arriving lanes.

    `heads` [barrier, number]: see `compiled.columns`; arrivals are 0 at a barrier at which no lane has arrived.
    `waits_at` [barrier, lane]: where waiting lanes continue, or -1, and `came`: the number of their arrival. `votes`
    [barrier, lane]: the true votes.
    """

    def __init__(self, lanes: Lanes):
        shape = CLUSTER_BARRIER + 1, lanes.count
        self.heads = np.zeros((CLUSTER_BARRIER + 1, BARRIER_HEADS), np.int64)
        self.waits_at = np.full(shape, -1, np.int64)
        self.came = np.zeros(shape, np.int64)
        self.votes = np.zeros(shape, np.bool_)
        self.arrivals = 0
        """How often lanes have arrived at any barrier."""

    @property
    def idle(self) -> bool:
        """Whether no lane has arrived at any barrier."""
        return not self.heads[:, BARRIER_ARRIVED].any()

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
        head = self.heads[barrier]
        self.arrivals += 1
        if head[BARRIER_ARRIVED] == 0:
            head[BARRIER_SINCE] = self.arrivals
        head[BARRIER_EXPECTED] = -1 if expected is None else expected
        head[BARRIER_ARRIVED] += int(np.count_nonzero(lanes))
        if pc is not None:
            self.waits_at[barrier][lanes] = pc
            self.came[barrier][lanes] = self.arrivals
        if votes is not None:
            self.votes[barrier] |= votes & lanes
            head[BARRIER_VOTES], head[BARRIER_ALL_OF] = 1, all_of

    def opened(self, alive: int) -> list[tuple[int, int, NDArray[np.bool_], tuple[int, bool] | None]]:
        """Return (barrier, pc, lanes, outcome) of every complete barrier, with `alive` live lanes.

        `outcome`: the number of true votes, and whether all were true (for AND) or any, or None without votes.
        """
        found = []
        used = np.flatnonzero(self.heads[:, BARRIER_ARRIVED])
        for barrier in used[np.argsort(self.heads[used, BARRIER_SINCE])].tolist():
            head, waits_at = self.heads[barrier], self.waits_at[barrier]
            arrived, expected = int(head[BARRIER_ARRIVED]), int(head[BARRIER_EXPECTED])
            if arrived < (alive if expected < 0 else expected):
                continue
            outcome = None
            if head[BARRIER_VOTES]:
                count = int(np.count_nonzero(self.votes[barrier]))
                outcome = count, count == arrived if head[BARRIER_ALL_OF] else count > 0
                self.votes[barrier] = False
            head[:] = 0
            pcs = np.unique(waits_at[waits_at >= 0]).tolist()
            found += [(barrier, pc, waits_at == pc, outcome) for pc in pcs]
            waits_at[:] = -1
        return found

    def waiting(self) -> list[tuple[int, int, NDArray[np.bool_], int]]:
        """Return (barrier, pc, lanes, number of arrived lanes) of every incomplete barrier at which lanes wait.

        `lanes` are the first that wait there, and continue at `pc`. The barrier with the earliest of them comes first.
        """
        found = []
        for barrier in range(len(self.heads)):
            waits_at, came = self.waits_at[barrier], self.came[barrier]
            here = waits_at >= 0
            if here.any():
                first = int(came[here].min())
                lanes = here & (came == first)
                pc, arrived = int(waits_at[lanes][0]), int(self.heads[barrier, BARRIER_ARRIVED])
                found.append((first, (barrier, pc, lanes, arrived)))
        return [one for _, one in sorted(found, key=lambda pair: pair[0])]
