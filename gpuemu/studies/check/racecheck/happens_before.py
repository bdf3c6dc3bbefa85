"""Happens-before within a cluster: named barriers, cluster barriers, asynchronous copies and mbarriers order strands.

An asynchronous copy is a strand besides those of the lanes. A commit closes its group. Lanes that wait for the group
follow it; until then the copy is pending, also across barriers. A phase of an mbarrier follows all strands that arrived
in it, and a lane that finds the phase over follows the phase.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.warp import LANES
from gpuemu.studies.check.racecheck.vector_clocks import Strands
from gpuemu.trace.model import Instruction

WARPGROUP = 4
"""The warps of a warpgroup. They share the groups of their products, which are done for each warp that waits."""

Bools = NDArray[np.bool_]
Missed = Callable[[int, Instruction, int, int], None]


def is_barrier_object(instruction: Instruction) -> bool:
    """Whether an instruction belongs to mbarriers."""
    is_arrival = instruction.mnemonic == "ATOMS" and instruction.has("ARRIVE")
    return instruction.mnemonic in ("SYNCS", "ARRIVES") or is_arrival


def is_released(instruction: Instruction) -> bool:
    """Whether single lanes execute an instruction that signals other threads through an mbarrier."""
    return is_barrier_object(instruction) or instruction.mnemonic in ("STAS", "UBLKCP", "UTMALDG")


def kept_groups(wait: Instruction) -> int | None:
    """The number of closed groups for which a DEPBAR does not wait; None if it waits for other instructions."""
    match = re.fullmatch(r"SB\d(?:,(0x[0-9a-f]+))?", ",".join(wait.operands))
    return None if match is None else int(match[1] or "0", 16)


@dataclass
class _Groups:
    """The copies of a warp: those of the open group by the strand that issued them, and closed groups in order.

    The warp has `waited` for this many groups, and `gone` of them are no longer in the list.
    """

    open: dict[int, int] = field(default_factory=dict)
    closed: list[list[int]] = field(default_factory=list)
    waited: int = 0
    gone: int = 0


@dataclass
class _Phases:
    """An mbarrier: the arrivals since its last phase, the strand after its ended phases, and its parity.

    `came`: the strands of the lanes and copies that have arrived; `ended`, `before`: those of the last phase that has
    ended, and of the one before it, None where there is none. `looks`: the strands of lanes that have found the last
    phase over, each with the instruction, a lane and the rank of its CTA.
    """

    arrived: list[int] = field(default_factory=list)
    came: list[int] = field(default_factory=list)
    ended: list[int] | None = None
    before: list[int] | None = None
    looks: dict[int, tuple[Instruction, int, int]] = field(default_factory=dict)
    over: int | None = None
    over_copies: list[int] = field(default_factory=list)
    parity: int = 0


@dataclass
class _Chain:
    """Products that one tensor core executes in order: their strands, and the strand of the lane that sent the last.

    After a commit, `behind` is None: a product that follows is in another strand.
    """

    strands: list[int] = field(default_factory=list)
    behind: int | None = None


@dataclass
class _OfCta:
    """The pending synchronization of one CTA.

    `copies`: the groups of copies of each kind and warp. `named`: the strands that have arrived at each barrier.
    `opened`: the strand after the last phase of each barrier that some threads wait at. `rounds`: the number of times
    that each lane has reached the cluster's barrier.
    """

    rounds: NDArray[np.int64]
    copies: dict[tuple[str, int], _Groups] = field(default_factory=dict)
    named: dict[int, list[int]] = field(default_factory=dict)
    opened: dict[int, int] = field(default_factory=dict)


@dataclass
class _OfCluster:
    """The shared state of a cluster's CTAs.

    `pending`: the strands of copies that nobody has waited for. `phases`: the mbarriers, by their bytes in the shared
    memory of all CTAs. `meetings`: the strands that have reached the cluster's barrier, by the number of the round.
    `chains`: the products in tensor memory of each tensor core, by its number.
    """

    pending: set[int] = field(default_factory=set)
    phases: dict[int, _Phases] = field(default_factory=dict)
    meetings: dict[int, list[int]] = field(default_factory=dict)
    chains: dict[int, _Chain] = field(default_factory=dict)


class HappensBefore:
    """Orders the strands of a CTA.

    `missed` is called for waits that may miss a phase: the barrier, the look, a lane and the rank of its CTA.
    """

    def __init__(self, strands: Strands, missed: Missed | None = None):
        self.strands = strands
        self._missed = missed
        self._arrived_at: set[int] = set()
        self.begin()
        self.start()

    def begin(self) -> None:
        """A new cluster, or a CTA without one."""
        self.per_cluster = _OfCluster()

    def start(self) -> None:
        """A new CTA."""
        self.per_cta = _OfCta(np.zeros(len(self.strands.per_cluster.of_lane), np.int64))

    @property
    def pending(self) -> set[int]:
        """The strands of copies that nobody has waited for."""
        return self.per_cluster.pending

    # -- barriers of the CTA ----------------------------------------------------------------------------------

    def arrive(self, barrier: int, lanes: Bools, waits: bool) -> None:
        self.per_cta.named.setdefault(barrier, []).extend(self.strands.of(lanes))
        if not waits:
            self.strands.advance(lanes)

    def too_early(self, barrier: int, lanes: Bools) -> int | None:
        """The first of lanes that reach a barrier and may do so in its last phase, as they do not follow that one."""
        over = self.per_cta.opened.get(barrier)
        if over is None:
            return None
        early = [s for s in self.strands.of(lanes) if not self.strands.follows(over, s)]
        return self._lane(lanes, early[0]) if early else None

    def open(self, barrier: int, waiting: Bools, alive: Bools) -> dict[int, int] | None:
        """A barrier opens. If all lanes waited, returns the pending copies by their old and new strands."""
        arrived = self.per_cta.named.pop(barrier, [])
        if (waiting >= alive).all() and not self.strands.per_cluster.others:
            return self._everyone()
        together = self.per_cta.opened[barrier] = self.strands.side(sorted(set(arrived)))
        self.strands.advance(waiting, [together])
        return None

    def _everyone(self) -> dict[int, int]:
        strands = self.strands
        self.per_cta.named = {number: [] for number in self.per_cta.named}
        strands.everyone()
        chains = self.per_cluster.chains
        after = {b: a for chain in chains.values() for a, b in pairwise(s for s in chain.strands if s in self.pending)}
        moved: dict[int, int] = {}
        for strand in sorted(self.pending):
            moved[strand] = strands.side([moved[after[strand]]] if strand in after else [])
        for chain in chains.values():
            chain.strands, chain.behind = [moved[s] for s in chain.strands if s in moved], None
        self.per_cluster.pending = set(moved.values())
        for groups in self.per_cta.copies.values():
            groups.open = {old: moved[new] for old, new in groups.open.items() if new in moved}
            groups.closed = [[moved[s] for s in group if s in moved] for group in groups.closed]
        for phases in self.per_cluster.phases.values():
            phases.arrived = [moved[s] for s in phases.arrived if s in moved]
            phases.over_copies = [moved[s] for s in phases.over_copies if s in moved]
            phases.over = strands.side(phases.over_copies) if phases.over_copies else None
        return moved

    # -- barriers of the cluster ------------------------------------------------------------------------------

    def come(self, lanes: Bools, ends: bool = False) -> None:
        """Lanes reach the cluster's barrier, or end, in which case nobody waits for them."""
        for number in np.unique(self.per_cta.rounds[lanes]).tolist():
            here = lanes & (self.per_cta.rounds == number)
            self.per_cluster.meetings.setdefault(number, []).extend(self.strands.of(here))
        if not ends:
            self.per_cta.rounds = self.per_cta.rounds + lanes
            self.strands.advance(lanes)

    def meet(self, lanes: Bools) -> None:
        """All lanes have reached the cluster's barrier at which these lanes wait."""
        for number in np.unique(self.per_cta.rounds[lanes]).tolist():
            come = self.per_cluster.meetings.get(number - 1, [])
            if len(come) > 1:
                come[:] = [self.strands.side(come)]
            self.strands.advance(lanes & (self.per_cta.rounds == number), come)
            self.per_cluster.meetings.pop(number - 2, None)

    # -- copies -----------------------------------------------------------------------------------------------

    def copying(self, kind: str, lanes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The strands in which these lanes' copies go on; `kind` determines who closes and awaits them."""
        now = self.strands.per_cluster.of_lane[lanes]
        found = np.empty_like(now)
        for strand in np.unique(now).tolist():
            here = now == strand
            groups = self.per_cta.copies.setdefault((kind, int(lanes[here][0]) // LANES), _Groups())
            if strand not in groups.open:
                groups.open[strand] = self.strands.beside(strand)
                self.pending.add(groups.open[strand])
            found[here] = groups.open[strand]
        return found

    def commit(self, kind: str, lanes: Bools) -> None:
        """The warps of these lanes close a group."""
        for warp in _warps(lanes):
            groups = self.per_cta.copies.setdefault((kind, warp), _Groups())
            groups.closed.append(list(groups.open.values()))
            groups.open = {}
        self.strands.advance(lanes)

    def wait(self, kind: str, lanes: Bools, keep: int) -> None:
        """The warps of these lanes wait for all closed groups but the last `keep`."""
        for warp in _warps(lanes):
            first, many = (warp - warp % WARPGROUP, WARPGROUP) if kind == "warpgroup" else (warp, 1)
            if (mine := self.per_cta.copies.get((kind, warp))) is None:
                continue
            together = [g for of in range(first, first + many) if (g := self.per_cta.copies.get((kind, of)))]
            before, mine.waited = mine.waited, max(mine.waited, mine.gone + len(mine.closed) - keep)
            done = [slice(max(0, before - g.gone), max(0, mine.waited - g.gone)) for g in together]
            strands = [s for g, part in zip(together, done, strict=True) for group in g.closed[part] for s in group]
            for groups in together:
                over = min(len(groups.closed), min(g.waited for g in together) - groups.gone)
                groups.closed, groups.gone = groups.closed[max(0, over) :], groups.gone + max(0, over)
            if strands:
                here = np.zeros_like(lanes)
                here[warp * LANES : warp * LANES + LANES] = lanes[warp * LANES : warp * LANES + LANES]
                if kind in ("warpgroup", "STTM"):
                    self.strands.advance(here, strands)
                else:
                    self.strands.advance(here, own=strands)
                self.pending.difference_update(strands)

    def product(self, chain: int, lane: int) -> int:
        """The strand of a lane's product, which follows those before it in a tensor core."""
        known, lanes = self.per_cluster.chains.setdefault(chain, _Chain()), self.strands.per_cluster.of_lane
        now = int(lanes[lane])
        if known.behind != now:
            released = self.strands.release(now, np.arange(len(lanes)) == lane)
            strand = self.strands.side([released, *known.strands[-1:]])
            known.strands, known.behind = [s for s in known.strands if s in self.pending], now
            known.strands.append(strand)
            self.pending.add(strand)
        return known.strands[-1]

    def products(self, chain: int) -> list[int]:
        """The strands of a tensor core's products so far. Those that follow get others."""
        known = self.per_cluster.chains.setdefault(chain, _Chain())
        known.behind = None
        return list(known.strands)

    # -- mbarriers --------------------------------------------------------------------------------------------

    def bulk_copy(self, behind: int, lanes: Bools) -> NDArray[np.int64]:
        """The strand of a copy of lanes of a strand, which will be reported to an mbarrier; see `told`."""
        strand = self.strands.side([self.strands.release(behind, lanes)])
        self.pending.add(strand)
        return np.array([strand], np.int64)

    def told(self, barrier: int, copies: Sequence[int], parity: int) -> None:
        """Bulk copies, by their strands, have reported to the mbarrier at this byte, whose parity is now this."""
        phases = self.per_cluster.phases.setdefault(barrier, _Phases(parity=0))
        phases.arrived += copies
        phases.came += copies
        self.turned(barrier, parity)

    def initialise(self, barrier: int, parity: int) -> None:
        """The mbarrier is new."""
        self.per_cluster.phases[barrier] = _Phases(parity=parity)

    def arrive_at(self, barrier: int, lanes: Bools, together: Bools, with_copies: bool) -> None:
        """Lanes arrive at an mbarrier, or their copies do, until the instruction is `done`.

        `together`: all lanes that execute the instruction, some of which may arrive at other mbarriers.
        """
        phases = self.per_cluster.phases.setdefault(barrier, _Phases())
        phases.arrived += [self.strands.release(strand, together) for strand in self.strands.of(lanes)]
        phases.came += self.strands.of(lanes)
        self._arrived_at.add(barrier)
        if with_copies:
            for warp in _warps(lanes):
                groups = self.per_cta.copies.get(("LDGSTS", warp))
                if groups is not None:
                    phases.arrived += [s for group in groups.closed for s in group] + list(groups.open.values())

    def done(self, lanes: Bools, parity: Callable[[int], int]) -> None:
        """Lanes have executed an mbarrier's instruction; `parity` returns its parity now."""
        if self._arrived_at:
            self.strands.advance(lanes)
        for barrier in sorted(self._arrived_at):
            self.turned(barrier, parity(barrier))
        self._arrived_at.clear()

    def turned(self, barrier: int, parity: int) -> None:
        """Take the parity of an mbarrier. If it has changed, a phase is over."""
        phases = self.per_cluster.phases.get(barrier)
        if phases is None or phases.parity == parity:
            return
        phases.parity = parity
        behind = [*phases.arrived, *([] if phases.over is None else [phases.over])]
        phases.over = self.strands.side(sorted(set(behind)))
        phases.over_copies += [s for s in phases.arrived if s in self.pending]
        came = [s for s in phases.came if s >= self.strands.per_cluster.base]
        for look, who in phases.looks.items():
            if self._missed is not None and not any(self.strands.follows(look, s) for s in came):
                self._missed(barrier, *who)
        phases.before, phases.ended = phases.ended, phases.came
        phases.arrived, phases.came, phases.looks = [], [], {}

    def find_over(self, barrier: int, lanes: Bools, look: Instruction | None = None) -> None:
        """Lanes look at an mbarrier, and know the phases that are over; `look`: the test, if it has found one over.

        The next phase must not end before such a look, or the parity that it waits for is gone. So one of that phase's
        arrivals must follow the look, and the look follows all arrivals of the phase before.
        """
        phases = self.per_cluster.phases.get(barrier)
        if phases is None:
            return
        now = self.strands.of(lanes)
        if look is not None and self._missed is not None and phases.before is not None:
            late = [s for s in now if not all(self.strands.follows(a, s) for a in phases.before)]
            if late:
                self._missed(barrier, look, self._lane(lanes, late[0]), self.strands.per_cluster.rank)
        self._follow(phases, lanes)
        if look is not None:
            phases.looks |= {
                s: (look, self._lane(lanes, s), self.strands.per_cluster.rank) for s in self.strands.of(lanes)
            }

    def gone_by(self, barrier: int, lanes: Bools, look: Instruction) -> None:
        """Lanes wait at an mbarrier forever. If they do not know its last phase, they missed the one before."""
        phases = self.per_cluster.phases.get(barrier)
        if phases is None or phases.before is None or phases.ended is None or self._missed is None:
            return
        late = [s for s in self.strands.of(lanes) if not all(self.strands.follows(a, s) for a in phases.ended)]
        if late:
            self._missed(barrier, look, self._lane(lanes, late[0]), self.strands.per_cluster.rank)

    def _lane(self, lanes: Bools, strand: int) -> int:
        """The first of some lanes that is in a strand."""
        return int((lanes & (self.strands.per_cluster.of_lane == strand)).argmax())

    def _follow(self, phases: _Phases, lanes: Bools) -> None:
        """Lanes know the phases of an mbarrier that are over."""
        if phases.over is None:
            return
        if all(self.strands.ordered(phases.over, s) for s in self.strands.of(lanes)):
            return
        self.strands.advance(lanes, [phases.over])
        self.pending.difference_update(phases.over_copies)
        phases.over_copies = []


def _warps(lanes: Bools) -> list[int]:
    found: list[int] = np.flatnonzero(lanes.reshape(-1, LANES).any(axis=1)).tolist()
    return found
