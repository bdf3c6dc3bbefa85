"""Races and barriers of a trace: gpuemu follows each warp in lockstep, from barrier to barrier.

A trace has the addresses of lanes, but neither their values nor how the lanes of a warp diverge. A warp is therefore
one strand, and only shared memory is checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuemu.base.shown import counted
from gpuemu.isa.opcodes import CLUSTER_BARRIER, Kind, Row
from gpuemu.isa.warp import LANES
from gpuemu.studies.check.findings import Finding, Findings, Point, Severity, shared_byte
from gpuemu.studies.check.racecheck.access_log import AccessLog
from gpuemu.studies.check.racecheck.access_records import Does, Entry
from gpuemu.studies.check.racecheck.context import RaceContext
from gpuemu.studies.check.racecheck.happens_before import HappensBefore
from gpuemu.studies.check.racecheck.vector_clocks import Strands
from gpuemu.trace.model import Instruction, Trace, WarpTrace

_MATRIX_ROW = 16


def follow(trace: Trace, findings: Findings, point: Callable[..., Point], tools: tuple[str, ...]) -> None:
    """Add the findings of each CTA of a trace; CTAs that did the same are followed once."""
    ctas: dict[int, list[WarpTrace]] = {}
    for warp in trace.warps:
        ctas.setdefault(warp.cta, []).append(warp)
    seen = set()
    for cta, warps in ctas.items():
        name = tuple((w.warp, w.path.tobytes(), w.rows.tobytes()) for w in warps)
        if name not in seen:
            seen.add(name)
            _Cta(trace, cta, warps, findings, point, "racecheck" in tools).run()


@dataclass
class _Cta:
    """A CTA, how far each of its warps has come, and what its shared memory has seen."""

    trace: Trace
    cta: int
    warps: list[WarpTrace]
    findings: Findings
    point: Callable[..., Point]
    races: bool

    def __post_init__(self) -> None:
        launch, addresses = self.trace.launch, self.trace.addresses
        self._count = launch.warps_per_cta * LANES
        self._exists = np.arange(self._count) < launch.threads_per_cta
        self._strands = Strands(self._exists)
        self._order = HappensBefore(self._strands)
        self._race = RaceContext(self._strands, self._order, self.findings, self.point)
        size = 1 << 18
        if addresses.size:
            size = max(size, int(addresses[:, :].max(initial=0)) % (1 << 24) + 64)
        self._memory = AccessLog(self._race, "shared", size, shared_byte, False)
        self._at = [0] * len(self.warps)
        self._row = [0] * len(self.warps)

    def run(self) -> None:
        """Follow each warp to its next barrier, then open the barriers that are complete; repeat until all end."""
        waiting: dict[int, tuple[int, int | None, Instruction]] = {}
        arrived: dict[int, int] = {}
        ended: set[int] = set()
        while len(ended) < len(self.warps):
            for k in range(len(self.warps)):
                if k in ended or k in waiting:
                    continue
                stop = self._advance(k, arrived)
                if stop is None:
                    ended.add(k)
                else:
                    waiting[k] = stop
            alive = self._lanes(set(range(len(self.warps))) - ended)
            opened = False
            for barrier in sorted({number for number, _, _ in waiting.values()}):
                here = [k for k, stop in waiting.items() if stop[0] == barrier]
                expected = waiting[here[0]][1]
                come = arrived.get(barrier, 0) + sum(int(self._lanes({k}).sum()) for k in here)
                if come < (int(alive.sum()) if expected is None else expected):
                    continue
                if ended and expected is None:
                    self._exited(waiting[here[0]][2], here[0], len(ended))
                self._open(barrier, self._lanes(set(here)), alive)
                arrived.pop(barrier, None)
                for k in here:
                    del waiting[k]
                opened = True
            if not opened and waiting and len(waiting) + len(ended) == len(self.warps):
                self._stuck(waiting)
                break
        if self.races:
            self._memory.close()

    def _lanes(self, warps: set[int]) -> np.ndarray:
        lanes = np.zeros(self._count, np.bool_)
        for k in warps:
            first = self.warps[k].warp * LANES
            lanes[first : first + LANES] = True
        return lanes & self._exists

    def _open(self, barrier: int, waiting: np.ndarray, alive: np.ndarray) -> None:
        self._order.arrive(barrier, waiting, True)
        if (waiting >= alive).all():
            self._memory.look()
        pending = self._order.open(barrier, waiting, alive)
        if pending is not None:
            self._memory.forget(pending)

    def _advance(self, k: int, arrived: dict[int, int]) -> tuple[int, int | None, Instruction] | None:
        """Follow a warp to its next barrier: (number, threads, instruction); None at its end."""
        warp, code = self.warps[k], self.trace.code
        while self._at[k] < len(warp.path):
            instruction = code[int(warp.path[self._at[k]])]
            self._at[k] += 1
            if instruction.operation.kind is Kind.BARRIER:
                number, threads = _barrier(instruction)
                if instruction.has("ARV"):
                    arrived[number] = arrived.get(number, 0) + int(self._lanes({k}).sum())
                    self._order.arrive(number, self._lanes({k}), False)
                    continue
                return number, threads, instruction
            if instruction.operation.kind is Kind.COPY_COMMIT:
                self._order.commit("LDGSTS", self._lanes({k}))
            if instruction.operation.kind is Kind.COUNTER_WAIT:
                match = re.match(r"SB\d(?:,(0x[0-9a-f]+))?\Z", ",".join(instruction.operands))
                if match is not None:
                    self._order.wait("LDGSTS", self._lanes({k}), int(match[1] or "0", 16))
            if instruction.accesses_memory:
                row = int(warp.rows[self._row[k]])
                self._row[k] += 1
                made_up = instruction.operation.row is Row.COPY and not self.trace.knows_copies
                if self.races and instruction.operation.row is not None and not made_up:
                    self._access(instruction, warp, row)
        return None

    def _access(self, instruction: Instruction, warp: WarpTrace, row: int) -> None:
        operation = instruction.operation
        active = self.trace.active[row].copy()
        size = max(1, operation.width_bits // 8)
        if operation.matrices:
            size = _MATRIX_ROW
            active &= np.arange(LANES) < 8 * operation.matrices
        active &= self._exists[warp.warp * LANES : warp.warp * LANES + LANES]
        lanes = np.flatnonzero(active) + warp.warp * LANES
        if not len(lanes):
            return
        offsets = self.trace.addresses[row][active]
        if (offsets % size).any() or (offsets < 0).any():
            return  # a replay refuses it: what is misaligned depends on the architecture
        does = Does.ATOMIC if operation.atomic else Does.WRITE if operation.store else Does.READ
        copies = instruction.operation.row is Row.COPY
        strands = self._order.copying("LDGSTS", lanes) if copies else self._strands.per_cluster.of_lane[lanes]
        name: object = object() if copies else (instruction.offset, row, warp.warp, self._strands.version)
        self._memory.add(
            name, lambda: Entry(
                instruction, does, size, 0, offsets.astype(np.int64), lanes, strands, self.cta, None,
                "LDGSTS" if copies else "",
            )
        )  # fmt: skip

    def _exited(self, instruction: Instruction, k: int, ended: int) -> None:
        self.findings.add(
            Finding(
                "synccheck", Severity.WARNING, "Barrier error: exited threads",
                f"{counted(ended, 'warp')} of the CTA ended without reaching the barrier",
                (self.point(instruction, self.warps[k].warp * LANES, self.cta, "waits"),), "", 1,
                "let every warp reach it",
            )
        )  # fmt: skip

    def _stuck(self, waiting: dict[int, tuple[int, int | None, Instruction]]) -> None:
        by_barrier: dict[int, list[int]] = {}
        for k, (number, _, _) in waiting.items():
            by_barrier.setdefault(number, []).append(k)
        stops = [warps[0] for warps in by_barrier.values()]
        number, threads, _ = waiting[stops[0]]
        here = len(by_barrier[number])
        needs = f"{threads} threads" if threads is not None else "all that have not exited"
        self.findings.add(
            Finding(
                "synccheck", Severity.ERROR, "Barrier error: divergent threads in CTA",
                f"{counted(here, 'warp')} wait{'s' * (here == 1)} forever at barrier {number}, which needs {needs}",
                tuple(
                    self.point(waiting[k][2], self.warps[k].warp * LANES, self.cta, "waits") for k in stops[:2]
                ),
                f"barrier {number}", 1, "let every warp that the barrier counts reach it",
            )
        )  # fmt: skip


def _barrier(instruction: Instruction) -> tuple[int, int | None]:
    """The number of a barrier and its count of threads, None for all."""
    if instruction.opcode == "UCGABAR_WAIT":
        return CLUSTER_BARRIER, None
    numbers = [int(o, 16) for o in instruction.operands if o.startswith("0x")]
    return (numbers[0] if numbers else 0), (numbers[1] if len(numbers) > 1 else None)
