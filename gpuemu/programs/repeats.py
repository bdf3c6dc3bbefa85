"""Launches that repeat earlier ones: what an executed launch wrote is written again where all that it reads is equal.

A launch is the same as an earlier one if its kernel, configuration, argument bytes and the contents of all memory that
it reaches are. Then its writes are too.
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
"""Launches that reach more are executed each time: to compare their memory takes longer than it saves."""
MOST_KEPT_BYTES = 1 << 29
"""Of writes that are kept, the last used stay."""


@dataclass(frozen=True)
class Writes:
    """What a launch did: blocks of allocations that it changed, the digests that these have since, what it printed."""

    blocks: tuple[tuple[int, NDArray[np.int64], NDArray[np.uint8]], ...]
    digests: tuple[tuple[int, bytes], ...]
    printed: str
    instructions: int

    @property
    def bytes(self) -> int:
        return sum(content.nbytes for _, _, content in self.blocks)


@dataclass(frozen=True)
class Before:
    """What a launch reaches, as it was before the launch."""

    key: Hashable
    reached: Sequence[Allocation]
    copies: Sequence[NDArray[np.uint8]]


class Repeats:
    """The writes of launches, by what tells the launches apart."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, Writes] = OrderedDict()
        self._bytes = 0

    def key(self, launch: Hashable, reached: Sequence[Allocation]) -> Hashable | None:
        """What tells a launch in this memory from others; None for one that reaches too much."""
        if sum(len(one.data) for one in reached) > MOST_REACHED_BYTES:
            return None
        return launch, tuple((one.start, one.contents()) for one in reached)

    def find(self, key: Hashable) -> Writes | None:
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def before(self, key: Hashable, reached: Sequence[Allocation]) -> Before:
        return Before(key, reached, [one.data.copy() for one in reached])

    def keep(self, before: Before, printed: str, instructions: int) -> None:
        """Keep what a launch has written since `before`."""
        blocks, digests = [], []
        for one, old in zip(before.reached, before.copies, strict=True):
            changed = _changed_blocks(old, one.data)
            if len(changed):
                one.changed()
                digests.append((one.start, one.contents()))
                blocks.append((one.start, changed, _blocks(one.data)[changed]))
        writes = Writes(tuple(blocks), tuple(digests), printed, instructions)
        self._kept[before.key] = writes
        self._bytes += writes.bytes
        while self._bytes > MOST_KEPT_BYTES and len(self._kept) > 1:
            self._bytes -= self._kept.popitem(last=False)[1].bytes

    def repeat(self, writes: Writes, reached: Sequence[Allocation]) -> None:
        """Write what the earlier launch wrote."""
        by_start = {one.start: one for one in reached}
        for start, numbers, content in writes.blocks:
            _blocks(by_start[start].data)[numbers] = content
            by_start[start].changed()
        for start, digest in writes.digests:
            by_start[start].digest = digest


def _blocks(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """As rows of a block each; memory comes in whole pages."""
    return data.reshape(-1, _BLOCK) if len(data) % _BLOCK == 0 else data.reshape(1, -1)


def _changed_blocks(old: NDArray[np.uint8], new: NDArray[np.uint8]) -> NDArray[np.int64]:
    a, b = _blocks(old), _blocks(new)
    if a.shape[1] % 8 == 0:
        a, b = a.view(np.uint64), b.view(np.uint64)
    return np.flatnonzero((a != b).any(axis=1))
