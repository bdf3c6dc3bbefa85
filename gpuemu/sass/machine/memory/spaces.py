"""Checked accesses to memory: the location of the lanes' addresses, and the errors for wrong ones.

A space is created once for each instruction that accesses memory. `window` converts a place to a range of memory and
the units of the lanes in it, usually with a few comparisons. Addresses in several buffers become `pieces`. Loads,
stores, copies and atomics are array operations on these. If lanes store to the same address, the value of the last lane
remains; hardware leaves the value of any of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.environment import ExecutionError, Fault
from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.memory import clusters
from gpuemu.sass.machine.memory.storage import LOCAL_WINDOW, SHARED_WINDOW, UNITS, WINDOW_BYTES, WRITTEN, Buffer, Views
from gpuemu.sass.machine.operands import Site
from gpuemu.sass.machine.recording.patterns import Indices, Pattern, Place

NULL_BYTES = 1 << 16
"""Addresses below this are assumed to be offsets from a null pointer."""


class Purpose(Enum):
    """The access of an instruction at its addresses; the value is the word for it in messages."""

    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"


def sized(size: int, word: str) -> str:
    """Return `a 4-byte load`, `an 8-byte load`."""
    return f"{'an' if size == 8 else 'a'} {size}-byte {word}"


def counted(count: int) -> str:
    """Return `1 byte`, `2 bytes`."""
    return "1 byte" if count == 1 else f"{count} bytes"


class Piece(NamedTuple):
    """Addresses in one piece of memory.

    `units`: their indices in the view for the access's size. `part`: their indices among the addresses.
    """

    memory: Views
    units: Indices
    part: Indices


Window = tuple[NDArray[Any], Indices | None]
"""A range of memory in units of the access's size, and the unit of each lane in it: see Units."""
EVERY = slice(None)


class Space(ABC):
    """The addresses of one instruction; this class has the common parts of all memories."""

    name = ""
    """The name of the memory."""

    def __init__(self, site: Site, size: int, purpose: Purpose):
        self.site = site
        self.size = size
        self.purpose = purpose
        self.memory = site.environment.memory
        self.unit = UNITS[size]
        self.shift = size.bit_length() - 1
        self.what = sized(size, purpose.value)
        self.observer = site.environment.observer

    @abstractmethod
    def window(self, place: Place) -> Window | None:
        """Return the memory around all of the place's addresses; None if not one range. May raise ExecutionError."""

    def pieces(self, place: Place) -> Iterator[Piece]:
        """Yield the pieces of memory of a place that has no window. Raises ExecutionError."""
        raise NotImplementedError

    def windows(self, place: Place) -> Iterator[tuple[Window, Indices | slice]]:
        """Yield all of the place's memory, and for each range the indices of the addresses in it."""
        window = self.window(place)
        if window is not None:
            yield window, EVERY
            return
        for piece in self.pieces(place):
            yield (piece.memory[self.size], piece.units), piece.part

    def load(self, place: Place) -> NDArray[Any]:
        """Return the unit at each address, in lane order. Read the result at once, because it may be memory itself."""
        window = self.window(place)
        if window is not None:
            units, index = window
            return units if index is None else units.take(index)
        values = np.zeros(place.pattern.count, dtype=self.unit)
        for (units, index), part in self.windows(place):
            values[part] = units[index]
        return values

    def store(self, place: Place, values: NDArray[Any]) -> None:
        """Store values, in units of the access's size and in lane order, at the addresses."""
        window = self.window(place)
        if window is not None:
            units, index = window
            units[EVERY if index is None else index] = values
        else:
            for (units, index), part in self.windows(place):
                units[index] = values[part]
        if self.observer is not None:
            self.observer.stored(self, place, values)

    def record(self, place: Place, mask: Mask) -> None:
        """Record the addresses of the mask's lanes."""
        self.site.environment.record(place, mask)

    def error(
        self, place: Place, k: int, found: str, right: str, bad: NDArray[np.bool_], kind: str = "outside"
    ) -> ExecutionError:
        """Return an error about the k-th of the addresses; `bad` are all addresses with the same fault."""
        lanes = place.pattern.lanes
        which = np.flatnonzero(bad) if lanes is None else lanes[bad]
        error = ExecutionError(self.site.instruction, k if lanes is None else int(lanes[k]), found, right)
        address = place.base + int(place.pattern.offsets[k])
        places = None
        if kind == "unwritten":
            places = (place.base + place.pattern.offsets[bad][:, None] + np.arange(self.size)).reshape(-1)
        error.fault = Fault(self.name, self.purpose.value, self.size, kind, address, which, places)
        return error

    def inside(self, base: int, pattern: Pattern, length: int) -> bool:
        """Whether all addresses, relative to the start of a piece of `length` bytes, are inside it and aligned."""
        size = self.size
        return (
            base + pattern.low >= 0 and base + pattern.high + size <= length and not (base | pattern.bits) & (size - 1)
        )

    def cut(self, memory: Views, base: int, pattern: Pattern) -> Window:
        """Return the window of addresses that are inside a piece of memory."""
        span, index = pattern.units(self.shift)
        first = base + pattern.low >> self.shift
        return memory[self.size][first : first + span], index

    def misaligned(self, address: str) -> tuple[str, str]:
        """Return the message for an address that is not a multiple of the size."""
        return f"{self.what} at {address}", f"expected a multiple of {self.size}"


class GlobalSpace(Space):
    """Device addresses, uint64."""

    name = "global"

    last: Buffer | None = None
    """The buffer of all lanes in the previous access; it is usually the same again."""

    def window(self, place: Place) -> Window | None:
        base, pattern = place
        buffer = self.last
        if buffer is not None and self.inside(base - buffer.start, pattern, buffer.bytes):
            buffer.is_read |= self.purpose is not Purpose.STORE
            if self.observer is not None and pattern.count:
                self.observer.access(self, place)
            return self.cut(buffer.views, base - buffer.start, pattern)
        for buffer in self.memory.buffers:
            if self.inside(base - buffer.start, pattern, buffer.bytes):
                self.last = buffer
                buffer.is_read |= self.purpose is not Purpose.STORE
                if self.observer is not None and pattern.count:
                    self.observer.access(self, place)
                return self.cut(buffer.views, base - buffer.start, pattern)
        return None

    def pieces(self, place: Place) -> Iterator[Piece]:
        buffers = self.memory.buffers
        addresses = place.addresses(64)
        if len(addresses) == 0:
            return
        if not buffers:
            raise self._outside(place, addresses, 0, np.ones(len(addresses), np.bool_))
        starts = np.array([b.start for b in buffers], dtype=np.uint64)
        owner = np.searchsorted(starts, addresses, side="right") - 1
        lengths = np.array([b.bytes for b in buffers], dtype=np.int64)
        into = (addresses - starts[np.maximum(owner, 0)]).view(np.int64)
        # The distance of an address of 2^63 or more from a buffer may exceed signed 64 bits.
        bad = (owner < 0) | (into < 0) | (into > lengths[owner] - self.size) | (into & (self.size - 1) != 0)
        if bad.any():
            raise self._outside(place, addresses, int(bad.argmax()), bad)
        if self.observer is not None:
            self.observer.access(self, place)
        for number in np.unique(owner):
            part = np.flatnonzero(owner == number)
            buffers[number].is_read |= self.purpose is not Purpose.STORE
            yield Piece(buffers[number].views, into[part] >> self.shift, part)

    def _outside(self, place: Place, addresses: NDArray[Any], k: int, bad: NDArray[np.bool_]) -> ExecutionError:
        address = int(addresses[k])
        at = f"{self.what} at {address:#x}"
        nearest = min(self.memory.buffers, key=lambda b: _distance(b, address, self.size), default=None)
        for name, window in (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW)):
            if window <= address < window + WINDOW_BYTES:
                found = f"{at}, an address in {name} memory"
                return self.error(place, k, found, "Use an address in global memory", bad)
        rank = clusters.other_window(address)
        if rank:
            raise clusters.refusal(self.site, rank)
        below = (1 << 64) - address
        if min(address, below) < NULL_BYTES or nearest is None:
            found = at
            if min(address, below) < NULL_BYTES:
                found += f", a null pointer {'plus' if address < below else 'minus'} {counted(min(address, below))}"
            names = ", ".join(b.name for b in self.memory.buffers) or "none"
            return self.error(place, k, found, f"Use an address in a buffer of the launch ({names})", bad)
        first, last = nearest.start, nearest.start + nearest.bytes - self.size
        name = f"{nearest.name} ({counted(nearest.bytes)})"
        if address < first:
            found = f"{at}, {counted(first - address)} before the start of {name}"
            return self.error(place, k, found, f"Use an address from {first:#x} on", bad)
        if address > last:
            found = f"{at}, {past(address, self.size, nearest.start + nearest.bytes)} the end of {name}"
            right = f"Use an address up to {last:#x}" if last >= first else "Use a buffer with room for the access"
            return self.error(place, k, found, right, bad)
        return self.error(place, k, *self.misaligned(f"{address:#x} in {nearest.name}"), bad, "misaligned")


def _distance(buffer: Buffer, address: int, size: int) -> int:
    """Return the number of bytes by which an access misses a buffer."""
    return max(buffer.start - address, address + size - buffer.start - buffer.bytes, 0)


def past(address: int, size: int, end: int) -> str:
    """Return how far an access is past an end: its first byte, or the number of its bytes that are.

    The count follows compute-sanitizer, for which the byte at the end is 1 byte after the allocation.
    """
    if address < end:
        return f"{address + size - end} of its bytes past"
    return f"{counted(address - end + 1)} past"


class SharedSpace(Space):
    """Bytes of the CTA's shared memory, as uint32 offsets from its first byte."""

    name = "shared"
    plain = True
    """Whether addresses without a rank select the CTA's own memory."""

    def __init__(self, site: Site, size: int, purpose: Purpose):
        super().__init__(site, size, purpose)
        self._full = _WRITTEN_BYTE * (size * site.lanes.count)

    def window(self, place: Place) -> Window:
        """Implement Space.window. Stored bytes count as written; a load must contain a written byte.

        One byte is enough, because compilers copy structures together with the unwritten bytes between their members.
        """
        memory = self.memory
        if memory.cluster is not None:
            place, other = memory.belongs(place, self.plain)
            if other is not None:
                return self._of_other(place, other)
        base, pattern = place
        if not self.inside(base, pattern, memory.shared_bytes):
            raise self._outside(place)
        window = self.cut(memory.shared, base, pattern)
        if not memory.all_written and (base, self.size, pattern.key) not in memory.places_written:
            shadow, index = self.cut(memory.written, base, pattern)
            whole = self.purpose is Purpose.STORE or self._all_written(
                shadow if index is None else shadow.take(index), place
            )
            if self.purpose is not Purpose.LOAD:
                shadow[EVERY if index is None else index] = _ALL[self.size]
            if whole:
                memory.note_written((base, self.size, pattern.key))
        if self.observer is not None and pattern.count:
            self.observer.access(self, place)
        return window

    def _of_other(self, place: Place, rank: int) -> Window:
        """Return the memory of another CTA of the cluster."""
        cluster, (base, pattern) = self.memory.cluster, place
        if cluster is None or (self.plain and self.purpose is not Purpose.ATOMIC):
            raise clusters.refusal(self.site, rank)
        shared, written = clusters.part_of(cluster.shared, rank, self.site)
        if not self.inside(base, pattern, self.memory.shared_bytes):
            raise self._outside(place)
        shadow, index = self.cut(written, base, pattern)
        if self.purpose is not Purpose.STORE and not self.memory.zero_shared:
            self._all_written(shadow if index is None else shadow.take(index), place)
        if self.purpose is not Purpose.LOAD:
            shadow[EVERY if index is None else index] = _ALL[self.size]
            cluster.changes += 1
        if self.observer is not None and pattern.count:
            self.observer.reaches(self, place, rank)
        return self.cut(shared, base, pattern)

    def record(self, place: Place, mask: Mask) -> None:
        """Implement Space.record."""
        super().record(place if self.memory.cluster is None else self.memory.belongs(place, self.plain)[0], mask)

    def _all_written(self, shadow: NDArray[Any], place: Place) -> bool:
        """Whether all bytes are written. Raises ExecutionError if all bytes of an address are unwritten."""
        found = shadow.tobytes()
        if found == self._full or found.count(_WRITTEN_BYTE) == len(found):
            return True
        unwritten = (np.frombuffer(found, np.uint8).reshape(-1, self.size) != WRITTEN).all(axis=1)
        if not unwritten.any():
            return False
        k = int(unwritten.argmax())
        start = place.base + int(place.pattern.offsets[k])
        what = f"{self.what} at byte {start} of shared memory, which was never written by the CTA"
        raise self.error(place, k, what, "Store to it first", unwritten, "unwritten")

    def _outside(self, place: Place) -> ExecutionError:
        length = self.memory.shared_bytes
        offsets = place.addresses(32).astype(np.int64)
        bad = (offsets + self.size > length) | (offsets & (self.size - 1) != 0)
        k = int(bad.argmax())
        offset = int(offsets[k])
        base = self.memory.shared_base
        if offset >= 1 << 31:
            offset -= 1 << 32
        last = length - self.size
        holds = f"Use an address in the {counted(length)} of the CTA's shared memory"
        rank = clusters.whose(base + offset)
        if 0 < rank < clusters.MOST_CTAS and self.memory.cluster is None:
            raise clusters.refusal(self.site, rank)
        if offset < 0:
            origin = f", which starts at {base:#x}" if base else ""
            found = f"{self.what} at {counted(-offset)} before the start of shared memory{origin}"
            return self.error(place, k, found, holds, bad)
        if offset > last:
            found = f"{self.what} at byte {offset} of shared memory, {past(offset, self.size, length)} its end"
            none = f"{holds}; --dynamic-shared (dynamic_shared_bytes) gives an extern array its size"
            right = f"{holds}, up to byte {last}" if last >= 0 else none if length == 0 else holds
            return self.error(place, k, found, right, bad)
        return self.error(place, k, *self.misaligned(f"byte {offset} of shared memory"), bad, "misaligned")


_WRITTEN_BYTE = bytes([WRITTEN])
_ALL: dict[int, Any] = {size: np.full(size, WRITTEN, dtype=np.uint8).view(unit)[0] for size, unit in UNITS.items()}


class LocalSpace(Space):
    """Bytes of each lane's own local memory, as uint32 offsets in its frame."""

    name = "local"

    def __init__(self, site: Site, size: int, purpose: Purpose):
        super().__init__(site, size, purpose)
        self._frames = np.arange(site.lanes.count, dtype=np.int64) * (self.memory.local_pitch >> self.shift)
        self._last: tuple[Pattern, Indices] | None = None

    def window(self, place: Place) -> Window:
        length = self.memory.local_bytes
        base, pattern = place
        if not self.inside(base, pattern, length):
            raise self._outside(place, length)
        if self.observer is not None and pattern.count:
            self.observer.access(self, place)
        if pattern.lanes is None and pattern.low == pattern.high:  # the common case: the same variable of every lane
            units = self.memory.local[self.size]
            first = place.base + pattern.low >> self.shift
            return units[first :: self.memory.local_pitch >> self.shift][: pattern.count], None
        if self._last is None or self._last[0] is not pattern:
            frames = self._frames if pattern.lanes is None else self._frames[pattern.lanes]
            self._last = pattern, frames + ((pattern.offsets - pattern.low) >> self.shift)
        first = place.base + pattern.low >> self.shift
        return self.memory.local[self.size][first:], self._last[1]

    def _outside(self, place: Place, length: int) -> ExecutionError:
        offsets = place.addresses(32).astype(np.int64)
        bad = (offsets + self.size > length) | (offsets & (self.size - 1) != 0)
        k = int(bad.argmax())
        offset = int(offsets[k])
        if offset + self.size <= length:
            what = self.misaligned(f"byte {offset} of local memory")
            return self.error(place, k, *what, bad, "misaligned")
        found = f"{self.what} at byte {offset} of local memory"
        return self.error(place, k, found, f"a lane has {counted(length)} of local memory", bad)
