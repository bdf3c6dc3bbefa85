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
"""Convergence barriers B0 to B15 of each warp. Two more serve WARPSYNC, and that of a collective region."""
WARPSYNC, COLLECTIVE = CONVERGENCE, CONVERGENCE + 1
_WARPSYNCS = (WARPSYNC, COLLECTIVE)
_BARRIERS = CONVERGENCE + len(_WARPSYNCS)


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
        self.participants = np.zeros((_BARRIERS, count), dtype=np.uint32)
        # The meeting that it names with that: a number for each BSSY that has been executed.
        self.meeting = np.zeros((_BARRIERS, count), dtype=np.int64)
        self.meetings = 0
        # Of barriers that functions have saved, the meetings, the innermost last: [barrier][depth, lane].
        self._saved: dict[int, NDArray[np.int64]] = {}
        self._depth = np.zeros((_BARRIERS, count), dtype=np.int64)
        # (meeting, warp) → who has left it.
        self._left: dict[tuple[int, int], int] = {}
        self._waiting_at = np.full((_BARRIERS, count), -1, dtype=np.int64)
        self.anyone_waits = False

    def _bits(self, group: Group) -> NDArray[np.uint32]:
        """For each lane the lanes of its warp that are in the group."""
        if group.bits is None:
            group.bits = np.repeat(ballots(self.alive if group.mask is None else group.mask), WARP)
        return group.bits

    def expect(self, barrier: int, group: Group) -> None:
        """BSSY: the lanes of the group will meet at `barrier`."""
        self.meetings += 1
        if group.mask is None:
            self.participants[barrier] = self._bits(group)
            self.meeting[barrier] = self.meetings
        else:
            np.copyto(self.participants[barrier], self._bits(group), where=group.mask)
            self.meeting[barrier][group.mask] = self.meetings

    def forget(self, barrier: int, mask: Mask) -> None:
        """BREAK: the lanes of `mask` will not come to `barrier`.

        That concerns the lanes that would meet them there; others of the warp may be elsewhere, in another call,
        and wait at the barrier of this number for others. Who has saved the barrier for a call is told when it comes
        back.
        """
        here = self.alive if mask is None else mask
        participants, meeting = self.participants[barrier], self.meeting[barrier]
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
        saved[depth[lanes], lanes] = self.meeting[barrier][lanes]
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
        self.meeting[barrier][lanes] = numbers
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

        Partners wait at the same barrier for the same lanes, those of a plain WARPSYNC also at the same instruction. A
        lane that waits there for others is in a deeper call, or elsewhere: it has not come. Lanes of a warp that waited
        for others are not together.
        """
        if not self.anyone_waits:
            return []
        alive = ballots(self.alive)
        found: list[tuple[int, NDArray[np.bool_]]] = []
        for barrier in range(_BARRIERS):
            waiting_at = self._waiting_at[barrier]
            lanes = np.flatnonzero(waiting_at >= 0)
            if barrier == WARPSYNC:
                for pc in np.unique(waiting_at[lanes]).tolist():
                    found += self._complete(barrier, lanes[waiting_at[lanes] == pc], alive)
            elif len(lanes):
                found += self._complete(barrier, lanes, alive)
        found += self._held_up(alive)
        self.anyone_waits = bool((self._waiting_at >= 0).any())
        return found

    def _parties(
        self, barrier: int, lanes: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32]]:
        """The parties that wait for each other, each lane's party, and which lanes of each party have come.

        A party is the warp's number above the lanes that are named.
        """
        named = lanes // WARP << 32 | self.participants[barrier][lanes]
        parties, party_of = np.unique(named, return_inverse=True)
        come = np.zeros(len(parties), dtype=np.uint32)
        np.bitwise_or.at(come, party_of, np.uint32(1) << (lanes % WARP).astype(np.uint32))
        return parties, party_of, come

    def _complete(
        self, barrier: int, lanes: NDArray[np.int64], alive: NDArray[np.uint32]
    ) -> list[tuple[int, NDArray[np.bool_]]]:
        """Those of these lanes, which wait at a barrier, whose partners have all come or gone."""
        parties, party_of, come = self._parties(barrier, lanes)
        complete = (parties.astype(np.uint32) & alive[parties >> 32] & ~come) == 0
        free, party_of = lanes[complete[party_of]], party_of[complete[party_of]]
        if not len(free):
            return []
        # The first party of each warp is one group, the second one another.
        waiting_at, found = self._waiting_at[barrier], []
        rank = np.arange(len(parties)) - np.searchsorted(parties, parties >> 32 << 32)
        for pc, number in sorted(set(zip(waiting_at[free].tolist(), rank[party_of].tolist(), strict=True))):
            group = np.zeros(self._lanes.count, dtype=np.bool_)
            group[free[(waiting_at[free] == pc) & (rank[party_of] == number)]] = True
            found.append((pc, group))
        waiting_at[free] = -1
        return found

    def _held_up(self, alive: NDArray[np.uint32]) -> list[tuple[int, NDArray[np.bool_]]]:
        """(pc, lanes) of those at a BSYNC that only wait for lanes at a WARPSYNC which names them: they go on.

        An H200 does so. Whoever waits at the WARPSYNC then does not find them at the BSYNC, and does not wait there.
        """
        at_warpsync = self._waiting_at[list(_WARPSYNCS)] >= 0
        if not at_warpsync.any():
            return []
        wanted = np.where(at_warpsync, self.participants[list(_WARPSYNCS)], np.uint32(0)).max(axis=0)
        found = []
        for barrier in range(CONVERGENCE):
            lanes = np.flatnonzero(self._waiting_at[barrier] >= 0)
            if not len(lanes):
                continue
            parties, party_of, come = self._parties(barrier, lanes)
            for k, party in enumerate(parties.tolist()):
                warp, missing = party >> 32, np.uint32(party & 0xFFFFFFFF) & alive[party >> 32] & ~come[k]
                away = warp * WARP + np.flatnonzero(missing >> np.arange(WARP, dtype=np.uint32) & 1)
                if not (wanted[away] & come[k]).all():
                    continue
                here = np.zeros(self._lanes.count, dtype=np.bool_)
                here[lanes[party_of == k]] = True
                found += [
                    (pc, here & (self._waiting_at[barrier] == pc))
                    for pc in np.unique(self._waiting_at[barrier][here]).tolist()
                ]
                self._waiting_at[barrier][here] = -1
                self.forget(barrier, here)
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
        if not self.anyone_waits:
            return []
        found = []
        for barrier in (*_WARPSYNCS, *range(CONVERGENCE)):
            waiting_at = self._waiting_at[barrier]
            found += [(pc, waiting_at == pc) for pc in np.unique(waiting_at[waiting_at >= 0]).tolist()]
        return found
