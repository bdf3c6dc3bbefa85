"""Who was the last at each unit of a memory, and who at that comes into conflict with them.

Every access is marked under a tag: its strand, its number in the log, its lane. Per unit the shadow keeps the last
plain write, the first and last atomic and the first and last read: two of those that may be many, because one of them
may be the strand itself that asks. Old marks are told apart by their strands, so nothing is ever wiped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.trace.model import Instruction

Indices = NDArray[np.int64]
_LANE_BITS = 10
ENTRY_BITS = 24
ENTRIES = (1 << ENTRY_BITS) - 1
STRAND_SHIFT = _LANE_BITS + ENTRY_BITS


class Does(IntEnum):
    """What an access does: plain reads and writes, atomic ones, and reads of `strong` order, as of a flag."""

    READ = 0
    WRITE = 1
    ATOMIC = 2
    STRONG_READ = 3


@dataclass(eq=False, slots=True)
class Entry:
    """An access of the log: `offsets` [n] bytes from `base` of `size` bytes each, by `lanes` [n] in `strands` [n]."""

    instruction: Instruction
    does: Does
    size: int
    base: int
    offsets: Indices
    lanes: Indices
    strands: Indices
    cta: int
    name: object = None
    values: NDArray[Any] | None = None
    varied: bool = False
    number: int = 0


@dataclass
class Conflicts:
    """Pairs of marks at units, arrays of one length: `old` and `new` tags and the unit."""

    old: list[Indices] = field(default_factory=list)
    new: list[Indices] = field(default_factory=list)
    unit: list[Indices] = field(default_factory=list)

    def add(self, old: Indices, new: Indices, unit: Indices) -> None:
        """Take pairs in."""
        self.old.append(old)
        self.new.append(new)
        self.unit.append(unit)

    def arrays(self) -> tuple[Indices, Indices, Indices] | None:
        """All of them; None if there are none."""
        if not self.old:
            return None
        return np.concatenate(self.old), np.concatenate(self.new), np.concatenate(self.unit)


def strand_of(tags: Any) -> Any:
    """The strands of tags."""
    return tags >> STRAND_SHIFT


def entry_of(tags: Any) -> Any:
    """The numbers of the entries of tags."""
    return tags >> _LANE_BITS & ENTRIES


def lane_of(tag: int) -> int:
    """The lane of a tag."""
    return tag & (1 << _LANE_BITS) - 1


class Shadow:
    """Marks for `size` bytes of memory, in units of `unit` bytes."""

    def __init__(self, size: int, unit: int):
        self.unit = unit
        self.shift = unit.bit_length() - 1
        self.units = -(-size // unit)
        self._written, self._first_atomic, self._last_atomic, self._first_read, self._last_read = (
            np.zeros(self.units, np.int64) for _ in range(5)
        )
        self._atomics = False
        self._patterns: dict[tuple[int, int], tuple[Any, Indices, Indices | None, bool]] = {}

    def finer(self, unit: int) -> Shadow:
        """The same marks in smaller units."""
        shadow = Shadow(self.units * self.unit, unit)
        for name in ("_written", "_first_atomic", "_last_atomic", "_first_read", "_last_read"):
            setattr(shadow, name, np.repeat(getattr(self, name), self.unit // unit))
        shadow._atomics = self._atomics
        return shadow

    def _units(self, entry: Entry) -> tuple[Indices, Indices | None, bool]:
        """Units from the base on, of which access each is (None: one unit each), whether all are different."""
        key = id(entry.offsets), entry.size
        found = self._patterns.get(key)
        if found is None:
            first = entry.offsets >> self.shift
            many = max(1, entry.size >> self.shift)
            which = None
            if many > 1:
                first = (first[:, None] + np.arange(many)).reshape(-1)
                which = np.repeat(np.arange(len(entry.offsets)), many)
            if len(self._patterns) > 4096:
                self._patterns.clear()
            distinct = len(np.unique(first)) == len(first)
            found = self._patterns[key] = entry.offsets, first, which, distinct
        return found[1:]

    def mark(self, entry: Entry, floor: int, stale: Callable[[Indices], NDArray[np.bool_]], out: Conflicts) -> None:
        """Put an access's marks, and add what they come into conflict with to `out`.

        Marks of strands before `floor` do not count as those of the first; those that `stale` is true of in no way.
        """
        relative, which, distinct = self._units(entry)
        units = relative + (entry.base >> self.shift)
        tags = entry.strands << STRAND_SHIFT | entry.number << _LANE_BITS | entry.lanes
        strands = entry.strands
        if which is not None:
            tags, strands = tags[which], strands[which]

        def against(marks: NDArray[np.int64]) -> None:
            old = marks[units]
            bad = (old != 0) & (old >> STRAND_SHIFT != strands)
            if bad.any():
                bad &= ~stale(old >> STRAND_SHIFT)
                if bad.any():
                    out.add(old[bad], tags[bad], units[bad])

        does = entry.does
        against(self._written)
        if does in (Does.READ, Does.WRITE) and self._atomics:
            against(self._first_atomic)
            against(self._last_atomic)
        if does in (Does.WRITE, Does.ATOMIC):
            against(self._first_read)
            against(self._last_read)
        if does is Does.WRITE:
            self._written[units] = tags
            if not distinct:  # lanes of several strands at one unit: all but the last see another's mark
                against(self._written)
        elif does is Does.ATOMIC:
            self._atomics = True
            self._put(self._first_atomic, self._last_atomic, units, tags, floor)
        elif does is Does.READ:
            self._put(self._first_read, self._last_read, units, tags, floor)

    @staticmethod
    def _put(first: Indices, last: Indices, units: Indices, tags: Indices, floor: int) -> None:
        old = first[units]
        first[units] = np.where(old >> STRAND_SHIFT < floor, tags, old)
        last[units] = tags
