"""The address table of a trace while it is put together."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass
class RowTable:
    """Blocks of rows, and how many there are so far."""

    addresses: list[NDArray[np.int64]] = field(default_factory=list)
    active: list[NDArray[np.bool_]] = field(default_factory=list)
    spaces: list[NDArray[np.uint8]] = field(default_factory=list)
    count: int = 0

    def add(
        self, addresses: NDArray[np.int64], active: NDArray[np.bool_], spaces: NDArray[np.uint8]
    ) -> NDArray[np.int32]:
        """Add rows [n, 32]; returns their numbers."""
        first = self.count
        self.count += len(addresses)
        self.addresses.append(addresses)
        self.active.append(active)
        self.spaces.append(spaces)
        return np.arange(first, self.count, dtype=np.int32)
