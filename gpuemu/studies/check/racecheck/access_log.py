"""Data races: two accesses of different threads to one byte, at least one of them a write, that nothing orders.

The log keeps each distinct access once. At each barrier for the whole CTA it looks for races, since no access before
such a barrier races with one after it. `racing_pairs` finds the pairs, and `Strands` says which of them are ordered.
Global memory also has a shadow memory, which later CTAs are compared with: only `ReleaseAcquire` orders CTAs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.studies.check.findings import Finding
from gpuemu.studies.check.racecheck.access_records import (
    ENTRIES,
    Does,
    Entry,
    Indices,
    Rows,
    Units,
    entry_of,
    lane_of,
    strand_of,
    with_strands,
)
from gpuemu.studies.check.racecheck.context import RaceContext
from gpuemu.studies.check.racecheck.race_findings import RaceFindings, Same, lasting_name
from gpuemu.studies.check.racecheck.racing_pairs import exchanged, unordered
from gpuemu.studies.check.racecheck.shadow_memory import Conflicts, ShadowMemory

_WIDEST = 16
_MOST_ENTRIES = 1 << 14
"""The most accesses between two barriers that are kept before they are examined."""
_STRAND_BITS = 30
_STRANDS = (1 << _STRAND_BITS) - 1
_BARRIER_SHIFT = 3
"""Barrier objects have 8 bytes."""


def _changes(does: Indices) -> NDArray[np.bool_]:
    """Whether each of these accesses changes memory."""
    return np.isin(does, (Does.WRITE, Does.ATOMIC))


@dataclass
class _Logged:
    """The log of a cluster, or of a CTA without one.

    `log`: the accesses since the last barrier for all, by name. `most`: the number of accesses at which the log is
    examined. `marked`: the number of first accesses that have been compared with earlier CTAs. `last`: the access
    logged last. `barriers`: units of 8 bytes that are barriers themselves.
    """

    log: dict[object, Entry] = field(default_factory=dict)
    most: int = _MOST_ENTRIES
    marked: int = 0
    last: Entry | None = None
    barriers: set[int] = field(default_factory=set)


class AccessLog:
    """The log of one memory: of shared memory, or of all buffers of global memory, which `lasting` CTAs share."""

    def __init__(self, race: RaceContext, name: str, size: int, describe: Callable[[int], str], lasting: bool):
        self._race = race
        self.name = name
        self._size = size
        self._lasting = lasting
        self._race_findings = RaceFindings(race, name, describe)
        self._units: dict[int, Units] = {}
        self._shadow: ShadowMemory | None = None
        self.start()
        self._known: dict[frozenset[object], tuple[list[Finding], list[Same]]] = {}
        """The verdicts on equal sets of accesses between two barriers, and which of them stored equal values then."""
        self._kept: list[Entry] = [None]  # type: ignore[list-item]

    def add(self, name: object, make: Callable[[], Entry]) -> None:
        """Log an access, unless one of this name has been logged since the last barrier."""
        logged = self.per_cluster
        entry = logged.log.get(name)
        if entry is None:
            entry = logged.log[name] = make()
            entry.name = name
            if len(logged.log) >= logged.most:
                self.look()
                self.thin()
        self.per_cluster.last = entry

    def stored(self, values: NDArray[Any]) -> None:
        """The values of the store logged last."""
        entry = self.per_cluster.last
        if entry is None or entry.does is not Does.WRITE or len(values) != len(entry.lanes):
            return
        if entry.values is None:
            entry.values = values.copy()
        elif not entry.varied and entry.values.tobytes() != values.tobytes():
            entry.varied = True

    def start(self) -> None:
        """A cluster, or a CTA that has none, begins."""
        self.per_cluster = _Logged()

    def close(self) -> None:
        """The CTA has ended."""
        self.look()
        self.forget({})

    def forget(self, pending: dict[int, int]) -> None:
        """After a barrier for all: keep only the accesses of `pending` copies, by their old and new strands."""
        kept = []
        for entry in self.per_cluster.log.values() if pending else ():
            chosen = np.array([s in pending for s in entry.strands.tolist()], np.bool_)
            if chosen.any():
                strands = np.array([pending[s] for s in entry.strands[chosen].tolist()], np.int64)
                kept.append(entry.part(chosen, strands))
        self._keep(kept)

    def _keep(self, entries: list[Entry]) -> None:
        for entry in entries:
            entry.name = object()
        log = {entry.name: entry for entry in entries}
        self.per_cluster = _Logged(log, len(log) + _MOST_ENTRIES, len(log), None, self.per_cluster.barriers)

    def thin(self) -> None:
        """Keep only the accesses of an examined log that later accesses may race with."""
        strands = self._race.strands
        current = strands.current() | self._race.order.pending
        before = strands.settled(current)
        over: dict[int, bool] = {}
        kept = []
        for entry in self.per_cluster.log.values():
            for strand in set(entry.strands.tolist()) - over.keys():
                over[strand] = strand < strands.per_cluster.base or bool(
                    before >> (strand - strands.per_cluster.base) & 1
                )
            chosen = np.array([not over[s] for s in entry.strands.tolist()], np.bool_)
            if chosen.any():
                kept.append(entry.part(chosen, entry.strands[chosen]))
        self._keep(kept)

    def look(self) -> None:
        """Find the races in the log."""
        entries = list(self.per_cluster.log.values())
        if not entries or (not self._lasting and not any(e.does in (Does.WRITE, Does.ATOMIC) for e in entries)):
            return
        strands = self._race.strands
        names: dict[object, Entry] = {}
        if strands.per_cluster.plain and not self._lasting:
            names = {lasting_name(e): e for e in entries}
            names = names if len(names) == len(entries) else {}
            known = self._known.get(frozenset(names)) if names else None
            if known is not None and all(names[a].same(i, names[b], j) for a, i, b, j in known[1]):
                for finding in known[0]:
                    self._race.findings.add(finding)
                return
        self._number(entries)
        same: list[Same] = []
        found = self._within(entries, same)
        if self._lasting:
            found += self._across(entries)
        for finding in found:
            self._race.findings.add(finding)
        if names:
            self._known[frozenset(names)] = found, same

    def set_aside(self) -> None:
        """The CTA waits for others: compare its accesses so far with those of earlier CTAs, before others run."""
        if self._lasting and self.per_cluster.log:
            entries = list(self.per_cluster.log.values())
            self._number(entries)
            for finding in self._across(entries):
                self._race.findings.add(finding)

    def _number(self, entries: list[Entry]) -> None:
        if not self._lasting or len(self._kept) + len(entries) >= ENTRIES:
            self._kept = [None]  # type: ignore[list-item]
            for entry in entries:
                entry.number = 0
        for entry in entries:
            if not entry.number:
                entry.number = len(self._kept)
                self._kept.append(entry)

    def _within(self, entries: list[Entry], same: list[Same]) -> list[Finding]:
        """The races among the threads of this CTA."""
        if not any(e.does in (Does.WRITE, Does.ATOMIC) for e in entries):
            return []
        unit = min(min(e.size for e in entries), _WIDEST)
        units = self._units.setdefault(unit, Units(unit.bit_length() - 1))
        rows = units.rows(entries)
        if self.per_cluster.barriers:
            rows = self._of_barriers(rows, units.shift)
        rows = rows._replace(strand=self._race.apart(rows.strand, rows.lane, _changes(rows.does)))
        ordered = self._race.ordered
        first, old, new = unordered(rows, entries, ordered)
        found = []
        if len(old):
            named = first.tags(entries)
            found = self._race_findings.tell(self._kept, named[old], named[new], first.unit[new] << units.shift, same)
        lanes, old, new, times = exchanged(rows, entries, ordered)
        if len(old):
            named = lanes.tags(entries)
            places = lanes.unit[new] << units.shift
            found += self._race_findings.tell_exchange(self._kept, named[old], named[new], places, times)
        return found

    def _of_barriers(self, rows: Rows, shift: int) -> Rows:
        """Reads of a barrier's word are tests of the barrier."""
        words = np.fromiter(self.per_cluster.barriers, np.int64, len(self.per_cluster.barriers))
        tests = np.isin(rows.unit << shift >> _BARRIER_SHIFT, words) & (rows.does == Does.READ)
        return rows._replace(does=np.where(tests, int(Does.STRONG_READ), rows.does))

    def _across(self, entries: list[Entry]) -> list[Finding]:
        """The races with other CTAs, for entries that have not been compared yet."""
        entries, self.per_cluster.marked = entries[self.per_cluster.marked :], len(entries)
        if not entries:
            return []
        unit = min(min(e.size for e in entries), 4)
        shadow = self._shadow
        if shadow is None:
            shadow = self._shadow = ShadowMemory(self._size, unit)
        elif unit < shadow.unit:
            shadow = self._shadow = shadow.finer(unit)
        conflicts, foreign = Conflicts(), self._race.strands.foreign
        for entry in entries:
            shadow.mark(entry, foreign, conflicts)
        pairs = conflicts.arrays()
        if pairs is None:
            return []
        old, new, at = pairs
        does = np.array([self._kept[k].does for k in entry_of(old).tolist()])
        old = with_strands(old, self._race.apart(strand_of(old), lane_of(old), _changes(does)))
        named, which = np.unique(strand_of(old) << _STRAND_BITS | strand_of(new), return_inverse=True)
        racing = np.array([not self._race.ordered(p >> _STRAND_BITS, p & _STRANDS) for p in named.tolist()], np.bool_)
        chosen = np.flatnonzero(racing[which.reshape(-1)])
        if not len(chosen):
            return []
        return self._race_findings.tell(self._kept, old[chosen], new[chosen], at[chosen] * shadow.unit, [])
