"""The address table of a trace under construction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.warp import LANES


@dataclass
class RowTable:
    """Blocks of rows, and the number of rows so far."""

    addresses: list[NDArray[np.int64]] = field(default_factory=list)
    active: list[NDArray[np.bool_]] = field(default_factory=list)
    spaces: list[NDArray[np.uint8]] = field(default_factory=list)
    sources: list[tuple[int, NDArray[np.int64] | None]] = field(default_factory=list)
    count: int = 0

    def add(
        self,
        addresses: NDArray[np.int64],
        active: NDArray[np.bool_],
        spaces: NDArray[np.uint8],
        sources: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int32]:
        """Add rows [n, 32]; return their numbers."""
        first = self.count
        self.count += len(addresses)
        self.addresses.append(addresses)
        self.active.append(active)
        self.spaces.append(spaces)
        self.sources.append((len(addresses), sources))
        return np.arange(first, self.count, dtype=np.int32)


def joined_sources(blocks: Iterable[tuple[int, NDArray[np.int64] | None]]) -> NDArray[np.int64] | None:
    """Join blocks of sources to those of all rows, with -1 in blocks without sources; None if no block has any."""
    parts = list(blocks)
    if all(sources is None for _, sources in parts):
        return None
    return np.concatenate([np.full((n, LANES), -1, np.int64) if s is None else s for n, s in parts])
