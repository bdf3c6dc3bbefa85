"""The program's memory on the device: allocations, what of them a launch may reach, and whether it has changed.

A launch reaches the allocations and variables that its arguments point to, and those that pointers in them point to.
Whether their contents are the ones of an earlier launch is told by digests, which are renewed where something has been
written: the library reports copies and fills, and what a launch writes is found by comparing digests.
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
_NO_RESERVE = 0x4000
"""MAP_NORESERVE, which Python's mmap has no name for."""
_NOT_OURS = (MemoryKind.MANAGED, MemoryKind.PINNED, MemoryKind.REGISTERED)
"""Memory that the host writes without a word."""


@dataclass(eq=False)
class Allocation:
    """Memory of the program from a device address on. `size` is what the program asked for, and `data` whole pages."""

    start: int
    size: int
    kind: MemoryKind
    data: NDArray[np.uint8] = field(repr=False)
    offset: int | None = None
    """Of the first byte in the heap; None for a copy of memory that the program has freed."""
    digest: bytes | None = field(default=None, repr=False)
    """Of the contents; None if they may have changed since."""
    points_to: tuple[int, ...] | None = field(default=None, repr=False)
    """Addresses within the heap that the contents hold; None if that is not known."""

    @property
    def is_shared(self) -> bool:
        """Whether the host may read and write it at any time."""
        return self.kind in _NOT_OURS

    def changed(self) -> None:
        self.digest = self.points_to = None

    def contents(self) -> bytes:
        """The digest, renewed if need be."""
        if self.digest is None or self.is_shared:
            self.digest = hashlib.blake2b(self.data.data, digest_size=16).digest()
            self.points_to = None
        return self.digest

    def pointers(self) -> tuple[int, ...]:
        """The addresses within the heap that stand in it, at multiples of 8 bytes."""
        if self.points_to is None or self.is_shared:
            words = self.data[: len(self.data) // _WORD * _WORD].view(np.uint64)
            found: set[int] = set()
            for at in range(0, len(words), _BLOCK_BYTES):
                found |= set(pointers_in(words[at : at + _BLOCK_BYTES]))
            self.points_to = tuple(sorted(found))
        return self.points_to


def pointers_in(words: NDArray[np.uint64]) -> list[int]:
    """The words that are addresses within the heap."""
    return [int(word) for word in np.unique(words[words - np.uint64(BASE) < np.uint64(HEAP_BYTES)])]


def words_of(argument: bytes) -> NDArray[np.uint64]:
    """The bytes of a parameter as words, the last one filled up with zeros."""
    return np.frombuffer(argument + bytes(-len(argument) % _WORD), np.uint64)


def words_without_pointers(argument: bytes) -> bytes:
    """A parameter with zeros in place of addresses within the heap."""
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
        """The allocation that has this address."""
        number = bisect_right(self._starts, address) - 1
        if number < 0:
            return None
        found = self._by_start[self._starts[number]]
        return found if address < found.start + len(found.data) else None

    def within(self, address: int, size: int) -> list[Allocation]:
        """The allocations that have some of these bytes; copies may span several."""
        first = max(0, bisect_right(self._starts, address) - 1)
        found = []
        for start in self._starts[first:]:
            if start >= address + max(1, size):
                break
            if address < start + len(self._by_start[start].data):
                found.append(self._by_start[start])
        return found

    def apart(self, allocations: Iterable[Allocation]) -> dict[int, NDArray[np.uint8]]:
        """The contents of allocations by their addresses, in memory that nobody else sees: written pages are copied."""
        own = mmap.mmap(self._file, len(self._heap), flags=mmap.MAP_PRIVATE | _NO_RESERVE)
        heap = np.frombuffer(own, np.uint8)
        return {
            one.start: one.data.copy() if one.offset is None else heap[one.offset : one.offset + len(one.data)]
            for one in allocations
        }

    @property
    def everything(self) -> list[Allocation]:
        """In the order of their addresses."""
        return [self._by_start[start] for start in self._starts]

    def reached(self, arguments: Sequence[bytes], others: Iterable[int]) -> list[Allocation]:
        """What a launch with these arguments may read and write; `others` are addresses that its code knows.

        gpuemu does not search large allocations for pointers: they may point to all others.
        """
        todo = list(others)
        for argument in arguments:
            todo += pointers_in(words_of(argument))
        found: dict[int, Allocation] = {}
        while todo:
            one = self.at(todo.pop())
            if one is None or one.start in found:
                continue
            found[one.start] = one
            if len(one.data) > MOST_SEARCHED_BYTES:
                return self.everything
            todo += one.pointers()
        return [found[start] for start in sorted(found)]
