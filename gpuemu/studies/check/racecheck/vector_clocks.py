"""Vector clocks: which parts of the execution of a CTA, or of a cluster, precede which.

A strand is a number for lanes of one warp that execute their instructions together, from one synchronization to the
next. Everything in a strand is ordered with what happens later in it. Where lanes diverge or meet, arrive or are
released, they go on in a new strand that follows the old ones. The clock of a strand is the set of all strands before
it, as bits (`reach`). A barrier for the whole CTA orders everything before it: all strands before `base` precede all
that follow, and have no bits.

    together(mask)      lanes of `mask` run: those that diverged or met go on in new strands
    advance(lanes, [s]) these lanes go on in new strands, which follow their old ones and also the strands s
    side([s])           a new strand besides those of the lanes: an asynchronous copy
    release(s, lanes)   the release of a strand by some lanes: their own accesses, and what their warp has synchronized
    everyone()          a barrier for all

Lockstep is no synchronization. A lane that releases does not release the stores of the other lanes of its warp, unless
a __syncwarp or a barrier came between. `release` makes a strand for such a release. That strand follows everything that
a synchronization has brought to those lanes, and it has a part of the warp's own strands: `parts`.

The CTAs of a cluster share their strands, and `of_lane` belongs to the executing CTA. A barrier for all threads of one
CTA orders its lanes only. `settle` moves the base when all CTAs have passed some strands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.warp import LANES

Bools = NDArray[np.bool_]
_MANY = 1 << 13
"""The number of strands of a cluster after which the base moves past those that precede everything."""
_RESERVED = 1 << 16
"""The strand numbers that a waiting CTA keeps."""
_ENDLESS = 1 << 62
_WHOLE = (1 << LANES) - 1
"""All lanes of a warp, as bits."""
GONE = -1
"""The strand of lanes that have exited, or never existed."""


@dataclass(slots=True)
class _Clocks:
    """The strands of one cluster, or of one CTA without one. Bits and `before` count strands from the base.

    `cta_base`, `cta_limit`: its strands are the numbers from the first up to the second. `count`: the next number.
    """

    of_lane: NDArray[np.int64]
    """The strand of each lane of the executing CTA; the array never changes in place."""
    cta_base: int
    count: int
    cta_limit: int = _ENDLESS
    rank: int = 0
    others: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    """The strands of the lanes of the cluster's other CTAs, by rank."""
    settles_at: int = 0
    """The count at which `settle` is due."""
    base: int = 0
    before: list[tuple[int, ...]] = field(default_factory=list)
    """The strands that each strand follows directly."""
    reach: list[int] = field(default_factory=list)
    """The clocks that have been needed so far."""
    own: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """The directly preceding strands with the same lanes: lockstep alone orders them."""
    met: dict[int, int] = field(default_factory=dict)
    """The strands that begin with a __syncwarp, and the lanes of the warp that it synchronizes, as bits."""
    released: dict[tuple[int, int], int] = field(default_factory=dict)
    """The release of a strand by some lanes, which are bits."""
    parts: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """The releases that have only some lanes of a strand, each with those lanes as bits."""
    given: dict[int, int] = field(default_factory=dict)
    """The clocks of strands that begin with one."""
    fences: dict[int, bool] = field(default_factory=dict)
    """The strands that begin with a fence: whether other CTAs see it."""
    fenced: list[tuple[int, int]] = field(default_factory=list)
    """The results of `Strands.fenced` that have been needed so far."""
    checked: set[bytes] = field(default_factory=set)
    """The masks whose lanes are together."""
    plain: bool = True
    """Whether nothing has happened since the last barrier for all."""


class Strands:
    """The strands of one CTA after the other; numbers are never used again."""

    def __init__(self, exists: Bools):
        self._exists = exists
        self._warps = len(exists) // LANES
        self._free = 1
        """The first number that no CTA has used or may use."""
        self.version = 0
        """Changes whenever a lane changes its strand."""
        self.per_cluster = _Clocks(np.where(exists, 0, GONE), 1, 1)
        self.start()

    def start(self, ctas: int = 1) -> None:
        """A new CTA, or a cluster of this many CTAs, of which the first executes."""
        first = max(self.per_cluster.count, self._free)
        self.per_cluster = _Clocks(np.where(self._exists, 0, GONE), first, first)
        self.everyone()
        now = self.per_cluster
        for rank in range(1, ctas):
            now.others[rank] = np.where(self._exists, now.of_lane + rank * self._warps, GONE)
            now.count += self._warps
            now.before += [()] * self._warps
            now.plain = False
        now.settles_at = now.base + _MANY

    def everyone(self) -> None:
        """Everything so far is ordered before everything that follows."""
        old = self.per_cluster
        first = np.repeat(np.arange(self._warps), LANES) + old.count
        self.per_cluster = _Clocks(
            np.where(old.of_lane == GONE, GONE, first), old.cta_base, old.count + self._warps, old.cta_limit, old.rank,
            old.others, old.settles_at, old.count, [()] * self._warps,
        )  # fmt: skip
        self.version += 1

    def turn_to(self, rank: int) -> None:
        """Another CTA of the cluster executes."""
        now = self.per_cluster
        if rank != now.rank:
            now.others[now.rank] = now.of_lane
            now.of_lane, now.rank = now.others.pop(rank), rank
            now.checked.clear()
            self.version += 1

    def end(self) -> None:
        """The CTA, or cluster, has ended. No other one gets its numbers."""
        self._free = max(self._free, self.per_cluster.count)

    def current(self) -> set[int]:
        """The strands of lanes."""
        now = self.per_cluster
        found = set(now.of_lane.tolist()).union(*(lanes.tolist() for lanes in now.others.values()))
        return found - {GONE}

    def settled(self, strands: set[int]) -> int:
        """The strands that precede all of these, as bits that count from the base."""
        now = self.per_cluster
        bits: int = -1
        for strand in strands:
            bits &= self.reach(strand)
        for strand, releases in now.parts.items():  # In lockstep, the other lanes' accesses also precede.
            if strand >= now.base and any(bits >> release - now.base & 1 for release, _ in releases):
                bits |= 1 << strand - now.base
        return bits

    @property
    def settles(self) -> bool:
        """Whether a cluster has so many strands that `settle` is due."""
        now = self.per_cluster
        return bool(now.others) and now.count > now.settles_at

    def settle(self, strands: set[int]) -> int:
        """Move the base past the strands that precede all of these, also of copies. Returns the distance."""
        now = self.per_cluster
        bits = self.settled(strands)
        many = (~bits & bits + 1).bit_length() - 1 if bits >= 0 else 0
        now.before = [tuple(s - many for s in before if s >= many) for before in now.before[many:]]
        now.reach = [reach >> many for reach in now.reach[many:]]
        now.fenced = [(ours >> many, others >> many) for ours, others in now.fenced[many:]]
        now.given = {k - many: given >> many for k, given in now.given.items() if k >= many}
        now.fences = {k - many: fence for k, fence in now.fences.items() if k >= many}
        now.base += many
        now.own = {k: own for k, own in now.own.items() if k >= now.base}
        now.met = {k: lanes for k, lanes in now.met.items() if k >= now.base}
        now.released = {key: release for key, release in now.released.items() if key[0] >= now.base}
        now.parts = {k: parts for k, parts in now.parts.items() if k >= now.base}
        now.settles_at = now.count + _MANY
        return many

    def reserve(self) -> None:
        """The CTA waits: other CTAs get the next numbers, except those that this one may still need."""
        now = self.per_cluster
        if now.cta_limit == _ENDLESS:
            now.cta_limit = now.count + _RESERVED * (1 + len(now.others))
            self._free = max(self._free, now.cta_limit)

    def foreign(self, strands: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these strands belong to other CTAs."""
        now = self.per_cluster
        return np.asarray((strands < now.cta_base) | (strands >= now.cta_limit))

    def leave(self, lanes: Bools) -> None:
        """These lanes have exited."""
        now = self.per_cluster
        now.of_lane = np.where(lanes, GONE, now.of_lane)
        self.version += 1

    def together(self, mask: Bools | None) -> None:
        """The lanes of `mask` (None: all) execute what follows together."""
        now = self.per_cluster
        name = b"" if mask is None else mask.tobytes()
        if name in now.checked:
            return
        here = now.of_lane != GONE
        if mask is not None:
            here &= mask
        here = here.reshape(-1, LANES)
        strands = now.of_lane.reshape(-1, LANES)
        last = np.where(here, strands, GONE).max(axis=1)
        same = (strands == last[:, None]) == here
        torn = np.flatnonzero(~same.all(axis=1) & here.any(axis=1))
        if len(torn):
            lanes = np.zeros_like(here)
            lanes[torn] = here[torn]
            self.advance(lanes.reshape(-1))
        now.checked.add(name)

    def advance(
        self, lanes: Bools, behind: Iterable[int] = (), fence: bool | None = None, own: Iterable[int] = (),
        meet: bool = False,
    ) -> None:  # fmt: skip
        """The lanes of each warp among `lanes` go on in their own strand that also follows those of `behind`.

        `own`: further strands that it follows and that belong to these lanes, such as their copies. `fence`: whether it
        begins with a fence, True for one that other CTAs see. `meet`: whether it begins with a __syncwarp. Other lanes
        of the same strands go on in other strands.
        """
        now = self.per_cluster
        now.checked.clear()
        now.plain = False
        self.version += 1
        after = now.of_lane.copy()
        more, theirs = tuple(behind), tuple(own)
        for warp in np.flatnonzero(lanes.reshape(-1, LANES).any(axis=1)).tolist():
            part = slice(warp * LANES, warp * LANES + LANES)
            here = lanes[part] & (after[part] != GONE)
            strands = after[part].copy()
            old = np.unique(strands[here]).tolist()
            if not old:
                continue
            after[part][here] = next_ = self._new((*old, *theirs, *more), fence)
            now.own[next_] = (*old, *theirs)
            if meet:
                now.met[next_] = _bits(here, self._exists[part])
            for strand in old:
                rest = (strands == strand) & ~here
                if rest.any():
                    after[part][rest] = self.beside(strand)
        now.of_lane = after

    def side(self, behind: Sequence[int]) -> int:
        return self._new(tuple(behind))

    def beside(self, strand: int) -> int:
        """A new strand after another one, with the same lanes."""
        found = self._new((strand,))
        self.per_cluster.own[found] = (strand,)
        return found

    def release(self, strand: int, lanes: Bools) -> int:
        """The release of a strand by those of `lanes` that are in it: the strand itself if they are their whole
        warp.
        """
        warp = int((self.per_cluster.of_lane == strand).argmax()) // LANES
        part = slice(warp * LANES, warp * LANES + LANES)
        bits = _bits(lanes[part], self._exists[part])
        return strand if bits == _WHOLE else self._part(strand, bits)

    def _part(self, strand: int, lanes: int) -> int:
        """The release of a strand by some lanes, composed of the releases of the strands before it."""
        now = self.per_cluster
        made, left = now.released, [(strand, lanes)]
        while left:
            key = at, mine = left[-1]
            if key in made:
                left.pop()
                continue
            before = tuple(s + now.base for s in now.before[at - now.base])
            met = now.met.get(at, 0)
            known = mine | met if mine & met else mine
            if known != _WHOLE:
                own = [s for s in now.own.get(at, ()) if s >= now.base]
                missing = [(s, known) for s in own if (s, known) not in made]
                if missing:
                    left += missing
                    continue
                before = (*(made[s, known] for s in own), *(s for s in before if s not in own))
            made[key] = self._new(before, now.fences.get(at - now.base))
            now.parts.setdefault(at, []).append((made[key], mine))
        return made[strand, lanes]

    def known(self, bits: int) -> int:
        """A strand after exactly those of `bits`, which count from the base."""
        now = self.per_cluster
        strand = self._new(())
        now.given[strand - now.base] = bits
        return strand

    def _new(self, behind: tuple[int, ...], fence: bool | None = None) -> int:
        now = self.per_cluster
        strand = now.count
        now.count += 1
        now.before.append(tuple(s - now.base for s in behind if s >= now.base))
        if fence is not None:
            now.fences[strand - now.base] = fence
        return strand

    def of(self, lanes: Bools) -> list[int]:
        """The strands of these lanes."""
        found: list[int] = np.unique(self.per_cluster.of_lane[lanes]).tolist()
        return [strand for strand in found if strand != GONE]

    def reach(self, strand: int) -> int:
        """The strands before this one, as bits that count from the base."""
        now = self.per_cluster
        reach = now.reach
        for k in range(len(reach), strand - now.base + 1):
            bits = now.given.get(k, 0)
            for before in now.before[k]:
                bits |= reach[before] | 1 << before
            reach.append(bits)
        return reach[strand - now.base]

    def fenced(self, strand: int) -> tuple[int, int]:
        """The strands that a fence before this one has made visible, to the CTA's own threads and to other CTAs.

        Strands are bits that count from the base.
        """
        now = self.per_cluster
        self.reach(strand)
        for k in range(len(now.fenced), strand - now.base + 1):
            ours = others = 0
            for before in now.before[k]:
                ours |= now.fenced[before][0]
                others |= now.fenced[before][1]
            if k in now.fences:
                ours |= now.reach[k]
                others |= now.reach[k] if now.fences[k] else 0
            now.fenced.append((ours, others))
        return now.fenced[strand - now.base]

    def fenced_by_anyone(self) -> int | None:
        """The result of `fenced` for other CTAs, for all strands since the base; None if nobody has fenced at all."""
        now = self.per_cluster
        if not any(now.fences.values()):
            return None
        self.fenced(now.count - 1)
        bits = 0
        for _, others in now.fenced:
            bits |= others
        return bits

    def follows(self, first: int, second: int) -> bool:
        """Whether strands are `ordered`, where a release by some lanes of a warp also counts for the lanes in
        lockstep.
        """
        return self.ordered(first, second) or any(
            self.ordered(s, second) for s, _ in self.per_cluster.parts.get(first, ())
        )

    def ordered(self, first: int, second: int) -> bool:
        """Whether `first`, of the same CTA, precedes `second`, which does not precede the base."""
        now = self.per_cluster
        if first == second or first < now.base:
            return True
        return bool(self.reach(second) >> (first - now.base) & 1)


def _bits(lanes: Bools, exist: Bools) -> int:
    """Lanes of a warp as bits; `_WHOLE` if they are all existing lanes of it."""
    if bool((lanes | ~exist).all()):
        return _WHOLE
    return int.from_bytes(np.packbits(lanes, bitorder="little").tobytes(), "little")
