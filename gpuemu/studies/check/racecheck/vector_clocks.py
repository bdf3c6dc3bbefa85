"""Who is ordered with whom in a CTA: strands of lanes that run in lockstep, split wherever something orders them.

A strand is a number: lanes of one warp that execute their instructions together. Whatever happens in a strand is
ordered with what happens later in it. Where lanes part or meet, arrive or are released, they go on in a new strand
that follows the old ones; one strand is ordered before another if a way of followers leads there. A barrier for the
whole CTA orders everything before it: strands before `base` are ordered with all that follow, and need no way.

    together(mask)      lanes of `mask` run: those that parted or met go on in new strands
    advance(lanes, [s]) what these lanes did so far is closed, and what they do next also follows the strands s
    side([s])           a strand beside the lanes' own: an asynchronous copy
    release(s, lanes)   what some lanes release of a strand: their own accesses, and what their warp has synchronized
    everyone()          a barrier for all

Lockstep is no synchronization. When one lane of a warp releases what happened before, the stores of the other lanes are
not among it unless a __syncwarp or a barrier came between. `release` makes a strand of such a release. It follows
everything that a synchronization has brought to those lanes, and of the warp's own strands it has a part: `parts`.

The CTAs of a cluster share their strands, and `of_lane` is of the one that executes. What is a barrier for all in one
of them orders its lanes only; the base moves where `settle` finds strands that all CTAs have come behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.warp import LANES

Bools = NDArray[np.bool_]
OF_CLUSTER = (
    "of_lane", "base", "cta_base", "cta_limit", "count", "_before", "_reach", "_given", "_fences", "_fenced",
    "_checked", "plain", "rank", "others", "_settles_at", "_own", "_met", "_released", "parts",
)  # fmt: skip
"""What is of a cluster, or of a CTA that has none; see `per_cta`."""
_MANY = 1 << 13
"""Strands of a cluster after which the base is moved behind those that are before everything."""
_RESERVED = 1 << 16
"""Numbers that a CTA has which waits for others."""
_ENDLESS = 1 << 62
_WHOLE = (1 << LANES) - 1
"""All lanes of a warp, as bits."""
GONE = -1
"""The strand of lanes that have exited, or never were."""


class Strands:
    """The strands of one CTA after the other; numbers are never used again."""

    def __init__(self, exists: Bools):
        self._exists = exists
        self._warps = len(exists) // LANES
        self.count = 1
        self._free = 1
        self.version = 0
        """Changes whenever a lane changes its strand."""
        self.start()

    def start(self, ctas: int = 1) -> None:
        """A new CTA, or cluster of so many, of which the first executes."""
        self.count = self.cta_base = max(self.count, self._free)
        self.cta_limit = _ENDLESS
        self.of_lane: NDArray[np.int64] = np.where(self._exists, 0, GONE)
        """The strand of each lane; never changed in place."""
        self.everyone()
        self.rank = 0
        self.others: dict[int, NDArray[np.int64]] = {}
        """The same of the cluster's other CTAs, by rank."""
        for rank in range(1, ctas):
            self.others[rank] = np.where(self._exists, self.of_lane + rank * self._warps, GONE)
            self.count += self._warps
            self._before += [()] * self._warps
            self.plain = False
        self._settles_at = self.base + _MANY

    def everyone(self) -> None:
        """Everything so far is ordered before everything that follows."""
        self.base = self.count
        first = np.repeat(np.arange(self._warps), LANES) + self.base
        self.of_lane = np.where(self.of_lane == GONE, GONE, first)
        self.count += self._warps
        self._before: list[tuple[int, ...]] = [()] * self._warps
        self._reach: list[int] = []
        self._own: dict[int, tuple[int, ...]] = {}
        """Of the strands before one, those in which the same lanes were: lockstep alone orders them."""
        self._met: dict[int, int] = {}
        """The strands that begin with a __syncwarp, and the lanes of the warp that it synchronizes, as bits."""
        self._released: dict[tuple[int, int], int] = {}
        self.parts: dict[int, list[tuple[int, int]]] = {}
        """Of a strand, the releases that have only some lanes of it, each with those lanes as bits."""
        self._given: dict[int, int] = {}
        self._fences: dict[int, bool] = {}
        self._fenced: list[tuple[int, int]] = []
        self._checked: set[bytes] = set()
        self.plain = True
        """Whether nothing has happened since the last barrier for all."""
        self.version += 1

    def turn_to(self, rank: int) -> None:
        """Another CTA of the cluster executes."""
        if rank != self.rank:
            self.others[self.rank] = self.of_lane
            self.of_lane, self.rank = self.others.pop(rank), rank
            self._checked.clear()
            self.version += 1

    def end(self) -> None:
        """The CTA, or cluster, has ended: nobody else gets its numbers."""
        self._free = max(self._free, self.count)

    def current(self) -> set[int]:
        """The strands that lanes are in."""
        found = set(self.of_lane.tolist()).union(*(lanes.tolist() for lanes in self.others.values()))
        return found - {GONE}

    def settled(self, strands: set[int]) -> int:
        """What is before all of these strands, as bits that count from the base."""
        bits: int = -1
        for strand in strands:
            bits &= self.reach(strand)
        for strand, releases in self.parts.items():  # in lockstep, the other lanes' accesses are before, too
            if strand >= self.base and any(bits >> release - self.base & 1 for release, _ in releases):
                bits |= 1 << strand - self.base
        return bits

    @property
    def settles(self) -> bool:
        """Whether a cluster has so many strands that it is time to `settle`."""
        return bool(self.others) and self.count > self._settles_at

    def settle(self, strands: set[int]) -> int:
        """Move the base behind what is before all of these, which lanes and copies are in; by how much."""
        bits = self.settled(strands)
        many = (~bits & bits + 1).bit_length() - 1 if bits >= 0 else 0
        self._before = [tuple(s - many for s in before if s >= many) for before in self._before[many:]]
        self._reach = [reach >> many for reach in self._reach[many:]]
        self._fenced = [(ours >> many, others >> many) for ours, others in self._fenced[many:]]
        self._given = {k - many: given >> many for k, given in self._given.items() if k >= many}
        self._fences = {k - many: fence for k, fence in self._fences.items() if k >= many}
        self.base += many
        self._own = {k: own for k, own in self._own.items() if k >= self.base}
        self._met = {k: lanes for k, lanes in self._met.items() if k >= self.base}
        self._released = {key: release for key, release in self._released.items() if key[0] >= self.base}
        self.parts = {k: parts for k, parts in self.parts.items() if k >= self.base}
        self._settles_at = self.count + _MANY
        return many

    def reserve(self) -> None:
        """The CTA is set aside: numbers from here on are others', but for those that it may still need."""
        if self.cta_limit == _ENDLESS:
            self.cta_limit = self.count + _RESERVED * (1 + len(self.others))
            self._free = max(self._free, self.cta_limit)

    def foreign(self, strands: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these strands are of other CTAs."""
        return np.asarray((strands < self.cta_base) | (strands >= self.cta_limit))

    def leave(self, lanes: Bools) -> None:
        """These lanes are gone."""
        self.of_lane = np.where(lanes, GONE, self.of_lane)
        self.version += 1

    def together(self, mask: Bools | None) -> None:
        """The lanes of `mask` (None: all) execute what follows together."""
        name = b"" if mask is None else mask.tobytes()
        if name in self._checked:
            return
        here = self.of_lane != GONE
        if mask is not None:
            here &= mask
        here = here.reshape(-1, LANES)
        strands = self.of_lane.reshape(-1, LANES)
        last = np.where(here, strands, GONE).max(axis=1)
        same = (strands == last[:, None]) == here
        torn = np.flatnonzero(~same.all(axis=1) & here.any(axis=1))
        if len(torn):
            lanes = np.zeros_like(here)
            lanes[torn] = here[torn]
            self.advance(lanes.reshape(-1))
        self._checked.add(name)

    def advance(
        self, lanes: Bools, behind: Iterable[int] = (), fence: bool | None = None, own: Iterable[int] = (),
        meet: bool = False,
    ) -> None:  # fmt: skip
        """The lanes of each warp among `lanes` go on in a strand of their own that also follows those of `behind`.

        `own`: strands that it follows, too, and that are of these lanes themselves, such as their copies. `fence`:
        whether it begins with a fence, True for one that other CTAs see. `meet`: whether it begins with a __syncwarp.
        Lanes of the same strands that are not among them go on in others.
        """
        self._checked.clear()
        self.plain = False
        self.version += 1
        after = self.of_lane.copy()
        more, theirs = tuple(behind), tuple(own)
        for warp in np.flatnonzero(lanes.reshape(-1, LANES).any(axis=1)).tolist():
            part = slice(warp * LANES, warp * LANES + LANES)
            here = lanes[part] & (after[part] != GONE)
            now = after[part].copy()
            old = np.unique(now[here]).tolist()
            if not old:
                continue
            after[part][here] = next_ = self._new((*old, *theirs, *more), fence)
            self._own[next_] = (*old, *theirs)
            if meet:
                self._met[next_] = _bits(here, self._exists[part])
            for strand in old:
                rest = (now == strand) & ~here
                if rest.any():
                    after[part][rest] = self.beside(strand)
        self.of_lane = after

    def side(self, behind: Sequence[int]) -> int:
        return self._new(tuple(behind))

    def beside(self, strand: int) -> int:
        """A strand after another that is of the same lanes."""
        found = self._new((strand,))
        self._own[found] = (strand,)
        return found

    def release(self, strand: int, lanes: Bools) -> int:
        """What those of `lanes` that are in a strand release: the strand itself if they are their whole warp."""
        warp = int((self.of_lane == strand).argmax()) // LANES
        part = slice(warp * LANES, warp * LANES + LANES)
        bits = _bits(lanes[part], self._exists[part])
        return strand if bits == _WHOLE else self._part(strand, bits)

    def _part(self, strand: int, lanes: int) -> int:
        """The release of a strand by some lanes, made of those of the strands before it."""
        made, left = self._released, [(strand, lanes)]
        while left:
            key = at, mine = left[-1]
            if key in made:
                left.pop()
                continue
            before = tuple(s + self.base for s in self._before[at - self.base])
            met = self._met.get(at, 0)
            known = mine | met if mine & met else mine
            if known != _WHOLE:
                own = [s for s in self._own.get(at, ()) if s >= self.base]
                missing = [(s, known) for s in own if (s, known) not in made]
                if missing:
                    left += missing
                    continue
                before = (*(made[s, known] for s in own), *(s for s in before if s not in own))
            made[key] = self._new(before, self._fences.get(at - self.base))
            self.parts.setdefault(at, []).append((made[key], mine))
        return made[strand, lanes]

    def known(self, bits: int) -> int:
        """A strand behind exactly those of `bits`, which count from the base."""
        strand = self._new(())
        self._given[strand - self.base] = bits
        return strand

    def _new(self, behind: tuple[int, ...], fence: bool | None = None) -> int:
        strand = self.count
        self.count += 1
        self._before.append(tuple(s - self.base for s in behind if s >= self.base))
        if fence is not None:
            self._fences[strand - self.base] = fence
        return strand

    def of(self, lanes: Bools) -> list[int]:
        """The strands that these lanes are in."""
        found: list[int] = np.unique(self.of_lane[lanes]).tolist()
        return [strand for strand in found if strand != GONE]

    def reach(self, strand: int) -> int:
        """The strands before this one, as bits that count from the base."""
        reach = self._reach
        for k in range(len(reach), strand - self.base + 1):
            bits = self._given.get(k, 0)
            for before in self._before[k]:
                bits |= reach[before] | 1 << before
            reach.append(bits)
        return reach[strand - self.base]

    def fenced(self, strand: int) -> tuple[int, int]:
        """What a fence between it and this strand has made visible: to the CTA's own threads, and to other CTAs.

        Strands as bits that count from the base.
        """
        self.reach(strand)
        for k in range(len(self._fenced), strand - self.base + 1):
            ours = others = 0
            for before in self._before[k]:
                ours |= self._fenced[before][0]
                others |= self._fenced[before][1]
            if k in self._fences:
                ours |= self._reach[k]
                others |= self._reach[k] if self._fences[k] else 0
            self._fenced.append((ours, others))
        return self._fenced[strand - self.base]

    def fenced_by_anyone(self) -> int | None:
        """As `fenced` for other CTAs, of all strands since the base; None where nobody has fenced at all."""
        if not any(self._fences.values()):
            return None
        self.fenced(self.count - 1)
        bits = 0
        for _, others in self._fenced:
            bits |= others
        return bits

    def follows(self, first: int, second: int) -> bool:
        """As `ordered`, where a release by some lanes of a warp counts for the lanes in lockstep with them, too."""
        return self.ordered(first, second) or any(self.ordered(s, second) for s, _ in self.parts.get(first, ()))

    def ordered(self, first: int, second: int) -> bool:
        """Whether `first`, of the same CTA, is before `second`, which is not before the base."""
        if first == second or first < self.base:
            return True
        return bool(self.reach(second) >> (first - self.base) & 1)


def _bits(lanes: Bools, exist: Bools) -> int:
    """Lanes of a warp as bits; `_WHOLE` if they are all that exist of it."""
    if bool((lanes | ~exist).all()):
        return _WHOLE
    return int.from_bytes(np.packbits(lanes, bitorder="little").tobytes(), "little")
