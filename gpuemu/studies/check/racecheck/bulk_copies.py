"""Bulk copies and matrix units: one instruction of a lane reads and writes many bytes, in a strand of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuemu.studies.check.racecheck.access_log import AccessLog
from gpuemu.studies.check.racecheck.access_records import Does, Entry, Indices
from gpuemu.studies.check.racecheck.async_proxy import AsyncProxy
from gpuemu.studies.check.racecheck.happens_before import HappensBefore
from gpuemu.studies.check.racecheck.tensor_products import ASKS, PRODUCTS, TensorProducts

_BLOCK = 16


@dataclass
class _LastCopy:
    """The last copy of one CTA: the strand in which it goes on."""

    cta: int
    beside: Indices


class BulkCopies:
    """Logs blocks. `parity` returns the parity of an mbarrier, by its byte in the shared memory of the cluster's CTAs.

    The shared memories of these CTAs are `stride` bytes apart. Global memory counts from `origin`. `products` has the
    strands of products in tensor memory.
    """

    def __init__(
        self, order: HappensBefore, shared: AccessLog, everywhere: AccessLog | None, proxies: AsyncProxy,
        parity: Callable[[int], int], stride: int, origin: int, products: TensorProducts,
    ):  # fmt: skip
        self._order = order
        self._stride, self._origin = stride, origin
        self._shared = shared
        self._global = everywhere
        self._proxies = proxies
        self._parity = parity
        self._products = products
        self.start(0)

    def start(self, cta: int) -> None:
        """A new CTA."""
        self.per_cta = _LastCopy(cta, np.zeros(1, np.int64))

    def block(self, site: Any, lane: int, places: Indices, store: bool, ranks: Sequence[int]) -> None:
        """A lane's instruction reads or writes these bytes of shared memory as a block, in CTAs of these ranks."""
        if store:
            strands = self._order.strands.per_cluster.of_lane
            kind, self.per_cta.beside = (
                "bulk",
                self._order.bulk_copy(int(strands[lane]), np.arange(len(strands)) == lane),
            )
            if site.mnemonic == ASKS:
                self._products.answers(site, lane, int(self.per_cta.beside[0]), ranks)
        else:
            kind = "warpgroup" if site.instruction.parsed.row.operation == "warpgroup" else "bulk"
            if site.mnemonic in PRODUCTS:
                kind, self.per_cta.beside = "tensor", np.array([self._products.strand(site, lane, ranks[0])])
            else:
                self.per_cta.beside = self._order.copying(kind, np.array([lane]))
            at = places + ranks[0] * self._stride
            self._proxies.read(site.instruction, lane, at, int(self.per_cta.beside[0]), kind == "bulk")
        for rank in ranks:
            self._add(self._shared, site, lane, places, Does.WRITE if store else Does.READ, kind, rank * self._stride)

    def moves(self, site: Any, lane: int, places: Indices, does: Does) -> None:
        """The other side of the block: these addresses of global memory."""
        if self._global is not None and len(places):
            self._add(self._global, site, lane, places - self._origin, does, "bulk")

    def _add(
        self, memory: AccessLog, site: Any, lane: int, places: Indices, does: Does, kind: str, base: int = 0
    ) -> None:
        blocks, size = np.unique(places // _BLOCK) * _BLOCK, _BLOCK
        if len(blocks) * _BLOCK != len(places):
            blocks, size = np.unique(places), 1
        lanes = np.full(len(blocks), lane)
        beside = np.repeat(self.per_cta.beside, len(blocks))
        entry = Entry(site.instruction, does, size, base, blocks, lanes, beside, self.per_cta.cta, None, kind)
        memory.add(object(), lambda: entry)

    def completes(self, site: Any, barrier: int, lane: int, rank: int, copies: Sequence[int] = ()) -> None:
        """Copies in these strands, or the last one, have reported to the mbarrier at this byte that they are done."""
        barrier += rank * self._stride
        if site.mnemonic == "UTCBAR":
            copies = self._products.committed(site)
        elif not copies:
            copies = self.per_cta.beside.tolist()
        self._shared.per_cluster.barriers.add(barrier // 8)
        now = self._order.strands.per_cluster.of_lane[[lane]]
        entry = Entry(
            site.instruction, Does.ATOMIC, 8, barrier, np.zeros(1, np.int64), np.array([lane]), now, self.per_cta.cta
        )  # fmt: skip
        self._shared.add(object(), lambda: entry)
        self._order.told(barrier, copies, self._parity(barrier))

    def sends(self, site: Any, lanes: Indices, rank: int, at: Indices, size: int, barriers: Indices) -> None:
        """Lanes store this many bytes each to the shared memory of a CTA, and report to mbarriers there."""
        now = self._order.strands.per_cluster.of_lane[lanes]
        here = np.isin(np.arange(len(self._order.strands.per_cluster.of_lane)), lanes)
        copies = {strand: int(self._order.bulk_copy(strand, here)[0]) for strand in np.unique(now).tolist()}
        beside = np.array([copies[strand] for strand in now.tolist()])
        base = rank * self._stride
        entry = Entry(site.instruction, Does.WRITE, size, base, at, lanes, beside, self.per_cta.cta, None, "STAS")
        self._shared.add(object(), lambda: entry)
        for barrier in np.unique(barriers).tolist():
            here = barriers == barrier
            self.completes(site, barrier, int(lanes[here][0]), rank, np.unique(beside[here]).tolist())
