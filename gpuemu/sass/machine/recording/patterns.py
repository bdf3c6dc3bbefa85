"""The relative addresses of an access's lanes, computed once and remembered.

An instruction repeats its pattern again and again: in the next iteration of its loop, in the next CTA, at another base.
A `Pattern` holds the distances of the lanes' addresses from the first lane's. From them it derives their range, their
units of memory, and the lanes that share a unit. A `Place` is a pattern at an address. A few scalar comparisons show
whether all of it is aligned and inside a buffer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
MOST_PATTERNS = 4096
"""Maximum number of remembered patterns; a kernel with data-dependent addresses has no end of them."""


class Units(NamedTuple):
    """A pattern in units of memory: the number from the lowest to the highest, and the unit of each lane.

    `of_lane` is None if the lanes have all units in order.
    """

    span: int
    of_lane: Indices | None


class Queues(NamedTuple):
    """Lanes that share a unit, ordered by their numbers: a queue for each unit.

    `order`: indices of the pattern, sorted by unit. For each of these, `queue` is the number of its queue, and `rank`
    the number of lanes before it there. `heads` is the start of each queue in `order`, `first` the first lane of each,
    and `longest` the maximum length of a queue.
    """

    order: Indices
    queue: Indices
    rank: Indices
    heads: Indices
    first: Indices
    longest: int


class Pattern:
    """Distances in bytes of the lanes' addresses from that of the first lane.

    `lanes`: the numbers of the active lanes, None for all of the CTA. Two patterns with the same `key`, which consists
    of the mask and the offsets, are equal.
    """

    def __init__(self, key: tuple[bytes, bytes], lanes: Indices | None, offsets: Indices):
        self.key = self.mask_name, self.name = key
        self.lanes = lanes
        self.offsets = offsets
        self.count = len(offsets)
        self.low = int(offsets.min()) if self.count else 0
        self.high = int(offsets.max()) if self.count else 0
        self.bits = int(np.bitwise_or.reduce(offsets)) if self.count else 0
        """The bits that any offset has; the low ones show whether all are aligned."""
        self._units: dict[int, Units] = {}
        self._queues: dict[int, Queues | None] = {}
        self._parts: dict[bytes, tuple[int, Pattern]] = {}

    def units(self, shift: int) -> Units:
        """Return the pattern in units of 2^shift bytes; it must be aligned to them."""
        found = self._units.get(shift)
        if found is None:
            index = (self.offsets - self.low) >> shift
            span = (self.high - self.low >> shift) + 1
            straight = span == self.count and bool((index == np.arange(span)).all())
            found = self._units[shift] = Units(span, None if straight else index)
        return found

    def queues(self, shift: int) -> Queues | None:
        """Return the lanes that share units of 2^shift bytes, or None if no two do."""
        if shift not in self._queues:
            self._queues[shift] = queues(self.offsets >> shift)
        return self._queues[shift]

    def part(self, chosen: NDArray[np.bool_]) -> tuple[int, Pattern]:
        """Return the pattern of its lanes in `chosen` [lanes], and the distance between the first addresses."""
        name = chosen.tobytes()
        found = self._parts.get(name)
        if found is None:
            here = chosen if self.lanes is None else chosen[self.lanes]
            every = np.arange(len(chosen)) if self.lanes is None else self.lanes
            offsets = self.offsets[here]
            delta = int(offsets[0]) if len(offsets) else 0
            offsets = offsets - delta
            pattern = Pattern((name, offsets.tobytes()), every[here], offsets)
            found = self._parts[name] = delta, pattern
        return found


def queues(units: Indices) -> Queues | None:
    """Return the indices that share a unit, or None if all units differ."""
    order = np.argsort(units, kind="stable")
    sorted_units = units[order]
    first = np.ones(len(units), dtype=np.bool_)
    np.not_equal(sorted_units[1:], sorted_units[:-1], out=first[1:])
    if first.all():
        return None
    position = np.arange(len(units))
    rank = position - np.maximum.accumulate(np.where(first, position, 0))
    heads = np.flatnonzero(first)
    return Queues(order, np.cumsum(first) - 1, rank, heads, order[heads], int(rank.max()) + 1)


class Place(NamedTuple):
    """The addresses of the active lanes: `pattern` relative to the first one's, `base`."""

    base: int
    pattern: Pattern

    def addresses(self, bits: int) -> NDArray[Any]:
        """Return the addresses of the pattern's lanes as numbers of 32 or 64 bits, which wrap."""
        kind = np.uint32 if bits == 32 else np.uint64
        base = np.uint64(self.base & 0xFFFF_FFFF_FFFF_FFFF)
        return (self.pattern.offsets.view(np.uint64) + base).astype(kind)

    def moved(self, distance: int) -> Place:
        """Return the same pattern `distance` bytes further."""
        return Place(self.base + distance, self.pattern)


class Patterns:
    """The patterns of a launch so far."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes], Pattern] = {}
        self._lanes: dict[bytes, Indices] = {}

    def lanes(self, mask: NDArray[np.bool_], name: bytes) -> Indices:
        """Return the numbers of the mask's lanes; `name` is the mask's bytes."""
        found = self._lanes.get(name)
        if found is None:
            if len(self._lanes) >= MOST_PATTERNS:
                self._lanes.clear()
            found = self._lanes[name] = mask.nonzero()[0]
        return found

    def find(self, offsets: NDArray[Any], lanes: Indices | None, mask_name: bytes, name: bytes) -> Pattern:
        """Return the pattern with these offsets, int32 or int64; `name` is their bytes, `mask_name` the mask's."""
        key = (mask_name, name)
        pattern = self._known.get(key)
        if pattern is None:
            if len(self._known) >= MOST_PATTERNS:
                self._known.clear()
            pattern = self._known[key] = Pattern(key, lanes, offsets.astype(np.int64))
        return pattern

    def place(self, addresses: NDArray[Any], lanes: Indices | None, mask_name: bytes) -> Place:
        """Return addresses of these lanes, uint32 or uint64 [len(lanes)], as a place."""
        if len(addresses) == 0:
            return Place(0, self.find(np.zeros(0, np.int32), lanes, mask_name, b""))
        offsets = (addresses - addresses[0]).view(np.int32 if addresses.dtype == np.uint32 else np.int64)
        narrow = offsets.astype(np.int32)
        if np.array_equal(narrow, offsets):
            offsets = narrow  # so that a pattern has one name, whatever the origin of its addresses
        return Place(int(addresses[0]), self.find(offsets, lanes, mask_name, offsets.tobytes()))
