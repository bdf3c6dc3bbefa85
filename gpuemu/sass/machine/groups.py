"""Lanes that execute together, and the places where they part and meet.

A `Group` is a set of lanes, of any warps, at one instruction. Warps in step are one group, so that one array
operation serves them all; a branch that lanes take differently splits a group. Lanes of one warp meet again only
at a convergence barrier (BSSY names the lanes, BSYNC waits for them), as on the hardware.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.lanes import WARP, Lanes, Mask, any_lane, ballots, write

CONVERGENCE = 16
"""Convergence barriers B0 to B15 of each warp; one more serves WARPSYNC."""


@dataclass(eq=False)
class Group:
    """`mask`: the lanes, None for every lane of the CTA; `pc`: index of their next instruction; `who`: the
    recorder's number for the set of warps among them; `polls`: how often they have said that they wait;
    `gives_way`: whether others go first.

    `bits` and `absent` are Convergence's: for each lane the lanes of its warp that are here, and those that live
    and are not (None if there are none) as of some number of exits.
    """

    pc: int
    mask: Mask
    who: int
    polls: int = 0
    gives_way: bool = False
    bits: NDArray[np.uint32] | None = None
    absent: tuple[int, NDArray[np.uint32] | None] = (-1, None)


class Convergence:
    """Who waits where for whom: convergence barriers of all warps, WARPSYNC, and lanes that have exited."""

    def __init__(self, lanes: Lanes):
        self._lanes = lanes
        count = lanes.count
        self.alive = lanes.exists.copy()
        self._exits = 0
        # The lanes of its warp that each lane will wait for, as of its last BSSY.
        self.participants = np.zeros((CONVERGENCE + 1, count), dtype=np.uint32)
        # The meeting that it names with that: a number for each BSSY that has been executed.
        self._meeting = np.zeros((CONVERGENCE + 1, count), dtype=np.int64)
        self._meetings = 0
        # Of barriers that functions have saved, the meetings, the innermost last: [barrier][depth, lane].
        self._saved: dict[int, NDArray[np.int64]] = {}
        self._depth = np.zeros((CONVERGENCE + 1, count), dtype=np.int64)
        # (meeting, warp) → who has left it.
        self._left: dict[tuple[int, int], int] = {}
        self._waiting_at = np.full((CONVERGENCE + 1, count), -1, dtype=np.int64)
        self.anyone_waits = False

    def _bits(self, group: Group) -> NDArray[np.uint32]:
        """For each lane the lanes of its warp that are in the group."""
        if group.bits is None:
            group.bits = np.repeat(ballots(self.alive if group.mask is None else group.mask), WARP)
        return group.bits

    def expect(self, barrier: int, group: Group) -> None:
        """BSSY: the lanes of the group will meet at `barrier`."""
        self._meetings += 1
        if group.mask is None:
            self.participants[barrier] = self._bits(group)
            self._meeting[barrier] = self._meetings
        else:
            np.copyto(self.participants[barrier], self._bits(group), where=group.mask)
            self._meeting[barrier][group.mask] = self._meetings

    def forget(self, barrier: int, mask: Mask) -> None:
        """BREAK: the lanes of `mask` will not come to `barrier`.

        That concerns the lanes that would meet them there; others of the warp may be elsewhere, in another call,
        and wait at the barrier of this number for others. Who has saved the barrier for a call is told when it comes
        back.
        """
        here = self.alive if mask is None else mask
        participants, meeting = self.participants[barrier], self._meeting[barrier]
        for number in np.unique(meeting[here]).tolist():
            lanes = meeting == number
            bits = ballots(here & lanes)
            participants[lanes] &= ~np.repeat(bits, WARP)[lanes]
            for warp in np.flatnonzero(bits).tolist() if self._saved else ():
                self._left[number, warp] = self._left.get((number, warp), 0) | int(bits[warp])

    def save(self, barrier: int, mask: NDArray[np.bool_]) -> None:
        """BMOV: a function keeps what the lanes of `mask` wait for at `barrier`, as its callers do."""
        lanes = np.flatnonzero(mask)
        depth = self._depth[barrier]
        saved = self._saved.get(barrier, np.zeros((0, len(depth)), dtype=np.int64))
        missing = int(depth[lanes].max(initial=0)) + 1 - len(saved)
        if missing > 0:
            saved = np.concatenate([saved, np.zeros((missing + len(saved), len(depth)), dtype=np.int64)])
        saved[depth[lanes], lanes] = self._meeting[barrier][lanes]
        depth[lanes] += 1
        self._saved[barrier] = saved

    def restore(self, barrier: int, who: Any, mask: NDArray[np.bool_]) -> None:
        """BMOV: these lanes wait at `barrier` again for `who` they did, but for those that have left since."""
        write(self.participants[barrier], who, mask)
        depth = self._depth[barrier]
        lanes = np.flatnonzero(mask & (depth > 0))
        if not len(lanes):
            return
        depth[lanes] -= 1
        numbers = self._saved[barrier][depth[lanes], lanes]
        self._meeting[barrier][lanes] = numbers
        for number in np.unique(numbers).tolist():
            of_it = lanes[numbers == number]
            for warp in np.unique(of_it // WARP).tolist():
                left = self._left.get((number, warp), 0)
                self.participants[barrier][of_it[of_it // WARP == warp]] &= np.uint32(~left & 0xFFFFFFFF)

    def passes_at_once(self, barrier: int, group: Group) -> bool:
        """Whether every lane of the group finds all its partners in it: nobody has to wait."""
        exits, absent = group.absent
        if exits != self._exits:
            absent = np.repeat(ballots(self.alive), WARP) & ~self._bits(group)
            if not absent.any():
                absent = None
            group.absent = self._exits, absent
        if absent is None:
            return True
        missing = (self.participants[barrier] & absent) != 0
        return not any_lane(missing if group.mask is None else missing & group.mask)

    def wait(self, barrier: int, mask: Mask, pc: int) -> None:
        """The lanes of `mask` wait at `barrier`, to go on at `pc`."""
        here = self.alive if mask is None else mask
        self._waiting_at[barrier][here] = pc
        self.anyone_waits = True

    def leave(self, mask: Mask) -> None:
        """EXIT: the lanes of `mask` are gone."""
        self._exits += 1
        if mask is None:
            self.alive[:] = False
        else:
            self.alive &= ~mask

    def released(self) -> list[tuple[int, NDArray[np.bool_]]]:
        """(pc, lanes) of everyone whose partners have all come or gone; they wait no longer.

        Partners wait at the same barrier for the same lanes. A lane of them that waits there for others is in
        a deeper call, or elsewhere: it has not come. Lanes of a warp that waited for others are not together.
        """
        if not self.anyone_waits:
            return []
        alive = ballots(self.alive)
        found: list[tuple[int, NDArray[np.bool_]]] = []
        for barrier in range(CONVERGENCE + 1):
            waiting_at = self._waiting_at[barrier]
            lanes = np.flatnonzero(waiting_at >= 0)
            if not len(lanes):
                continue
            # A party: the warp's number above the lanes that wait for each other.
            named = lanes // WARP << 32 | self.participants[barrier][lanes]
            parties, party_of = np.unique(named, return_inverse=True)
            come = np.zeros(len(parties), dtype=np.uint32)
            np.bitwise_or.at(come, party_of, np.uint32(1) << (lanes % WARP).astype(np.uint32))
            complete = (parties.astype(np.uint32) & alive[parties >> 32] & ~come) == 0
            free, party_of = lanes[complete[party_of]], party_of[complete[party_of]]
            if not len(free):
                continue
            # The first party of each warp is one group, the second one another.
            rank = np.arange(len(parties)) - np.searchsorted(parties, parties >> 32 << 32)
            for pc, number in sorted(set(zip(waiting_at[free].tolist(), rank[party_of].tolist(), strict=True))):
                group = np.zeros(self._lanes.count, dtype=np.bool_)
                group[free[(waiting_at[free] == pc) & (rank[party_of] == number)]] = True
                found.append((pc, group))
            waiting_at[free] = -1
        self.anyone_waits = bool((self._waiting_at >= 0).any())
        return found

    def let_go(self, pcs: frozenset[int], warps: NDArray[np.bool_]) -> list[tuple[int, NDArray[np.bool_]]]:
        """(pc, lanes) of those of these warps that wait to go on at one of `pcs`; nobody waits for them any longer."""
        found = []
        for barrier, waiting_at in enumerate(self._waiting_at):
            for pc in set(waiting_at[warps & (waiting_at >= 0)].tolist()) & pcs:
                lanes = warps & (waiting_at == pc)
                waiting_at[lanes] = -1
                self.forget(barrier, lanes)
                found.append((pc, lanes))
        self.anyone_waits = bool((self._waiting_at >= 0).any())
        return found

    def waiting(self) -> list[tuple[int, NDArray[np.bool_]]]:
        """(pc, lanes) of everyone who waits: those at a WARPSYNC first, which the source asks for; pc is behind it."""
        found = []
        for barrier in (CONVERGENCE, *range(CONVERGENCE)):
            waiting_at = self._waiting_at[barrier]
            found += [(pc, waiting_at == pc) for pc in np.unique(waiting_at[waiting_at >= 0]).tolist()]
        return found


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
