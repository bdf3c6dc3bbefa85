"""The records of the access log, and all of them as rows: one row for each unit of memory that a lane touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuemu.trace.model import Instruction

Indices = NDArray[np.int64]
_LANE_BITS = 10
ENTRY_BITS = 24
ENTRIES = (1 << ENTRY_BITS) - 1
STRAND_SHIFT = _LANE_BITS + ENTRY_BITS
_MOST_PATTERNS = 4096


class Does(IntEnum):
    """Kinds of accesses: plain reads and writes, atomics, and `strong` reads, such as of a flag."""

    READ = 0
    WRITE = 1
    ATOMIC = 2
    STRONG_READ = 3


CONFLICTS = (
    (False, True, True, False),
    (True, True, True, True),
    (True, True, False, False),
    (False, True, False, False),
)
"""Whether two accesses of different threads that nothing orders are a race, by their kinds."""


@dataclass(eq=False, slots=True)
class Entry:
    """An access of the log: `offsets` [n] bytes from `base` of `size` bytes each, by `lanes` [n] in `strands` [n].

    `phases` [n]: the synchronizations of its warp between which each lane was; None if that is not known. `copy`: the
    kind of the copy that goes on after its instruction, "" if none does. `collective`: each lane gets the data that
    others have addressed.
    """

    instruction: Instruction
    does: Does
    size: int
    base: int
    offsets: Indices
    lanes: Indices
    strands: Indices
    cta: int
    phases: Indices | None = None
    copy: str = ""
    collective: bool = False
    name: object = None
    values: NDArray[Any] | None = None
    varied: bool = False
    number: int = 0

    def part(self, chosen: NDArray[np.bool_], strands: Indices) -> Entry:
        """The access of some of its lanes, in other strands."""
        phases = None if self.phases is None else self.phases[chosen]
        return Entry(
            self.instruction, self.does, self.size, self.base, self.offsets[chosen], self.lanes[chosen], strands,
            self.cta, phases, self.copy, self.collective,
        )  # fmt: skip

    def same(self, i: int, other: Entry, j: int) -> bool:
        """Whether two lanes, by their indices in both accesses, stored equal values each time."""
        if self.values is None or other.values is None or self.varied or other.varied:
            return False
        return bool(self.values[i].tobytes() == other.values[j].tobytes())


class Rows(NamedTuple):
    """Accesses of lanes to units: arrays of one length, in the order of the log. `entry` is the index in the log."""

    unit: Indices
    strand: Indices
    does: Indices
    entry: Indices
    lane: Indices
    phase: Indices

    def part(self, chosen: Any) -> Rows:
        return Rows(*(column[chosen] for column in self))

    def tags(self, entries: Sequence[Entry]) -> Indices:
        """The strand, the entry and the lane of each as one number."""
        numbers = np.array([entry.number for entry in entries], np.int64)
        return self.strand << STRAND_SHIFT | numbers[self.entry] << _LANE_BITS | self.lane


def tags(entry: Entry) -> Indices:
    """The tags of an access's lanes, as in Rows.tags."""
    return entry.strands << STRAND_SHIFT | entry.number << _LANE_BITS | entry.lanes


def strand_of(tags: Any) -> Any:
    """The strands of tags."""
    return tags >> STRAND_SHIFT


def with_strands(tags: Indices, strands: Indices) -> Indices:
    """Tags with other strands."""
    return strands << STRAND_SHIFT | tags & (1 << STRAND_SHIFT) - 1


def entry_of(tags: Any) -> Any:
    """The numbers of the entries of tags."""
    return tags >> _LANE_BITS & ENTRIES


def lane_of(tags: Any) -> Any:
    """The lanes of tags."""
    return tags & (1 << _LANE_BITS) - 1


@dataclass
class Units:
    """The units of `1 << shift` bytes that accesses touch, cached by offsets and size."""

    shift: int
    _known: dict[tuple[int, int], tuple[Any, Indices, Indices | None]] = field(default_factory=dict)

    def of(self, entry: Entry) -> tuple[Indices, Indices | None]:
        """The units from the entry's base on, and the lane of each; None: one unit for each lane."""
        key = id(entry.offsets), entry.size
        found = self._known.get(key)
        if found is None:
            first = entry.offsets >> self.shift
            many = max(1, entry.size >> self.shift)
            which = None
            if many > 1:
                first = (first[:, None] + np.arange(many)).reshape(-1)
                which = np.repeat(np.arange(len(entry.offsets)), many)
            if len(self._known) > _MOST_PATTERNS:
                self._known.clear()
            found = self._known[key] = entry.offsets, first, which
        return found[1:]

    def rows(self, entries: Sequence[Entry]) -> Rows:
        columns: tuple[list[Indices], ...] = ([], [], [], [], [], [])
        for number, entry in enumerate(entries):
            units, which = self.of(entry)
            of_lane = slice(None) if which is None else which
            lanes = entry.lanes[of_lane]
            phases = np.full(len(lanes), -1) if entry.phases is None else entry.phases[of_lane]
            columns[0].append(units + (entry.base >> self.shift))
            columns[1].append(entry.strands[of_lane])
            columns[2].append(np.full(len(lanes), int(entry.does)))
            columns[3].append(np.full(len(lanes), number))
            columns[4].append(lanes)
            columns[5].append(phases)
        return Rows(*(np.concatenate(column) for column in columns))
