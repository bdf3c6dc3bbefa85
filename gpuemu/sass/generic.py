"""Generic addresses: accesses that find out from the address which memory they mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.lanes import Mask
from gpuemu.sass.memory import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from gpuemu.sass.operands import Site
from gpuemu.sass.spaces import Access, GlobalSpace, Indices, LocalSpace, Piece, SharedSpace, Space


class GenericSpace(Space):
    """Generic addresses, uint64: those in the shared and the local window lead there, others to global memory."""

    def __init__(self, site: Site, size: int, access: Access):
        super().__init__(site, size, access)
        self.to_global = GlobalSpace(site, size, access)
        self.to_shared = SharedSpace(site, size, access)
        self.to_local = LocalSpace(site, size, access)
        self.shared_start = np.uint64(SHARED_WINDOW + self.memory.shared_base)

    def locate(self, addresses: NDArray[Any], lanes: Indices | None) -> list[Piece]:
        """See Space."""
        if not in_windows(addresses):
            return self.to_global.locate(addresses, lanes)
        pieces: list[Piece] = []
        shared, local = in_window(addresses, SHARED_WINDOW), in_window(addresses, LOCAL_WINDOW)
        for space, inside, start in (
            (self.to_global, ~(shared | local), np.uint64(0)),
            (self.to_shared, shared, self.shared_start),
            (self.to_local, local, np.uint64(LOCAL_WINDOW)),
        ):
            part = np.flatnonzero(inside)
            if len(part) == 0:
                continue
            kind = np.uint64 if space is self.to_global else np.uint32
            these = (addresses[part] - start).astype(kind)
            numbers = part if lanes is None else lanes[part]
            for memory, index, within in space.locate(these, numbers):
                pieces.append(Piece(memory, index, part if within is None else part[within]))
        return pieces

    def record(self, addresses: NDArray[Any], mask: Mask) -> None:
        """As for the other spaces: shared and local addresses count from the window's start."""
        if in_windows(addresses):
            shared, local = in_window(addresses, SHARED_WINDOW), in_window(addresses, LOCAL_WINDOW)
            local_start = np.where(local, np.uint64(LOCAL_WINDOW), np.uint64(0))
            addresses = addresses - np.where(shared, self.shared_start, local_start)
        super().record(addresses, mask)


def in_windows(addresses: NDArray[Any]) -> bool:
    """Whether any address may be in the shared or the local window."""
    return len(addresses) > 0 and int(addresses.max()) >= LOCAL_WINDOW


def in_window(addresses: NDArray[Any], start: int) -> NDArray[np.bool_]:
    """Which addresses are in the window that starts there."""
    return addresses - np.uint64(start) < np.uint64(WINDOW_BYTES)
