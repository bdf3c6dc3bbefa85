"""Stores that bulk copies and matrix units read, which see shared memory through the asynchronous proxy.

They see a store after a fence.proxy.async of the storing thread, or of a thread that comes after it. A thread must wait
for its copies out of shared memory before the CTA ends. In kernels with tcgen05 products that is a note only: CUTLASS's
epilogues for sm_100 end without a wait if they load no C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpuemu.studies.check.findings import Finding, Findings, Point, Severity
from gpuemu.studies.check.racecheck.access_records import Indices
from gpuemu.studies.check.racecheck.tensor_products import PRODUCTS
from gpuemu.studies.check.racecheck.vector_clocks import Strands
from gpuemu.trace.model import Instruction

Bools = NDArray[np.bool_]
_READERS = ("UBLKCP", "UBLKRED", "UTMASTG", "UTMAREDG")
_SHIFT = 2
_LANE_BITS = 10


@dataclass
class _Stores:
    """The last stores of a cluster, or of a CTA without one, to each 4 bytes of shared memory, and the copies that
    read.

    `strand`, `lane`, `offset`: of the last store that no proxy fence has followed; the strand is 0 if there is none.
    The upper bits of `lane` are the CTA, and `offset` is that of the instruction. `fences`: the strands after proxy
    fences. `reading`: the copies that read, by strand, each with its instruction, lane, first byte and CTA.
    """

    strand: Indices
    lane: Indices
    offset: Indices
    fences: list[int] = field(default_factory=list)
    reading: dict[int, tuple[Instruction, int, int, int]] = field(default_factory=dict)


class AsyncProxy:
    """The stores of a cluster's CTAs that no proxy fence has followed yet, by units of 4 bytes."""

    def __init__(
        self, code: Sequence[Instruction], size: int, strands: Strands, findings: Findings, point: Callable[..., Point],
        where: Callable[[int], str],
    ):  # fmt: skip
        self.where = where
        self.concerned = any(
            i.mnemonic in (*_READERS, *PRODUCTS) or i.parsed.row.operation == "warpgroup" for i in code
        )
        self._without_wait = Severity.INFORMATION if any(i.mnemonic in PRODUCTS for i in code) else Severity.ERROR
        self._strands = strands
        self._findings = findings
        self._point = point
        self._size = size
        self._instructions = {i.offset: i for i in code}
        self.cta = 0
        self.start(1)

    def start(self, ctas: int) -> None:
        units = ctas * -(-self._size >> _SHIFT) if self.concerned else 0
        self.per_cluster = _Stores(np.zeros(units, np.int64), np.zeros(units, np.int64), np.zeros(units, np.int64))

    def written(self, instruction: Instruction, size: int, at: Indices, lanes: Indices) -> None:
        many = max(1, size >> _SHIFT)
        first = at >> _SHIFT
        units = (first[:, None] + np.arange(many)).reshape(-1)
        lanes = np.repeat(lanes, many)
        self.per_cluster.strand[units] = self._strands.per_cluster.of_lane[lanes]
        self.per_cluster.lane[units] = lanes | self.cta << _LANE_BITS
        self.per_cluster.offset[units] = instruction.offset

    def fence(self, lanes: Bools) -> None:
        self._strands.advance(lanes)
        self.per_cluster.fences += self._strands.of(lanes)

    def close(self) -> None:
        """A barrier for all follows: afterwards the proxy sees the stores before a fence."""
        if not self.concerned:
            return
        open_ = np.unique(self.per_cluster.strand[self.per_cluster.strand != 0])
        seen = [
            s for s in open_.tolist() if any(self._strands.ordered(s, f) and s != f for f in self.per_cluster.fences)
        ]
        if seen:
            self.per_cluster.strand[np.isin(self.per_cluster.strand, seen)] = 0
        self.per_cluster.fences = []

    def settle(self) -> None:
        """Everything before the base is ordered: from now on the proxy sees the stores before a fence there."""
        base, fences = self._strands.per_cluster.base, self.per_cluster.fences
        self.per_cluster.fences = [f for f in fences if f < base]
        self.close()
        self.per_cluster.fences = [f for f in fences if f >= base]

    def moved(self, pending: dict[int, int]) -> None:
        """The copies' strands have new numbers."""
        if self.concerned:
            self.per_cluster.reading = {
                pending[s]: read for s, read in self.per_cluster.reading.items() if s in pending
            }

    def read(self, instruction: Instruction, lane: int, places: Indices, strand: int, copy: bool) -> None:
        """A lane's instruction reads bytes in a strand of its own."""
        if copy:
            self.per_cluster.reading[strand] = instruction, lane, int(places[0]), self.cta
        units = np.unique(places >> _SHIFT)
        units = units[self.per_cluster.strand[units] != 0]
        if not len(units):
            return
        for writer in np.unique(self.per_cluster.strand[units]).tolist():
            if any(
                writer != f and self._strands.ordered(writer, f) and self._strands.ordered(f, strand)
                for f in self.per_cluster.fences
            ):
                continue
            at = units[self.per_cluster.strand[units] == writer]
            first, where = int(at[0]), self.where(int(at[0]) << _SHIFT)
            cta, thread = divmod(int(self.per_cluster.lane[first]), 1 << _LANE_BITS)
            stored = self._instructions[int(self.per_cluster.offset[first])]
            self._findings.add(
                Finding(
                    "racecheck", Severity.ERROR, "Potential RAW hazard in __shared__ memory between proxies",
                    f"{where}: an asynchronous unit reads what a thread has stored, and no proxy fence is between",
                    (
                        self._point(stored, thread, cta, "write"),
                        self._point(instruction, lane, self.cta, "asynchronous read"),
                    ),
                    where, len(at),
                    "fence.proxy.async behind the store (cuda::ptx::fence_proxy_async), before the barrier or arrival",
                )
            )  # fmt: skip

    def end(self, pending: set[int]) -> None:
        """The CTA ends."""
        if not self.concerned:
            return
        for strand, (instruction, lane, at, cta) in self.per_cluster.reading.items():
            if strand in pending and cta == self.cta:
                self._findings.add(
                    Finding(
                        "racecheck", self._without_wait,
                        "Potential hazard in __shared__ memory: exit before a copy's end",
                        f"{self.where(at)}: a bulk copy may still read when the CTA, and its shared memory, are gone",
                        (self._point(instruction, lane, cta, "asynchronous read"),), self.where(at), 1,
                        "cp.async.bulk.wait_group.read 0 before the thread that issued it exits",
                    )
                )  # fmt: skip
