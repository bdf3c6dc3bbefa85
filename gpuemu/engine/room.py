"""Room in the pool, and the queues there: how many places each needs, and what it is called if they are too few.

No size is a guess: it is what a value of the architecture lets wait at once, or what the trace has at most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuemu.base.errors import GpuemuError
from gpuemu.engine.log import Cycles
from gpuemu.engine.units.rings import BY_CYCLE

MOST_NUMBERS = 1 << 25
"""That a state may have in all: 256 MB."""


class Room:
    """Room in the pool, and rings there."""

    def __init__(self) -> None:
        self.rings: list[tuple[int, int]] = []
        self._names: list[str] = []
        self._parts: list[tuple[int, Cycles]] = []
        self._size = 0

    def numbers(self, count: int, value: int = 0) -> int:
        """So many numbers of a value; returns where."""
        if value:
            return self.given(np.full(count, value))
        self._size += count
        return self._size - count

    def given(self, numbers: Sequence[int] | Cycles) -> int:
        """These numbers; returns where."""
        at = self._size
        self._parts.append((at, np.asarray(numbers, dtype=np.int64)))
        self._size += len(numbers)
        return at

    def ring(self, name: str, capacity: int, at: int | None = None) -> int:
        """A ring for at least so many numbers, or over so many records that begin `at`; returns its number."""
        size = power_of_two(capacity) if at is None else capacity
        self.rings.append((self.numbers(size) if at is None else at, size - 1))
        self._names.append(name)
        return len(self.rings) - 1

    def overflow(self, arch: str, full: int) -> GpuemuError:
        """What to say of what `units.rings` noted as full."""
        name, places = "cycles noted ahead", 0
        if full != BY_CYCLE:
            name, places = self._names[full - 1], self.rings[full - 1][1] + 1
        found = f"more than {places} {name}" if places else f"more {name} than there is room for"
        right = "the engine must have room for all of them: this is a fault of gpuemu, please report it with its input"
        return GpuemuError.one(arch, None, "engine", found, right)

    def pool(self) -> Cycles:
        """All numbers."""
        found = np.zeros(max(1, self._size), np.int64)
        for at, numbers in self._parts:
            found[at : at + len(numbers)] = numbers
        return found


def power_of_two(least: int) -> int:
    """The first that is no less."""
    return 1 << max(0, least - 1).bit_length()
