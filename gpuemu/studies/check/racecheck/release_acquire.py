"""Release and acquire: the order that atomics and strong accesses make, within a CTA and between CTAs.

A fence makes earlier accesses visible. An atomic or strong store after the fence releases them at its address. An
atomic or strong load of that address acquires them, and comes before what follows it. gpuemu runs CTAs one after the
other, so a CTA that acquires runs after the one that released. The released strands are a number and bits: all strands
before the number, and the strands of the bits, which count from the number.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpuemu.studies.check.racecheck.vector_clocks import Strands

Seen = dict[int, tuple[int, int]]
"""First strand of a CTA → the base and bits of what is visible of it."""


@dataclass
class _Place:
    """The release at an address: `ours` to its own CTA (base, bits), and `others` to other CTAs."""

    ours: tuple[int, int] | None = None
    others: Seen = field(default_factory=dict)


@dataclass
class _Knows:
    """The knowledge of a cluster, or of a CTA without one, about others.

    `shared`: the releases at each address of its shared memory. `known`: what all its lanes know. `acquired`: the
    strands that have acquired, each with its knowledge since. `fenced`: the base and bits of what is fenced.
    """

    shared: dict[int, _Place] = field(default_factory=dict)
    known: Seen = field(default_factory=dict)
    acquired: list[tuple[int, Seen]] = field(default_factory=list)
    fenced: tuple[int, int] | None = None


def _mask(lanes: NDArray[np.int64], strands: Strands) -> NDArray[np.bool_]:
    mask = np.zeros(len(strands.per_cluster.of_lane), np.bool_)
    mask[lanes] = True
    return mask


def _merge(into: Seen, more: Seen) -> None:
    for cta, (base, bits) in more.items():
        before = into.get(cta, (-1, 0))
        into[cta] = (base, bits) if base > before[0] else (base, bits | before[1]) if base == before[0] else before


class ReleaseAcquire:
    """Releases and acquires of a launch."""

    def __init__(self, strands: Strands):
        self._strands = strands
        self._global: dict[int, _Place] = {}
        self._ctas: list[int] = []
        self.parts: dict[int, list[tuple[int, int]]] = {}
        """The `Strands` that other CTAs may learn of."""
        self.start()

    def start(self) -> None:
        """A new CTA, which knows nothing."""
        self._ctas.append(self._strands.per_cluster.cta_base)
        self.per_cluster = _Knows()

    def close(self) -> None:
        """A barrier for all follows: afterwards all lanes know what one of them knows."""
        for _, seen in self.per_cluster.acquired:
            _merge(self.per_cluster.known, seen)
        self.per_cluster.acquired = []
        bits = self._strands.fenced_by_anyone()
        if bits is not None:
            self.per_cluster.fenced = self._strands.per_cluster.base, bits

    def ordered(self, first: int, second: int) -> bool:
        """Whether a strand of another CTA precedes a strand of this one."""
        cta = self._ctas[bisect_right(self._ctas, first) - 1]
        for seen in (
            self.per_cluster.known,
            *(s for a, s in self.per_cluster.acquired if a == second or self._strands.ordered(a, second)),
        ):
            base, bits = seen.get(cta, (0, 0))
            if first < base or (first >= base and bits >> (first - base) & 1):
                return True
        return False

    def flag(
        self, shared: bool, addresses: NDArray[np.int64], lanes: NDArray[np.int64], reads: bool, writes: bool,
        widely: bool, itself: bool = False,
    ) -> None:  # fmt: skip
        """Lanes access addresses by atomics or strong accesses, one after the other; `widely`: visible to other CTAs.

        `itself`: the write, alone in its strand, is also released, without a fence.
        """
        places = self.per_cluster.shared if shared else self._global
        gives = {
            s: itself or self._has(s, widely and not shared) for s in self._strands.of(_mask(lanes, self._strands))
        }
        if not (reads and places) and not (writes and any(gives.values())):
            return
        names, which = np.unique(addresses, return_inverse=True)
        for k, address in enumerate(names.tolist()):
            place = places.get(address)
            if not writes and place is None:
                continue
            of_address = lanes[which.reshape(-1) == k]
            for strand in dict.fromkeys(self._strands.per_cluster.of_lane[of_address].tolist()):
                mask = _mask(of_address[self._strands.per_cluster.of_lane[of_address] == strand], self._strands)
                acquires = reads and place is not None
                if acquires and place is not None:
                    self._acquire(place, mask, widely and not shared)
                if writes and (acquires or gives.get(strand, True)):
                    place = places.setdefault(address, _Place())
                    for now in self._strands.of(mask):
                        self._release(place, now, _mask(lanes, self._strands), widely and not shared, itself)

    def _has(self, strand: int, widely: bool) -> bool:
        """Whether a strand has anything to release."""
        ours, others = self._strands.fenced(strand)
        return bool(
            ours
            or (widely and (others or self.per_cluster.fenced or self.per_cluster.known or self.per_cluster.acquired))
        )

    def _release(self, place: _Place, strand: int, lanes: NDArray[np.bool_], widely: bool, itself: bool) -> None:
        strands = self._strands
        released = strands.release(strand, lanes)
        ours, others = strands.fenced(released)
        ours |= itself << (released - strands.per_cluster.base)
        if ours:
            place.ours = strands.per_cluster.base, ours | self._ours(place)
        if not widely:
            return
        if released != strand:
            self.parts.update(strands.per_cluster.parts)
        mine: Seen = {}
        fenced = (strands.per_cluster.base, others) if others else self.per_cluster.fenced
        if fenced is not None:
            mine[strands.per_cluster.cta_base] = fenced
        _merge(mine, self.per_cluster.known)
        for acquired, seen in self.per_cluster.acquired:
            if acquired == strand or strands.ordered(acquired, strand):
                _merge(mine, seen)
        _merge(place.others, mine)

    def _ours(self, place: _Place) -> int:
        """The CTA's own releases at an address, as bits that count from the present base."""
        base, bits = place.ours or (0, 0)
        strands = self._strands
        return (
            bits >> strands.per_cluster.base - base
            if strands.per_cluster.cta_base <= base <= strands.per_cluster.base
            else 0
        )

    def _acquire(self, place: _Place, here: NDArray[np.bool_], widely: bool) -> None:
        strands = self._strands
        others = (
            {cta: seen for cta, seen in place.others.items() if cta != strands.per_cluster.cta_base} if widely else {}
        )
        ours = self._ours(place)
        behind = [strands.known(ours)] if ours else []
        if behind or others:
            strands.advance(here, behind)
        if others:
            self.per_cluster.acquired += [(s, others) for s in strands.of(here)]
