"""Copies of blocks and matrix units: what one instruction of a lane reads and writes, and when it goes on alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuemu.sass.machine.memory import GLOBAL_START
from gpuemu.studies.check.accesses import Does, Entry, Indices
from gpuemu.studies.check.order import Order
from gpuemu.studies.check.proxies import Proxies
from gpuemu.studies.check.racecheck import Memory

OF_CTA = ("cta", "_beside")
"""What is of one CTA; see `aside`."""
_BLOCK = 16


class Blocks:
    """Logs blocks. `parity`: what that of an mbarrier is now, by its byte."""

    def __init__(
        self, order: Order, shared: Memory, everywhere: Memory | None, proxies: Proxies, parity: Callable[[int], int]
    ):
        self._order = order
        self._shared = shared
        self._global = everywhere
        self._proxies = proxies
        self._parity = parity
        self.cta = 0
        self._beside: Indices = np.zeros(1, np.int64)
        """The strand of the block told of last."""

    def block(self, site: Any, lane: int, places: Indices, store: bool) -> None:
        """A lane's instruction reads or writes these bytes of shared memory as a block."""
        if store:
            kind, self._beside = "bulk", self._order.bulk_copy(lane)
        else:
            kind = "warpgroup" if site.instruction.parsed.row.operation == "warpgroup" else "bulk"
            self._beside = self._order.copying(kind, np.array([lane]))
            self._proxies.read(site.instruction, lane, places, int(self._beside[0]), kind == "bulk")
        self._add(self._shared, site, lane, places, Does.WRITE if store else Does.READ, kind)

    def moves(self, site: Any, lane: int, places: Indices, does: Does) -> None:
        """The other side of the block: these bytes of global memory, addresses."""
        if self._global is not None and len(places):
            self._add(self._global, site, lane, places - GLOBAL_START, does, "bulk")

    def _add(self, memory: Memory, site: Any, lane: int, places: Indices, does: Does, kind: str) -> None:
        blocks, size = np.unique(places // _BLOCK) * _BLOCK, _BLOCK
        if len(blocks) * _BLOCK != len(places):
            blocks, size = np.unique(places), 1
        lanes = np.full(len(blocks), lane)
        beside = np.repeat(self._beside, len(blocks))
        entry = Entry(site.instruction, does, size, 0, blocks, lanes, beside, self.cta, None, kind)
        memory.add(object(), lambda: entry)

    def completes(self, site: Any, barrier: int, lane: int) -> None:
        """A lane's copy has told the mbarrier at this byte that its bytes are there."""
        self._shared.barriers.add(barrier // 8)
        now = self._order.strands.of_lane[[lane]]
        entry = Entry(
            site.instruction, Does.ATOMIC, 8, barrier, np.zeros(1, np.int64), np.array([lane]), now, self.cta
        )  # fmt: skip
        self._shared.add(object(), lambda: entry)
        self._order.told(barrier, self._parity(barrier))
