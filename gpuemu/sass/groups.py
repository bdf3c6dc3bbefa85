"""Lanes that execute together, and the places where they part and meet.

A `Group` is a set of lanes, of any warps, at one instruction. Warps in step are one group, so that one array
operation serves them all; a branch that lanes take differently splits a group. Lanes of one warp meet again only
at a convergence barrier (BSSY names the lanes, BSYNC waits for them), as on the hardware.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.lanes import WARP, Lanes, Mask

CONVERGENCE = 16
"""Convergence barriers B0 to B15 of each warp; one more serves WARPSYNC."""


def bits_of(lanes: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Bool lanes as a 32-bit mask for each warp."""
    return np.packbits(lanes.reshape(-1, WARP), axis=1, bitorder="little").view("<u4")[:, 0].astype(np.uint32)


@dataclass(eq=False)
class Group:
    """`mask`: the lanes, None for every lane of the CTA; `pc`: index of their next instruction; `who`: the
    recorder's number for the set of warps among them."""

    pc: int
    mask: Mask
    who: int


class Convergence:
    """Who waits where for whom: convergence barriers of all warps, WARPSYNC, and lanes that have exited."""

    def __init__(self, lanes: Lanes):
        self._lanes = lanes
        self.reset()

    def reset(self) -> None:
        """A new CTA: all existing lanes alive, nobody waits."""
        count = self._lanes.count
        self.alive = self._lanes.exists.copy()
        # The lanes of its warp that each lane will wait for, as of its last BSSY.
        self.participants = np.zeros((CONVERGENCE + 1, count), dtype=np.uint32)
        self._waiting_at = np.full((CONVERGENCE + 1, count), -1, dtype=np.int64)
        self._anyone_waits = False

    def expect(self, barrier: int, mask: Mask) -> None:
        """BSSY: the lanes of `mask` will meet at `barrier`."""
        here = self.alive if mask is None else mask
        bits = np.repeat(bits_of(here), WARP)
        np.copyto(self.participants[barrier], bits, where=here)

    def forget(self, barrier: int, mask: Mask) -> None:
        """BREAK: the lanes of `mask` will not come to `barrier`."""
        here = self.alive if mask is None else mask
        self.participants[barrier] &= ~np.repeat(bits_of(here), WARP)

    def passes_at_once(self, barrier: int, mask: Mask) -> bool:
        """Whether every lane of `mask` finds all its partners in `mask`: nobody has to wait."""
        here = self.alive if mask is None else mask
        present = np.repeat(bits_of(here), WARP)
        alive = np.repeat(bits_of(self.alive), WARP)
        return not bool(np.any(here & ((self.participants[barrier] & alive & ~present) != 0)))

    def wait(self, barrier: int, mask: Mask, pc: int) -> None:
        """The lanes of `mask` wait at `barrier`, to go on at `pc`."""
        here = self.alive if mask is None else mask
        self._waiting_at[barrier][here] = pc
        self._anyone_waits = True

    def leave(self, mask: Mask) -> None:
        """EXIT: the lanes of `mask` are gone."""
        if mask is None:
            self.alive[:] = False
        else:
            self.alive &= ~mask

    def released(self) -> list[tuple[int, NDArray[np.bool_]]]:
        """(pc, lanes) of everyone whose partners have all come or gone; they wait no longer."""
        if not self._anyone_waits:
            return []
        alive = np.repeat(bits_of(self.alive), WARP)
        found: list[tuple[int, NDArray[np.bool_]]] = []
        for barrier in range(CONVERGENCE + 1):
            waiting_at = self._waiting_at[barrier]
            waiting = waiting_at >= 0
            if not waiting.any():
                continue
            missing = self.participants[barrier] & alive & ~np.repeat(bits_of(waiting), WARP)
            free = waiting & (missing == 0)
            for pc in np.unique(waiting_at[free]).tolist():
                found.append((pc, free & (waiting_at == pc)))
            waiting_at[free] = -1
        self._anyone_waits = bool((self._waiting_at >= 0).any())
        return found

    def waiting_lanes(self) -> NDArray[np.bool_]:
        """Everyone who waits."""
        return np.asarray((self._waiting_at >= 0).any(axis=0))


class CtaBarriers:
    """The CTA's barriers 0 to 15, and the reduction that BAR.RED makes over arriving lanes."""

    def __init__(self, lanes: Lanes):
        self._lanes = lanes
        self.reset()

    def reset(self) -> None:
        """Nobody has arrived."""
        self._waiting_at: dict[int, NDArray[np.int64]] = {}
        self._arrived: dict[int, int] = {}
        self._votes: dict[int, NDArray[np.bool_]] = {}
        self._expected: dict[int, int | None] = {}

    def arrive(
        self,
        barrier: int,
        lanes: NDArray[np.bool_],
        pc: int | None,
        expected: int | None,
        votes: NDArray[np.bool_] | None,
    ) -> None:
        """`lanes` arrive, to go on at `pc` (None: they do not wait); `expected` threads, None for all that live."""
        self._expected[barrier] = expected
        self._arrived[barrier] = self._arrived.get(barrier, 0) + int(np.count_nonzero(lanes))
        if pc is not None:
            waiting = self._waiting_at.setdefault(barrier, np.full(self._lanes.count, -1, dtype=np.int64))
            waiting[lanes] = pc
        if votes is not None:
            kept = self._votes.setdefault(barrier, np.zeros(self._lanes.count, dtype=np.bool_))
            kept |= votes & lanes

    def opened(self, alive: int) -> list[tuple[int, NDArray[np.bool_], NDArray[np.bool_] | None, int]]:
        """(pc, lanes, votes, arrived) of every barrier that is complete, `alive` lanes being left."""
        found = []
        for barrier, arrived in list(self._arrived.items()):
            expected = self._expected[barrier]
            if arrived < (alive if expected is None else expected):
                continue
            waiting_at = self._waiting_at.pop(barrier, None)
            votes = self._votes.pop(barrier, None)
            del self._arrived[barrier]
            if waiting_at is None:
                continue
            for pc in np.unique(waiting_at[waiting_at >= 0]).tolist():
                found.append((pc, waiting_at == pc, votes, arrived))
        return found

    def waiting(self) -> list[tuple[int, NDArray[np.bool_], int]]:
        """(barrier, lanes that wait, lanes that have arrived) of every barrier that is not complete."""
        return [(b, at >= 0, self._arrived.get(b, 0)) for b, at in self._waiting_at.items()]
