"""Room in columns of numbers and in queues: the places that each needs, and its name if they are too few.

No size is a guess: a value of the architecture limits what waits at once, or the trace has no more.
"""

from __future__ import annotations

import numpy as np

from gpuemu.base.errors import GpuemuError
from gpuemu.engine.log import Cycles
from gpuemu.engine.units.rings import BY_CYCLE

MOST_NUMBERS = 1 << 25
"""The most numbers that a state may have: 256 MB."""


class Room:
    """Room in columns of numbers by their names, and rings in `pool`."""

    def __init__(self) -> None:
        self.rings: list[tuple[int, int]] = []
        self._names: list[str] = []
        self._parts: dict[str, list[Cycles]] = {"pool": []}
        self._sizes: dict[str, int] = {"pool": 0}

    def numbers(self, column: str, count: int, value: int = 0) -> int:
        """Append `count` numbers of one value to a column; returns their place."""
        return self.given(column, np.full(count, value, np.int64) if value else np.zeros(count, np.int64))

    def given(self, column: str, numbers: Cycles) -> int:
        """Append these numbers to a column; returns their place."""
        at = self._sizes.get(column, 0)
        self._parts.setdefault(column, []).append(np.asarray(numbers, dtype=np.int64))
        self._sizes[column] = at + len(numbers)
        return at

    def ring(self, name: str, capacity: int, at: int | None = None) -> int:
        """A ring for at least so many numbers, or over so many records that begin `at`; returns its number."""
        size = power_of_two(capacity) if at is None else capacity
        self.rings.append((self.numbers("pool", size) if at is None else at, size - 1))
        self._names.append(name)
        return len(self.rings) - 1

    def overflow(self, arch: str, full: int) -> GpuemuError:
        """The error for a ring that `units.rings` noted as full."""
        name, places = "cycles noted ahead", 0
        if full != BY_CYCLE:
            name, places = self._names[full - 1], self.rings[full - 1][1] + 1
        found = f"more than {places} {name}" if places else f"more {name} than there is room for"
        right = "This is a fault of gpuemu: please report it with its input"
        return GpuemuError.one(arch, None, "engine", found, right)

    def column(self, name: str) -> Cycles:
        """All numbers of a column, at least one."""
        parts = self._parts.get(name, [])
        return np.concatenate(parts) if sum(map(len, parts)) else np.zeros(1, np.int64)


def power_of_two(least: int) -> int:
    """The smallest power of two that is at least `least`."""
    return 1 << max(0, least - 1).bit_length()
