"""Generic addresses: accesses whose addresses select the memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.lanes import Mask
from gpuemu.sass.machine.memory.clusters import MOST_CTAS, RANK_SHIFT
from gpuemu.sass.machine.memory.spaces import GlobalSpace, LocalSpace, Piece, Purpose, SharedSpace, Space, Window
from gpuemu.sass.machine.memory.storage import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from gpuemu.sass.machine.operands import Site
from gpuemu.sass.machine.recording.patterns import Place
from gpuemu.trace.model import CLUSTER, GLOBAL, LOCAL, SHARED


class GenericSpace(Space):
    """Generic addresses, uint64. The shared and the local window select these memories, and all others are global."""

    def __init__(self, site: Site, size: int, purpose: Purpose):
        super().__init__(site, size, purpose)
        self.to_global = GlobalSpace(site, size, purpose)
        self.to_shared = SharedSpace(site, size, purpose)
        self.to_shared.plain = False
        self.to_local = LocalSpace(site, size, purpose)
        self.shared_start = SHARED_WINDOW + self.memory.shared_base

    def _one(self, place: Place) -> tuple[Space, int] | None:
        """Return the memory that all addresses select, and its start; None if they select several."""
        base, pattern = place
        low, high = base + pattern.low, base + pattern.high
        if high < LOCAL_WINDOW or pattern.count == 0:
            return self.to_global, 0
        if (
            low >= SHARED_WINDOW
            and high < SHARED_WINDOW + self._windows_bytes
            and low >> RANK_SHIFT == high >> RANK_SHIFT
        ):
            return self.to_shared, self.shared_start
        if low >= LOCAL_WINDOW and high < LOCAL_WINDOW + WINDOW_BYTES:
            return self.to_local, LOCAL_WINDOW
        return None

    @property
    def _windows_bytes(self) -> int:
        """Bytes of the windows of all CTAs of the cluster."""
        return WINDOW_BYTES if self.memory.cluster is None else MOST_CTAS * WINDOW_BYTES

    def _ranks(self, addresses: NDArray[Any]) -> NDArray[Any]:
        """Return the CTA whose shared memory contains each address, or -1."""
        distance = addresses - np.uint64(SHARED_WINDOW)
        inside = distance < np.uint64(self._windows_bytes)
        return np.where(inside, (distance >> np.uint64(RANK_SHIFT)).astype(np.int64), -1)

    def window(self, place: Place) -> Window | None:
        if not in_windows(place):
            return self.to_global.window(place)
        one = self._one(place)
        if one is None:
            return None
        space, start = one
        return space.window(place.moved(-start))

    def pieces(self, place: Place) -> Iterator[Piece]:
        addresses = place.addresses(64)
        ranks, local = self._ranks(addresses), in_window(addresses, LOCAL_WINDOW)
        of_cluster = [(self.to_shared, ranks == rank, self.shared_start) for rank in np.unique(ranks[ranks >= 0])]
        for space, inside, start in (
            (self.to_global, (ranks < 0) & ~local, 0),
            *of_cluster,
            (self.to_local, local, LOCAL_WINDOW),
        ):
            part = np.flatnonzero(inside)
            if len(part) == 0:
                continue
            delta, pattern = place.pattern.part(self._lanes_of(place, inside))
            these = Place(place.base + delta - start, pattern)
            window = space.window(these)
            if window is not None:
                units, index = window
                yield Piece({self.size: units}, np.arange(len(part)) if index is None else index, part)
                continue
            for memory, index, within in space.pieces(these):
                yield Piece(memory, index, part[within])

    def _lanes_of(self, place: Place, inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Convert indices of the addresses to lanes of the CTA."""
        chosen = np.zeros(self.site.lanes.count, dtype=np.bool_)
        chosen[slice(None) if place.pattern.lanes is None else place.pattern.lanes] = inside
        return chosen

    def record(self, place: Place, mask: Mask) -> None:
        """Record the access as other spaces do: shared and local addresses count from the window's start."""
        if not in_windows(place):
            super().record(place, mask)
            return
        record = self.site.environment.record
        one = self._one(place)
        if one is not None:
            number, moved = self._number_of(one[0]), place.moved(-one[1])
            if number == SHARED and self.memory.cluster is not None:
                moved, other = self.memory.belongs(moved, False)
                number = SHARED if other is None else CLUSTER
            record(moved, mask, number)
            return
        addresses = place.addresses(64)
        ranks, local = self._ranks(addresses), in_window(addresses, LOCAL_WINDOW)
        local_start = np.where(local, np.uint64(LOCAL_WINDOW), np.uint64(0))
        shared_start = np.uint64(self.shared_start) + (np.maximum(ranks, 0).astype(np.uint64) << np.uint64(RANK_SHIFT))
        counted = addresses - np.where(ranks >= 0, shared_start, local_start)
        patterns = self.site.environment.patterns
        in_shared = np.where(ranks == self.memory.rank, np.uint8(SHARED), np.uint8(CLUSTER))
        spaces = np.where(ranks >= 0, in_shared, np.where(local, np.uint8(LOCAL), np.uint8(GLOBAL)))
        moved = patterns.place(counted, place.pattern.lanes, place.pattern.mask_name)
        record(moved, mask, spaces)

    def _number_of(self, space: Space) -> int:
        return SHARED if space is self.to_shared else LOCAL if space is self.to_local else GLOBAL


def in_windows(place: Place) -> bool:
    """Whether any address may be in the shared or the local window."""
    return place.base + place.pattern.high >= LOCAL_WINDOW


def in_window(addresses: NDArray[Any], start: int) -> NDArray[np.bool_]:
    """Return which addresses are in the window that starts at `start`."""
    return addresses - np.uint64(start) < np.uint64(WINDOW_BYTES)
