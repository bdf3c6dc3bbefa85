"""The program's memory on the device: allocations, which of them a launch may reach, and whether they have changed.

A launch reaches the allocations and variables that its arguments point to, and everything that these point to. gpuemu
recognizes addresses in the heap, and assumes that each launch reaches all memory elsewhere (cudaHostRegister). Digests
show whether their contents equal those before an earlier launch. A write invalidates the digest. The library reports
copies and fills, and gpuemu compares digests to find the writes of launches.
"""

from __future__ import annotations

import hashlib
import mmap
from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpuemu.programs.protocol import BASE, HEAP_BYTES, PAGE_BYTES, MemoryKind

_WORD = 8
_BLOCK_BYTES = 1 << 22
MOST_SEARCHED_BYTES = 1 << 26
_NEAR = (0, 1 << 16)
"""An address leads to the allocations at these distances, because programs also pass `a - 1`. The end of an array is in
its last page."""
_NO_RESERVE = 0x4000
"""MAP_NORESERVE, which Python's mmap has no name for."""
_NOT_OURS = (MemoryKind.MANAGED, MemoryKind.PINNED, MemoryKind.REGISTERED)
"""Memory that the host writes without a call."""


@dataclass(eq=False)
class Allocation:
    """Memory of the program. `start` is its device address, `size` the requested bytes, and `data` whole pages."""

    start: int
    size: int
    kind: MemoryKind
    data: NDArray[np.uint8] = field(repr=False)
    offset: int | None = None
    """The offset of the first byte in the heap. None for a copy of freed memory."""
    digest: bytes | None = field(default=None, repr=False)
    """The digest of the contents. None if they may have changed."""
    points_to: tuple[int, ...] | None = field(default=None, repr=False)
    """The heap addresses in the contents. None if gpuemu has not searched them."""
    lacks: str = ""
    """The launch whose results may be missing here, because time was short."""

    @property
    def is_shared(self) -> bool:
        """Whether the host may read and write it at any time."""
        return self.kind in _NOT_OURS

    def changed(self) -> None:
        self.digest = self.points_to = None

    def is_within(self, start: int, size: int) -> bool:
        """Whether these bytes are all that the program requested."""
        return start <= self.start and self.start + self.size <= start + size

    def contents(self) -> bytes:
        """The digest of the contents, computed again if they may have changed."""
        if self.digest is None or self.is_shared:
            self.digest = hashlib.blake2b(self.data.data, digest_size=16).digest()
            self.points_to = None
        return self.digest

    def pointers(self) -> tuple[int, ...]:
        """The heap addresses in the contents, at multiples of 8 bytes."""
        if self.points_to is None or self.is_shared:
            words = self.data[: len(self.data) // _WORD * _WORD].view(np.uint64)
            found: set[int] = set()
            for at in range(0, len(words), _BLOCK_BYTES):
                found |= set(pointers_in(words[at : at + _BLOCK_BYTES]))
            self.points_to = tuple(sorted(found))
        return self.points_to


def pointers_in(words: NDArray[np.uint64]) -> list[int]:
    """The words that are heap addresses."""
    return [int(word) for word in np.unique(words[words - np.uint64(BASE) < np.uint64(HEAP_BYTES)])]


def words_of(argument: bytes) -> NDArray[np.uint64]:
    """The bytes of a parameter as words. Zeros complete the last word."""
    return np.frombuffer(argument + bytes(-len(argument) % _WORD), np.uint64)


def words_without_pointers(argument: bytes) -> bytes:
    """A parameter with zeros in place of heap addresses."""
    words = words_of(argument).copy()
    words[words - np.uint64(BASE) < np.uint64(HEAP_BYTES)] = 0
    return words.tobytes()


class ProgramMemory:
    """All allocations, by their addresses."""

    def __init__(self, heap: NDArray[np.uint8], file: int):
        self._heap = heap
        self._file = file
        self._by_start: dict[int, Allocation] = {}
        self._starts: list[int] = []

    def add(self, start: int, size: int, heap_offset: int, kind: MemoryKind) -> None:
        """A GPU maps whole pages, so that accesses up to the end of the last one succeed."""
        whole = -(-size // PAGE_BYTES) * PAGE_BYTES if kind is not MemoryKind.REGISTERED else size
        self.place(Allocation(start, size, kind, self._heap[heap_offset : heap_offset + whole], heap_offset))

    def place(self, allocation: Allocation) -> None:
        self._by_start[allocation.start] = allocation
        insort(self._starts, allocation.start)

    def remove(self, start: int) -> None:
        if self._by_start.pop(start, None) is not None:
            self._starts.remove(start)

    def at(self, address: int) -> Allocation | None:
        """The allocation at this address."""
        number = bisect_right(self._starts, address) - 1
        if number < 0:
            return None
        found = self._by_start[self._starts[number]]
        return found if address < found.start + len(found.data) else None

    def within(self, address: int, size: int) -> list[Allocation]:
        """The allocations with some of these bytes. A copy may span several."""
        first = max(0, bisect_right(self._starts, address) - 1)
        found = []
        for start in self._starts[first:]:
            if start >= address + max(1, size):
                break
            if address < start + len(self._by_start[start].data):
                found.append(self._by_start[start])
        return found

    def apart(self, allocations: Iterable[Allocation], as_requested: bool = False) -> dict[int, NDArray[np.uint8]]:
        """The contents of allocations by their addresses, in private memory. Writes copy their pages.

        `as_requested`: without the rest of the last page, so that memcheck finds accesses there.
        """
        own = mmap.mmap(self._file, len(self._heap), flags=mmap.MAP_PRIVATE | _NO_RESERVE)
        heap = np.frombuffer(own, np.uint8)
        found = {}
        for one in allocations:
            data = one.data.copy() if one.offset is None else heap[one.offset : one.offset + len(one.data)]
            found[one.start] = data[: one.size] if as_requested else data
        return found

    @property
    def everything(self) -> list[Allocation]:
        """All allocations in the order of their addresses."""
        return [self._by_start[start] for start in self._starts]

    def reached(self, arguments: Sequence[bytes], others: Iterable[int]) -> list[Allocation]:
        """The memory that a launch may access. `others` are addresses in its code.

        gpuemu does not search large allocations for pointers, and assumes that they point to all others.
        """
        todo = list(others)
        for argument in arguments:
            todo += pointers_in(words_of(argument))
        todo += [start for start in self._starts if not BASE <= start < BASE + HEAP_BYTES]
        found: dict[int, Allocation] = {}
        while todo:
            address = todo.pop()
            for one in map(self.at, (address + distance for distance in _NEAR)):
                if one is None or one.start in found:
                    continue
                found[one.start] = one
                if len(one.data) > MOST_SEARCHED_BYTES:
                    return self.everything
                todo += one.pointers()
        return [found[start] for start in sorted(found)]
