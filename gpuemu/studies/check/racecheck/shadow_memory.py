"""Shadow memory: the accesses of earlier CTAs to each unit of a memory, and the conflicts of a later CTA with them.

The shadow keeps the tags of accesses: strand, entry and lane. Only releases and acquires order CTAs, so two tags are
enough for many atomics or reads of a unit: one of the first CTA, and the last one of any other CTA. Atomics on one word
are ordered: a CTA with the last atomic has seen the others, and its later accesses to that word follow them. (The last
CTA of a launch resets the counter by which it knows that it is the last.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpuemu.studies.check.racecheck.access_records import STRAND_SHIFT, Does, Entry, Indices, Units, tags

Foreign = Callable[[Indices], NDArray[np.bool_]]
_MARKS = ("_written", "_first_atomic", "_last_atomic", "_first_read", "_last_read")


@dataclass
class Conflicts:
    """Pairs of marks at units: arrays of one length with the `old` and `new` tags and the unit."""

    old: list[Indices] = field(default_factory=list)
    new: list[Indices] = field(default_factory=list)
    unit: list[Indices] = field(default_factory=list)

    def add(self, old: Indices, new: Indices, unit: Indices) -> None:
        """Add pairs."""
        self.old.append(old)
        self.new.append(new)
        self.unit.append(unit)

    def arrays(self) -> tuple[Indices, Indices, Indices] | None:
        if not self.old:
            return None
        return np.concatenate(self.old), np.concatenate(self.new), np.concatenate(self.unit)


class ShadowMemory:
    """The marks of `size` bytes of memory, in units of `unit` bytes."""

    def __init__(self, size: int, unit: int):
        self.unit = unit
        self.shift = unit.bit_length() - 1
        self.units = -(-size // unit)
        self._written, self._first_atomic, self._last_atomic, self._first_read, self._last_read = (
            np.zeros(self.units, np.int64) for _ in _MARKS
        )
        self._atomics = False
        self._patterns = Units(self.shift)

    def finer(self, unit: int) -> ShadowMemory:
        """The marks in smaller units."""
        shadow = ShadowMemory(self.units * self.unit, unit)
        for name in _MARKS:
            setattr(shadow, name, np.repeat(getattr(self, name), self.unit // unit))
        shadow._atomics = self._atomics
        return shadow

    def mark(self, entry: Entry, foreign: Foreign, out: Conflicts) -> None:
        """Write an access's marks, and add the conflicts to `out`.

        `foreign`: which strands belong to other CTAs.
        """
        relative, which = self._patterns.of(entry)
        units = relative + (entry.base >> self.shift)
        named = tags(entry)
        if which is not None:
            named = named[which]

        def against(marks: Indices, but: NDArray[np.bool_] | None = None) -> None:
            old = marks[units]
            bad = old != 0 if but is None else (old != 0) & ~but
            if bad.any():
                bad &= foreign(old >> STRAND_SHIFT)
                if bad.any():
                    out.add(old[bad], named[bad], units[bad])

        does = entry.does
        against(self._written)
        if does in (Does.READ, Does.WRITE) and self._atomics:
            last = self._last_atomic[units]
            seen = (last != 0) & ~foreign(last >> STRAND_SHIFT)
            against(self._first_atomic, seen)
            against(self._last_atomic)
        if does in (Does.WRITE, Does.ATOMIC):
            against(self._first_read)
            against(self._last_read)
        if does is Does.WRITE:
            self._written[units] = named
        elif does is Does.ATOMIC:
            self._atomics = True
            self._put(self._first_atomic, self._last_atomic, units, named, foreign)
            later = self._last_atomic[units] != 0
            self._last_atomic[units[later]] = named[later]
        elif does is Does.READ:
            self._put(self._first_read, self._last_read, units, named, foreign)

    @staticmethod
    def _put(first: Indices, last: Indices, units: Indices, named: Indices, foreign: Foreign) -> None:
        old = first[units]
        others = (old != 0) & foreign(old >> STRAND_SHIFT)
        first[units] = np.where(old == 0, named, old)
        last[units[others]] = named[others]
