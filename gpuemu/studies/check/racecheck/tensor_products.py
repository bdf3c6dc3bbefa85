"""Products, copies and shifts in tensor memory (tcgen05.mma, cp, shift), which outlast their instruction, and stores.

The tensor core executes the products of a CTA, or of a pair of CTAs, in the order of their issue. So each is a strand
that follows the one before. A tcgen05.commit reports all of them so far to an mbarrier. A CTA must not exit before the
products that use its memory are done: nobody may wait for them, or only another CTA of the pair. The same holds for
the answers to requests for other work (clusterlaunchcontrol.try_cancel), which are written to shared memory.

A tcgen05.st goes on until the warp's tcgen05.wait::st. The log has units of 16 lanes of a column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.memory.tensor_memory import CELLS, COLUMNS, ROWS_OF_CELL
from gpuemu.studies.check.findings import Finding, Findings, Point, Severity
from gpuemu.studies.check.racecheck.access_log import AccessLog
from gpuemu.studies.check.racecheck.access_records import Does, Entry, Indices
from gpuemu.studies.check.racecheck.happens_before import HappensBefore
from gpuemu.trace.model import Instruction

Bools = NDArray[np.bool_]
PRODUCTS = ("UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCOMMA", "UTCCP", "UTCSHIFT")
"""The instructions that the tensor core executes in order."""
ASKS = "UGETNEXTWORKID"
"""The instruction that asks for the work of a cluster that has not begun."""
_BYTES = 4
_DOES = {"load": Does.READ, "store": Does.WRITE, "free": Does.WRITE}


def tensor_place(at: int, in_cluster: bool) -> str:
    """The name of a place in the log."""
    rank, cell = divmod(at // _BYTES, CELLS)
    rows, column = divmod(cell, COLUMNS)
    lanes = f"lanes {ROWS_OF_CELL * rows} to {ROWS_OF_CELL * rows + ROWS_OF_CELL - 1}"
    return f"column {column}, {lanes} of tensor memory" + (f" of CTA {rank} of the cluster" if in_cluster else "")


@dataclass
class _Product:
    """A product or an answer in flight, and the ranks of the CTAs whose memory it uses and that may exit before."""

    instruction: Instruction
    lane: int
    cta: int
    ranks: set[int] = field(default_factory=set)


class TensorProducts:
    """The products of a cluster's CTAs in flight, by their strands, and the accesses to tensor memory."""

    def __init__(
        self, memory: Any, log: AccessLog, order: HappensBefore, findings: Findings, point: Callable[..., Point]
    ):  # fmt: skip
        self._memory, self.log, self._order = memory, log, order
        self._findings, self._point = findings, point
        self.cta = 0
        self.per_cluster: dict[int, _Product] = {}

    def start(self) -> None:
        """A new cluster, or a CTA without one."""
        self.per_cluster = {}

    def strand(self, site: Any, lane: int, rank: int) -> int:
        """The strand of a lane's product, which uses memory of the CTA with this rank."""
        strand = self._order.product(self._chain(site), lane)
        product = self.per_cluster.setdefault(strand, _Product(site.instruction, lane, self.cta))
        product.ranks.add(rank)
        return strand

    def answers(self, site: Any, lane: int, strand: int, ranks: Sequence[int]) -> None:
        """A lane has asked for other work. This strand writes the answer to CTAs of these ranks."""
        self.per_cluster[strand] = _Product(site.instruction, lane, self.cta, set(ranks))

    def _chain(self, site: Any) -> int:
        """The number of the tensor core that executes an instruction: that of the first CTA of a pair, or the own."""
        rank: int = self._memory.rank
        return rank & ~1 if site.has("2CTA") else rank

    def committed(self, site: Any) -> list[int]:
        """The strands that a commit reports to its mbarrier."""
        return self._order.products(self._chain(site))

    def access(self, site: Any, lane: int, rank: int, cells: Indices, access: str) -> None:
        """A lane's instruction accesses cells of the tensor memory of a CTA."""
        if access not in _DOES:
            return
        copy, now = "", int(self._order.strands.per_cluster.of_lane[lane])
        if site.mnemonic in PRODUCTS:
            copy, now = "tensor", self.strand(site, lane, rank)
        elif site.mnemonic == "STTM":
            copy, now = "STTM", int(self._order.copying("STTM", np.array([lane]))[0])
        does, base = _DOES[access], rank * CELLS * _BYTES
        name = site.instruction.offset, does, base, now, cells.tobytes()

        def make() -> Entry:
            lanes, strands = np.full(len(cells), lane), np.full(len(cells), now)
            return Entry(site.instruction, does, _BYTES, base, cells * _BYTES, lanes, strands, self.cta, None, copy)

        self.log.add(name, make)

    def stored(self, lanes: Bools) -> None:
        """The warps of these lanes wait for their stores to tensor memory."""
        self._order.commit("STTM", lanes)
        self._order.wait("STTM", lanes, 0)

    def moved(self, pending: dict[int, int]) -> None:
        """The products in flight have new strands; the others are done."""
        self.per_cluster = {pending[s]: product for s, product in self.per_cluster.items() if s in pending}

    def exits(self, lanes: Bools) -> None:
        """Lanes exit, which may know that products are done."""
        rank, strands = self._memory.rank, self._order.strands
        known = strands.of(lanes)
        for strand, product in self.per_cluster.items():
            if rank in product.ranks and any(strands.ordered(strand, now) for now in known):
                product.ranks.discard(rank)

    def end(self) -> None:
        """The executing CTA has ended."""
        rank = self._memory.rank
        for product in self.per_cluster.values():
            if rank not in product.ranks:
                continue
            product.ranks.discard(rank)
            own = product.cta == self.cta
            whose = "the CTA" if own else f"CTA {rank} of the cluster"
            if product.instruction.mnemonic == ASKS:
                title, what = "Potential hazard in __shared__ memory: exit before an answer", "request"
                found = f"the answer to a request for other work may come to {whose} when {whose} has exited"
                right = "a thread of the CTA waits at the mbarrier of the request before the CTA exits"
            else:
                title, what = "Potential hazard in tensor memory: exit before a product's end", "product"
                found = f"a product may still use shared and tensor memory of {whose} when {whose} has exited"
                right = "the CTA waits for the commit (.multicast::cluster) or at the cluster's barrier before it exits"
                if own:
                    right = "a thread of the CTA waits at the mbarrier of a tcgen05.commit before it exits"
            point = self._point(product.instruction, product.lane, product.cta, what)
            self._findings.add(Finding("racecheck", Severity.ERROR, title, found, (point,), "", 1, right))
