"""Accesses to memory, checked: where the lanes' addresses lie, and what a kernel author is told if they lie wrong.

A space is made once for each instruction that accesses memory. `locate` turns addresses into pieces: views
of memory and indices into them. Loads, stores, copies and atomics are array operations on those. Lanes that
store to the same address leave the value of the last of them; hardware leaves that of any.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.environment import ExecutionError
from gpuemu.sass.lanes import Mask
from gpuemu.sass.memory import LOCAL_WINDOW, SHARED_WINDOW, UNITS, WINDOW_BYTES, WRITTEN, Buffer, Views
from gpuemu.sass.operands import Site

Indices = NDArray[np.int64]
NULL_BYTES = 1 << 16
"""Addresses below this are taken for offsets from a null pointer."""


class Access(Enum):
    """What an instruction does at its addresses; the value is the word for it in messages."""

    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"


def sized(size: int, word: str) -> str:
    """`a 4-byte load`, `an 8-byte load`."""
    return f"{'an' if size == 8 else 'a'} {size}-byte {word}"


def counted(count: int) -> str:
    """`1 byte`, `2 bytes`."""
    return "1 byte" if count == 1 else f"{count} bytes"


class Piece(NamedTuple):
    """Addresses in one piece of memory: `units` in its view of the access's size, of the addresses `part`.

    `part` are places in the array of addresses; None stands for all of them in order.
    """

    memory: Views
    units: Indices
    part: Indices | None


class Space(ABC):
    """The addresses of one instruction: what all kinds of memory have in common."""

    def __init__(self, site: Site, size: int, access: Access):
        self.site = site
        self.size = size
        self.access = access
        self.memory = site.environment.memory
        self.unit = UNITS[size]
        self.shift = size.bit_length() - 1
        self.count = site.lanes.count
        self.what = sized(size, access.value)

    @abstractmethod
    def locate(self, addresses: NDArray[Any], lanes: Indices | None) -> list[Piece]:
        """The pieces of memory at the addresses of these lanes (None: of all). Raises ExecutionError."""

    def select(self, addresses: NDArray[Any], mask: Mask) -> tuple[list[Piece], Indices | None]:
        """The pieces at the addresses of the mask's lanes, and the numbers of those lanes."""
        if mask is None:
            return self.locate(addresses, None), None
        lanes = mask.nonzero()[0]
        return self.locate(addresses[lanes], lanes), lanes

    def load(self, addresses: NDArray[Any], mask: Mask) -> NDArray[Any]:
        """The unit at each lane's address, [lanes]; 0 in lanes that take no part."""
        pieces, lanes = self.select(addresses, mask)
        memory, index, part = pieces[0]
        if part is None and lanes is None:
            return memory[self.size][index]
        values = np.zeros(self.count, dtype=self.unit)
        for memory, index, part in pieces:
            values[_chosen(lanes, part)] = memory[self.size][index]
        return values

    def store(self, addresses: NDArray[Any], values: NDArray[Any], mask: Mask) -> None:
        """Put values [lanes], in units of the access's size, to the addresses."""
        pieces, lanes = self.select(addresses, mask)
        for memory, index, part in pieces:
            memory[self.size][index] = values if part is None and lanes is None else values[_chosen(lanes, part)]

    def record(self, addresses: NDArray[Any], mask: Mask) -> None:
        """Tell whoever records where the lanes went."""
        self.site.environment.record(self.site, addresses, mask)

    def error(self, lanes: Indices | None, k: int, found: str, right: str) -> ExecutionError:
        """An error about the k-th of the addresses, which are those of `lanes`."""
        return ExecutionError(self.site.instruction, k if lanes is None else int(lanes[k]), found, right)

    def within(self, offsets: NDArray[Any], length: int) -> bool:
        """Whether all offsets are aligned and their units end within `length` bytes.

        The bits that any offset has tell both, save that they overestimate the largest offset.
        """
        bits = int(np.bitwise_or.reduce(offsets)) if len(offsets) else 0
        if bits & (self.size - 1):
            return False
        return bits + self.size <= length or int(offsets.max()) + self.size <= length

    def misaligned(self, address: str) -> tuple[str, str]:
        """What to say of an address that is no multiple of the size."""
        return f"{self.what} at {address}", f"a multiple of {self.size} is right for it"


def _chosen(lanes: Indices | None, part: Indices | None) -> Indices | slice:
    if part is None:
        return slice(None) if lanes is None else lanes
    return part if lanes is None else lanes[part]


class GlobalSpace(Space):
    """Device addresses, uint64."""

    last: Buffer | None = None
    """The buffer that all lanes met in last time: most often it is that one again."""

    def locate(self, addresses: NDArray[Any], lanes: Indices | None) -> list[Piece]:
        """See Space."""
        buffer = self.last
        if buffer is not None:
            offsets = addresses - buffer.start64
            if self.within(offsets, buffer.bytes):
                return [Piece(buffer.views, (offsets >> np.uint64(self.shift)).view(np.int64), None)]
        return list(self._search(addresses, lanes))

    def _search(self, addresses: NDArray[Any], lanes: Indices | None) -> Iterator[Piece]:
        buffers = self.memory.buffers
        starts = np.array([b.start for b in buffers], dtype=np.uint64)
        owner = np.searchsorted(starts, addresses, side="right") - 1
        lengths = np.array([b.bytes for b in buffers], dtype=np.int64)
        if not buffers:
            raise self._outside(addresses, 0, lanes)
        into = (addresses - starts[np.maximum(owner, 0)]).view(np.int64)
        bad = (owner < 0) | (into > lengths[owner] - self.size) | (into & (self.size - 1) != 0)
        if bad.any():
            raise self._outside(addresses, int(bad.argmax()), lanes)
        owners = np.unique(owner)
        for number in owners:
            buffer = buffers[number]
            part = None if len(owners) == 1 else np.flatnonzero(owner == number)
            index = into if part is None else into[part]
            self.last = buffer
            yield Piece(buffer.views, index >> self.shift, part)

    def _outside(self, addresses: NDArray[Any], k: int, lanes: Indices | None) -> ExecutionError:
        address = int(addresses[k])
        at = f"{self.what} at {address:#x}"
        nearest = min(self.memory.buffers, key=lambda b: _distance(b, address, self.size), default=None)
        for name, window in (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW)):
            if window <= address < window + WINDOW_BYTES:
                found = f"{at}, an address in {name} memory"
                return self.error(lanes, k, found, "this instruction accesses global memory only")
        if address < NULL_BYTES or nearest is None:
            found = f"{at}, a null pointer plus {counted(address)}" if address < NULL_BYTES else at
            names = ", ".join(b.name for b in self.memory.buffers) or "none"
            return self.error(lanes, k, found, f"an address in a buffer of the launch is right ({names})")
        first, last = nearest.start, nearest.start + nearest.bytes - self.size
        name = f"{nearest.name} ({counted(nearest.bytes)})"
        if address < first:
            found = f"{at}, {counted(first - address)} before the start of {name}"
            return self.error(lanes, k, found, f"addresses from {first:#x} are in it")
        if address > last:
            found = f"{at}, {counted(address - last)} past the end of {name}"
            right = f"addresses up to {last:#x} are in it" if last >= first else "nothing this wide is in it"
            return self.error(lanes, k, found, right)
        return self.error(lanes, k, *self.misaligned(f"{address:#x} in {nearest.name}"))


def _distance(buffer: Buffer, address: int, size: int) -> int:
    """By how many bytes an access misses a buffer."""
    return max(buffer.start - address, address + size - buffer.start - buffer.bytes, 0)


class SharedSpace(Space):
    """Bytes of the CTA's shared memory, counted from its first: uint32 offsets."""

    def locate(self, addresses: NDArray[Any], lanes: Indices | None) -> list[Piece]:
        """See Space."""
        memory = self.memory
        if not self.within(addresses, memory.shared_bytes):
            raise self._outside(addresses, lanes)
        index = (addresses >> np.uint32(self.shift)).astype(np.int64)
        if not memory.all_written:
            written = memory.written[self.size]
            if self.access is Access.STORE:
                written[index] = _ALL[self.size]
            else:
                self._check_written(written[index], addresses, lanes)
        return [Piece(memory.shared, index, None)]

    def _check_written(self, shadow: NDArray[Any], addresses: NDArray[Any], lanes: Indices | None) -> None:
        if self.size == 16:
            shadow = shadow.view(np.uint64)
        full = _FULL[min(self.size, 8)]
        if len(shadow) and int(np.bitwise_and.reduce(shadow)) != full:
            per_byte = shadow.view(np.uint8).reshape(-1, self.size)
            k = int((per_byte != WRITTEN).any(axis=1).argmax())
            start = int(addresses[k])
            byte = start + int((per_byte[k] != WRITTEN).argmax())
            which = "which was" if self.size == 1 else f"whose byte {byte} was"
            found = f"{self.what} at byte {start} of shared memory, {which} never written by the CTA"
            raise self.error(lanes, k, found, "shared memory has no value before a store to it")

    def _outside(self, addresses: NDArray[Any], lanes: Indices | None) -> ExecutionError:
        length = self.memory.shared_bytes
        offsets = addresses.astype(np.int64)
        bad = (offsets + self.size > length) | (offsets & (self.size - 1) != 0)
        k = int(bad.argmax())
        offset = int(offsets[k])
        base = self.memory.shared_base
        if offset >= 1 << 31:
            offset -= 1 << 32
        last = length - self.size
        holds = f"the CTA has {counted(length)} of shared memory"
        if offset < 0:
            origin = f", which starts at {base:#x}" if base else ""
            found = f"{self.what} at {counted(-offset)} before the start of shared memory{origin}"
            return self.error(lanes, k, found, holds)
        if offset > last:
            found = f"{self.what} at byte {offset} of shared memory, {counted(offset - last)} past its end"
            return self.error(lanes, k, found, f"{holds}: up to byte {last} is right" if last >= 0 else holds)
        return self.error(lanes, k, *self.misaligned(f"byte {offset} of shared memory"))


_FULL = {size: (1 << 8 * size) - 1 for size in (1, 2, 4, 8)}
_ALL: dict[int, Any] = {size: unit.type(_FULL[size]) for size, unit in UNITS.items() if size < 16}
_ALL[16] = np.full(16, WRITTEN, dtype=np.uint8).view(UNITS[16])[0]


class LocalSpace(Space):
    """Bytes of each lane's own local memory: uint32 offsets in its frame."""

    def __init__(self, site: Site, size: int, access: Access):
        super().__init__(site, size, access)
        self.frames = np.arange(self.count, dtype=np.int64) * (self.memory.local_pitch >> self.shift)

    def locate(self, addresses: NDArray[Any], lanes: Indices | None) -> list[Piece]:
        """See Space."""
        length = self.memory.local_bytes
        if not self.within(addresses, length):
            bad = (addresses.astype(np.int64) + self.size > length) | (addresses & np.uint32(self.size - 1) != 0)
            k = int(bad.argmax())
            offset = int(addresses[k])
            if offset + self.size <= length:
                raise self.error(lanes, k, *self.misaligned(f"byte {offset} of local memory"))
            found = f"{self.what} at byte {offset} of local memory"
            raise self.error(lanes, k, found, f"a lane has {counted(length)} of local memory")
        frames = self.frames if lanes is None else self.frames[lanes]
        index = (addresses >> np.uint32(self.shift)).astype(np.int64)
        index += frames
        return [Piece(self.memory.local, index, None)]
