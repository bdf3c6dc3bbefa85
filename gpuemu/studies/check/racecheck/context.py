"""The shared parts of racecheck: whether a strand, or some of its lanes, precedes another strand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.warp import LANES
from gpuemu.studies.check.findings import Findings, Point, shared_byte
from gpuemu.studies.check.racecheck.access_records import Indices
from gpuemu.studies.check.racecheck.happens_before import HappensBefore
from gpuemu.studies.check.racecheck.vector_clocks import Strands

_FIRST_APART = 1 << 28
"""Numbers from here on mean some lanes of a strand, not strands."""


class RaceContext:
    """Racecheck of a launch: the strands of its CTAs and its two memories."""

    def __init__(
        self,
        strands: Strands,
        order: HappensBefore,
        findings: Findings,
        point: Callable[..., Point],
        stride: int = 1 << 24,
    ):
        self.strands = strands
        self.order = order
        self.findings = findings
        self.point = point
        self._known: dict[tuple[int, int], bool] = {}
        self._numbers: dict[tuple[int, tuple[int, ...]], int] = {}
        self._apart: list[tuple[int, tuple[int, ...]]] = []
        """The lanes of a strand with equal releases, by their numbers minus `_FIRST_APART`."""
        self.releases: Any = None
        self.mates: tuple[int, ...] = ()
        """The CTAs of the cluster that executes, by rank; none if it has one."""
        self._stride = stride
        self.polls: set[int] = set()
        """Loads that wait for a flag (see `value_flow`), by their offsets. They are no races."""
        self.updates: set[int] = set()
        """Loads and stores that change a word in place (see `value_flow`), by their offsets."""
        self.looks: dict[int, frozenset[int]] = {}
        """Loads that decide whether an atomic is needed, and the atomics (see `value_flow`), by their offsets."""

    def shared_at(self, at: int) -> str:
        """The name of a place in the shared memory of a cluster's CTAs, which are `stride` bytes apart."""
        rank, byte = divmod(at, self._stride)
        return shared_byte(byte) + (f" of CTA {rank} of the cluster" if self.mates else "")

    def apart(self, strands: Indices, lanes: Indices, changes: NDArray[np.bool_]) -> Indices:
        """The strands of accesses by lanes. Changes of memory get separate numbers if releases cover only some lanes.

        Loads count as done when any lane of their warp releases the accesses before it.
        """
        torn = [s for s in np.unique(strands[changes]).tolist() if self._parts(s)]
        if not torn:
            return strands
        found = strands.copy()
        for strand in torn:
            numbers = np.array([self._number(strand, lane) for lane in range(LANES)])
            here = changes & (strands == strand)
            found[here] = numbers[lanes[here] % LANES]
        return found

    def _parts(self, strand: int) -> Sequence[tuple[int, int]]:
        return self.strands.per_cluster.parts.get(strand) or (
            self.releases.parts.get(strand, ()) if self.releases else ()
        )

    def _number(self, strand: int, lane: int) -> int:
        """The number for the lanes of a strand that have the same releases as this one."""
        key = strand, tuple(release for release, lanes in self._parts(strand) if lanes >> lane & 1)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = _FIRST_APART + len(self._apart)
            self._apart.append(key)
        return number

    def strand(self, number: int) -> int:
        """The strand of a number, which may mean some of its lanes."""
        return self._apart[number - _FIRST_APART][0] if number >= _FIRST_APART else number

    def ordered(self, first: int, second: int) -> bool:
        """Whether a strand, or some of its lanes (see `apart`), precedes another of this CTA since its last barrier."""
        key = first, second
        found = self._known.get(key)
        if found is None:
            if len(self._known) > 1 << 18:
                self._known.clear()
            second = self.strand(second)
            if first >= _FIRST_APART:
                strand, releases = self._apart[first - _FIRST_APART]
            else:
                strand, releases = first, tuple(release for release, _ in self._parts(first))
            found = self._known[key] = any(self._before(one, second) for one in (strand, *releases))
        return found

    def _before(self, first: int, second: int) -> bool:
        if self.strands.per_cluster.cta_base <= first < self.strands.per_cluster.cta_limit:
            return self.strands.ordered(first, second)
        return self.releases is not None and bool(self.releases.ordered(first, second))

    def lent(self, first: int, second: int) -> bool:
        """Whether only other lanes of the warp have released to the second what the first did."""
        return self.ordered(self.strand(first), second) and first != self.strand(first)
