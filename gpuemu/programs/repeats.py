"""Repeats the writes of an earlier launch if a launch would read exactly the same bytes.

Two launches are equal if kernel, configuration, argument bytes and the contents of all reachable memory are equal. Then
their writes are equal, too. If a launch has read none of the memory that it changed, an equal launch right after it
changes nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuemu.programs.memory import Allocation

_BLOCK = 4096
MOST_REACHED_BYTES = 1 << 27
"""Launches that reach more execute each time, because comparing their memory takes longer."""
MOST_KEPT_BYTES = 1 << 29
"""The limit of kept writes. gpuemu drops the least recently used."""


Key = tuple[Hashable, tuple[tuple[int, bytes], ...]]
"""A launch, and the digests of the memory that it reaches, by start addresses."""


@dataclass(frozen=True)
class Writes:
    """The effects of a launch: changed blocks of allocations, the new digests of these, and printed text."""

    blocks: tuple[tuple[int, NDArray[np.int64], NDArray[np.uint8]], ...]
    digests: tuple[tuple[int, bytes], ...]
    printed: str
    instructions: int
    read: frozenset[int]
    """The start addresses of the allocations that the launch has read."""

    @property
    def bytes(self) -> int:
        return sum(content.nbytes for _, _, content in self.blocks)


@dataclass(frozen=True)
class Before:
    """The memory that a launch reaches, with its contents and the heap addresses in them before the launch."""

    key: Key
    reached: Sequence[Allocation]
    copies: Sequence[NDArray[np.uint8]]
    pointers: Sequence[tuple[int, ...] | None]

    def restore(self) -> None:
        """Undo the writes of a launch that was not executed to its end."""
        for one, old in zip(self.reached, self.copies, strict=True):
            one.data[:] = old


class Repeats:
    """The writes of launches, by the keys of the launches."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, Writes] = OrderedDict()
        self._bytes = 0

    def key(self, launch: Hashable, reached: Sequence[Allocation]) -> Key | None:
        """A key that is equal for equal launches. None for a launch that reaches too much memory."""
        if sum(len(one.data) for one in reached) > MOST_REACHED_BYTES:
            return None
        return launch, tuple((one.start, one.contents()) for one in reached)

    def find(self, key: Key) -> Writes | None:
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def before(self, key: Key, reached: Sequence[Allocation]) -> Before:
        return Before(key, reached, [one.data.copy() for one in reached], [one.points_to for one in reached])

    def keep(self, before: Before, printed: str, instructions: int, read: frozenset[int]) -> None:
        """Keep the writes of a launch since `before`. `read`: the starts of the allocations that it has read."""
        launch, digests = before.key
        blocks, written = [], []
        for one, old, (_, digest), pointers in zip(
            before.reached, before.copies, digests, before.pointers, strict=True
        ):
            changed = _changed_blocks(old, one.data)
            if len(changed):
                one.changed()
                blocks.append((one.start, changed, _blocks(one.data)[changed]))
                written.append(one)
            else:
                one.digest, one.points_to = digest, pointers
        new = tuple((one.start, one.contents()) for one in written)
        self._add(before.key, Writes(tuple(blocks), new, printed, instructions, read))
        if written and not _overlap(written, [one for one in before.reached if one.start in read]):
            self._add((launch, tuple((dict(digests) | dict(new)).items())), Writes((), (), printed, instructions, read))

    def _add(self, key: Key, writes: Writes) -> None:
        self._kept[key] = writes
        self._bytes += writes.bytes
        while self._bytes > MOST_KEPT_BYTES and len(self._kept) > 1:
            self._bytes -= self._kept.popitem(last=False)[1].bytes

    def repeat(self, writes: Writes, reached: Sequence[Allocation]) -> None:
        """Repeat the writes of the earlier launch."""
        by_start = {one.start: one for one in reached}
        for start, numbers, content in writes.blocks:
            _blocks(by_start[start].data)[numbers] = content
            by_start[start].changed()
        for start, digest in writes.digests:
            by_start[start].digest = digest


def _overlap(some: Sequence[Allocation], others: Sequence[Allocation]) -> bool:
    """Whether some bytes belong to both. A program may map one piece of memory at several addresses."""
    return any(np.may_share_memory(one.data, other.data) for one in some for other in others)


def _blocks(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The data as one row per block. Memory consists of whole pages."""
    return data.reshape(-1, _BLOCK) if len(data) % _BLOCK == 0 else data.reshape(1, -1)


def _changed_blocks(old: NDArray[np.uint8], new: NDArray[np.uint8]) -> NDArray[np.int64]:
    a, b = _blocks(old), _blocks(new)
    if a.shape[1] % 8 == 0:
        a, b = a.view(np.uint64), b.view(np.uint64)
    return np.flatnonzero((a != b).any(axis=1))
