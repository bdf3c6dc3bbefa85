"""Lanes that execute together, and the places where they split and meet.

A `Group` is a set of lanes, of any warps, at one instruction. Warps in step form one group, so that one array operation
serves them all. A divergent branch splits a group. Lanes of one warp meet again only at a convergence barrier (BSSY
names the lanes, and BSYNC waits for them), as on the hardware.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.compiled.columns import COLLECTIVE, CONVERGENCE_BARRIERS, WARPSYNC
from gpuemu.sass.machine.lanes import WARP, Lanes, Mask, any_lane, ballots, write

CONVERGENCE = WARPSYNC
"""Convergence barriers B0 to B15 of each warp. Two more serve WARPSYNC and collective regions."""
_WARPSYNCS = (WARPSYNC, COLLECTIVE)
TWO_MEETINGS = 10.0
"""The compute capability from which on BSYNC says whether all lanes must arrive."""


@dataclass(eq=False)
class Group:
    """A set of lanes that execute together.

    `mask`: the lanes, None for every lane of the CTA. `pc`: index of their next instruction. `who`: the recorder's
    number of their set of warps. `polls`: how often they have signaled that they wait. `gives_way`: whether others go
    first. `bits` and `absent` belong to Convergence. For each lane, `bits` are the lanes of its warp in the group.
    `absent` are the live ones outside it (None if there are none), as of a number of exits.
    """

    pc: int
    mask: Mask
    who: int
    polls: int = 0
    gives_way: bool = False
    bits: NDArray[np.uint32] | None = None
    absent: tuple[int, NDArray[np.uint32] | None] = (-1, None)


GOES_ON, OVER, ALL_WAIT, CLUSTER_WAITS = range(4)
"""The state of a turn. It goes on later, it is over, or all lanes of the CTA wait: for any CTA, or for its cluster."""


@dataclass(eq=False)
class Turn:
    """A group that executes up to an instruction or for a number of steps.

    `limit`: the instruction at which it gives way. `most`: its steps at the most. `warps`: its warps. `done`: its steps
    so far.
    """

    group: Group
    limit: int
    most: int
    warps: int
    done: int = 0


class Convergence:
    """Waits among lanes: convergence barriers of all warps, WARPSYNC, and lanes that have exited."""

    def __init__(self, lanes: Lanes):
        self._lanes = lanes
        count = lanes.count
        self.alive = lanes.exists.copy()
        self._exits = 0
        # The lanes of its warp that each lane will wait for, as of its last BSSY.
        self.participants = np.zeros((CONVERGENCE_BARRIERS, count), dtype=np.uint32)
        # The meeting that belongs to them: a number for each executed BSSY.
        self.meeting = np.zeros((CONVERGENCE_BARRIERS, count), dtype=np.int64)
        self.meetings = 0
        # The meetings of barriers that functions have saved, the innermost last: [barrier][depth, lane].
        self._saved: dict[int, NDArray[np.int64]] = {}
        self._depth = np.zeros((CONVERGENCE_BARRIERS, count), dtype=np.int64)
        # (meeting, warp) → the lanes that have left it.
        self._left: dict[tuple[int, int], int] = {}
        self.waiting_at = np.full((CONVERGENCE_BARRIERS, count), -1, dtype=np.int64)
        self.anyone_waits = False

    @property
    def saves(self) -> bool:
        """Whether functions have saved barriers of their callers."""
        return bool(self._saved)

    def take_over(self, meetings: int, anyone_waits: bool) -> None:
        """Compiled loops have changed the arrays: so many meetings there are, and whether any lane waits."""
        self.meetings, self.anyone_waits = meetings, anyone_waits
        self._exits += 1

    def _bits(self, group: Group) -> NDArray[np.uint32]:
        """Return for each lane the lanes of its warp that are in the group."""
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
        """BREAK: the lanes of `mask` will not arrive at `barrier`.

        This concerns only the lanes that would meet them there. Other lanes of the warp may be in another call, where
        the barrier of the same number belongs to a different group. Lanes that have saved the barrier for a call
        receive the change when they restore it.
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
        """BMOV: a function saves the lanes that the lanes of `mask` wait for at `barrier`, as its callers do."""
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
        """BMOV: the lanes of `mask` wait at `barrier` for `who` again, without those that have left since."""
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
        """Whether every lane of the group has all its partners in it, so that no lane has to wait."""
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
        """The lanes of `mask` wait at `barrier`, and continue at `pc`."""
        here = self.alive if mask is None else mask
        self.waiting_at[barrier][here] = pc
        self.anyone_waits = True

    def leave(self, mask: Mask) -> None:
        """EXIT: the lanes of `mask` have exited."""
        self._exits += 1
        if mask is None:
            self.alive[:] = False
        else:
            self.alive &= ~mask

    def released(self) -> list[tuple[int, NDArray[np.bool_]]]:
        """Return (pc, lanes) of all lanes whose partners have arrived or exited, and end their waits.

        Partners wait at the same barrier for the same lanes; those of a plain WARPSYNC also wait at the same
        instruction. A lane that waits there for other lanes is in a deeper call, or elsewhere, and has not arrived.
        Lanes of a warp that waited for different lanes do not form one group.
        """
        if not self.anyone_waits:
            return []
        alive = ballots(self.alive)
        found: list[tuple[int, NDArray[np.bool_]]] = []
        for barrier in range(CONVERGENCE_BARRIERS):
            waiting_at = self.waiting_at[barrier]
            lanes = np.flatnonzero(waiting_at >= 0)
            if barrier == WARPSYNC:
                for pc in np.unique(waiting_at[lanes]).tolist():
                    found += self._complete(barrier, lanes[waiting_at[lanes] == pc], alive)
            elif len(lanes):
                found += self._complete(barrier, lanes, alive)
        found += self._held_up(alive)
        self.anyone_waits = bool((self.waiting_at >= 0).any())
        return found

    def _parties(
        self, barrier: int, lanes: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32]]:
        """Return the parties that wait for each other, each lane's party, and the arrived lanes of each party.

        A party is the warp's number in the upper bits and the named lanes in the lower ones.
        """
        named = lanes // WARP << 32 | self.participants[barrier][lanes]
        parties, party_of = np.unique(named, return_inverse=True)
        come = np.zeros(len(parties), dtype=np.uint32)
        np.bitwise_or.at(come, party_of, np.uint32(1) << (lanes % WARP).astype(np.uint32))
        return parties, party_of, come

    def _complete(
        self, barrier: int, lanes: NDArray[np.int64], alive: NDArray[np.uint32]
    ) -> list[tuple[int, NDArray[np.bool_]]]:
        """Return the lanes, of these that wait at a barrier, whose partners have all arrived or exited."""
        parties, party_of, come = self._parties(barrier, lanes)
        complete = (parties.astype(np.uint32) & alive[parties >> 32] & ~come) == 0
        free, party_of = lanes[complete[party_of]], party_of[complete[party_of]]
        if not len(free):
            return []
        # The first parties of all warps form one group, the second parties another.
        waiting_at, found = self.waiting_at[barrier], []
        rank = np.arange(len(parties)) - np.searchsorted(parties, parties >> 32 << 32)
        for pc, number in sorted(set(zip(waiting_at[free].tolist(), rank[party_of].tolist(), strict=True))):
            group = np.zeros(self._lanes.count, dtype=np.bool_)
            group[free[(waiting_at[free] == pc) & (rank[party_of] == number)]] = True
            found.append((pc, group))
        waiting_at[free] = -1
        return found

    def _held_up(self, alive: NDArray[np.uint32]) -> list[tuple[int, NDArray[np.bool_]]]:
        """Release lanes at a BSYNC that only wait for lanes at a WARPSYNC that names them; return (pc, lanes).

        An H200 does this. The lanes at the WARPSYNC then do not find them at the BSYNC, and do not wait there.
        """
        at_warpsync = self.waiting_at[list(_WARPSYNCS)] >= 0
        if not at_warpsync.any():
            return []
        wanted = np.where(at_warpsync, self.participants[list(_WARPSYNCS)], np.uint32(0)).max(axis=0)
        found = []
        for barrier in range(CONVERGENCE):
            lanes = np.flatnonzero(self.waiting_at[barrier] >= 0)
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
                    (pc, here & (self.waiting_at[barrier] == pc))
                    for pc in np.unique(self.waiting_at[barrier][here]).tolist()
                ]
                self.waiting_at[barrier][here] = -1
                self.forget(barrier, here)
        return found

    def let_go(self, pcs: frozenset[int], warps: NDArray[np.bool_]) -> list[tuple[int, NDArray[np.bool_]]]:
        """Release lanes of these warps that wait to continue at `pcs`, and let none await them; return (pc, lanes)."""
        found = []
        for barrier, waiting_at in enumerate(self.waiting_at):
            for pc in set(waiting_at[warps & (waiting_at >= 0)].tolist()) & pcs:
                lanes = warps & (waiting_at == pc)
                waiting_at[lanes] = -1
                self.forget(barrier, lanes)
                found.append((pc, lanes))
        self.anyone_waits = bool((self.waiting_at >= 0).any())
        return found

    def waiting(self) -> list[tuple[int, NDArray[np.bool_]]]:
        """Return (pc, lanes) of all waits, those at a WARPSYNC first, because it is in the source; pc is after it."""
        if not self.anyone_waits:
            return []
        found = []
        for barrier in (*_WARPSYNCS, *range(CONVERGENCE)):
            waiting_at = self.waiting_at[barrier]
            found += [(pc, waiting_at == pc) for pc in np.unique(waiting_at[waiting_at >= 0]).tolist()]
        return found
