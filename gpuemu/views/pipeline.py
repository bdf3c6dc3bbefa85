"""Asynchronous work on sm_90: copies, phases of mbarriers, products of warpgroups, and the waits for them.

A phase of an mbarrier begins at the end of the previous phase, and ends with the last missing bytes or arrival. A ring
is a row of adjacent mbarriers of one kind. Rings that count bytes are called `full`, and the others `empty`. Cycles are
those of the log. An arrival counts `mbarrier.arrive_cycles` after its issue.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.engine.log import Cycles, Log
from gpuemu.isa.products import NO_PRODUCT
from gpuemu.program.events import Events
from gpuemu.program.program import Program

WARPGROUP = 4
"""The warps of a warpgroup."""
_LOOK_BACK = 64
"""The instructions before an arrival among which gpuemu looks for its cause."""


class Copy(NamedTuple):
    """A bulk or tensor copy, from its issue until its bytes have arrived or were read, and its mbarrier or -1."""

    issue: int
    start: int
    stop: int
    bytes: int
    barrier: int


class Arrival(NamedTuple):
    """An event at an mbarrier: its cycle, its issue, and whether it is the bytes of a copy."""

    cycle: int
    issue: int
    copy: bool


class Wait(NamedTuple):
    """A warp's wait for a phase, from its issue to its end. `phase` is the number of the phase; -1: not known yet."""

    issue: int
    start: int
    stop: int
    phase: int


@dataclass
class BarrierHistory:
    """An mbarrier of a CTA: the arrivals of a phase, and its phases. `over`: the end and the last event of each."""

    cta: int
    number: int
    arrivals: int = 0
    bytes: int = 0
    arrived: list[Arrival] = field(default_factory=list)
    over: list[Arrival] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)


class Product(NamedTuple):
    """Products of a warpgroup between two waits for them, from the first issue until the last product is done."""

    warp: int
    start: int
    stop: int
    many: int


@dataclass(frozen=True)
class Ring:
    """Adjacent mbarriers of one kind in a CTA."""

    barriers: tuple[BarrierHistory, ...]

    @property
    def name(self) -> str:
        """`full` if copies bring bytes, `empty` if only threads arrive."""
        return "full" if self.barriers[0].bytes else "empty"

    @property
    def stages(self) -> int:
        """The number of mbarriers."""
        return len(self.barriers)


@dataclass(frozen=True)
class Pipeline:
    """All asynchronous work of a run."""

    copies: tuple[Copy, ...]
    barriers: tuple[BarrierHistory, ...]
    products: tuple[Product, ...]

    @property
    def rings(self) -> tuple[Ring, ...]:
        """The rings, CTA by CTA. The stages of a ring have as many phases, or one less."""
        found: list[list[BarrierHistory]] = []
        for barrier in self.barriers:
            last = found[-1][-1] if found else None
            same = last is not None and (last.cta, last.arrivals, last.bytes, last.number + 1) == (
                barrier.cta, barrier.arrivals, barrier.bytes, barrier.number,
            )  # fmt: skip
            if same and abs(len(found[-1][0].over) - len(barrier.over)) <= 1:
                found[-1].append(barrier)
            else:
                found.append([barrier])
        return tuple(Ring(tuple(of)) for of in found)


ARRIVALS = ("SYNCS", "ARRIVES", "UTCBAR")
"""The instructions that arrive at mbarriers, the last when products in tensor memory have ended."""


def barriers_of(events: Events, number: int) -> NDArray[np.int64]:
    """The mbarriers that an event is for."""
    return events.barrier[events.first_barrier[number] : events.first_barrier[number + 1]]


def pipeline(program: Program, log: Log, arch: Architecture) -> Pipeline:
    """The pipeline of a run; empty if nothing is asynchronous, or if the trace has no events."""
    copies: list[Copy] = []
    barriers: dict[tuple[int, int], BarrierHistory] = {}
    events = program.events
    if events is not None and len(events.issue):
        late, test = arch.mbarrier.arrive_cycles, arch.mbarrier.test_cycles
        warp_of = np.searchsorted(program.first_issue, events.issue, side="right") - 1
        cta_of = np.searchsorted(program.first_warp, warp_of, side="right") - 1
        mnemonics = _mnemonics(program, events.issue)
        for issue, number, cta, (mnemonic, modifiers) in zip(
            events.issue.tolist(), events.number.tolist(), cta_of.tolist(), mnemonics, strict=True
        ):
            start, stop = int(log.issue[issue]), max(int(log.result[issue]), int(log.issue[issue]))
            told = barriers_of(events, number).tolist()
            if mnemonic not in ARRIVALS:
                if events.rows[number] or events.sectors[number]:
                    copies.append(Copy(issue, start, stop, int(events.bytes[number]), told[0] if told else -1))
                arrived = Arrival(stop, issue, True)
            else:
                arrived = Arrival(max(start + late, stop if mnemonic != "SYNCS" else 0), issue, False)
            for k in told:
                barrier = barriers.setdefault((cta, k), BarrierHistory(cta, k))
                if "EXCH" in modifiers:
                    barrier.arrivals = int(events.arrivals[number])
                elif "PHASECHK" in modifiers:
                    barrier.waits.append(Wait(issue, start, max(start, stop - test), int(events.parity[number])))
                else:
                    barrier.arrived.append(arrived)
        for barrier in barriers.values():
            _phases(barrier, events, dict(zip(events.issue.tolist(), events.number.tolist(), strict=True)))
    found = tuple(barriers[key] for key in sorted(barriers))
    return Pipeline(tuple(copies), found, tuple(_products(program, log.issue, log.result)))


def _mnemonics(program: Program, issues: NDArray[np.int64]) -> list[tuple[str, tuple[str, ...]]]:
    index = program.of_ops("index")[program.path[issues]]
    return [(program.code[i].mnemonic, program.code[i].parsed.modifiers) for i in index.tolist()]


def _phases(barrier: BarrierHistory, events: Events, number_of: dict[int, int]) -> None:
    """Find the end of each phase, and the phase of each wait."""
    barrier.arrived.sort()
    missing, lacking = barrier.arrivals, 0
    for arrival in barrier.arrived:
        number = number_of[arrival.issue]
        lacking += -int(events.bytes[number]) if arrival.copy else int(events.bytes[number])
        missing -= 0 if arrival.copy else int(events.arrivals[number])
        barrier.bytes = max(barrier.bytes, lacking, int(events.bytes[number]))
        if missing == 0 and lacking == 0:
            barrier.over.append(arrival)
            missing = barrier.arrivals
    ends = np.array([over.cycle for over in barrier.over], np.int64)
    for k, wait in enumerate(barrier.waits):
        done = int(np.searchsorted(ends, wait.start, side="right"))
        # A wait names its phase by parity: it is the phase in progress, or the one before.
        phase = done if (done - wait.phase) % 2 == 0 else done - 1
        barrier.waits[k] = wait._replace(phase=phase)


def _products(program: Program, issue: Cycles, done: Cycles) -> list[Product]:
    """The products between two waits, for the first warp of each warpgroup."""
    index = program.of_ops("index")[program.path]
    latency = program.of_ops("latency_cycles")[program.path]
    found = []
    for warp in range(program.warps):
        if int(program.warp_number[warp]) % WARPGROUP:
            continue
        begin, stop, count = -1, 0, 0
        of_warp = program.issues_of(warp)
        for i in range(of_warp.start, of_warp.stop):
            instruction = program.code[int(index[i])]
            if instruction.operation.warpgroup_columns and instruction.operands[:3] != NO_PRODUCT:
                begin = int(issue[i]) if begin < 0 else begin
                stop, count = max(stop, int(issue[i] + latency[i]), int(done[i])), count + 1
            elif instruction.mnemonic == "WARPGROUP" and instruction.has("DEPBAR") and begin >= 0:
                found.append(Product(warp, begin, max(stop, int(issue[i])), count))
                begin, stop, count = -1, 0, 0
        if begin >= 0:
            found.append(Product(warp, begin, stop, count))
    return found


class Told(NamedTuple):
    """A ring in a table: the waits of all CTAs and warps, their cycles, and the number by the cause of their end."""

    ring: str
    stages: int
    bytes: int
    waits: int
    cycles: int
    by_copies: int
    by_arrivals: int
    after_products: int
    longest: int


def table(pipeline: Pipeline, program: Program) -> list[Told]:
    """The waits at mbarriers, one row per ring, for all CTAs together.

    A wait that an arrival ends counts as `after_products` if the arriving warp had waited for the tensor cores.
    """
    rows: dict[tuple[int, ...], Told] = {}
    for ring in pipeline.rings:
        key = tuple(b.number for b in ring.barriers)
        row = rows.get(key) or Told(ring.name, ring.stages, ring.barriers[0].bytes, 0, 0, 0, 0, 0, 0)
        for barrier in ring.barriers:
            for wait in barrier.waits:
                cycles, over = wait.stop - wait.start, barrier.over
                row = row._replace(waits=row.waits + 1, cycles=row.cycles + cycles, longest=max(row.longest, cycles))
                if not cycles or not 0 <= wait.phase < len(over):
                    continue
                last = over[wait.phase]
                row = row._replace(by_copies=row.by_copies + last.copy, by_arrivals=row.by_arrivals + (not last.copy))
                if not last.copy and _behind_products(program, last.issue):
                    row = row._replace(after_products=row.after_products + 1)
        rows[key] = row
    return [row for row in rows.values() if row.waits]


def _behind_products(program: Program, issue: int) -> bool:
    """Whether the last wait of a warp before an arrival was for products of the tensor cores."""
    first = int(np.searchsorted(program.first_issue, issue, side="right") - 1)
    index = program.of_ops("index")[program.path]
    for i in range(issue - 1, max(int(program.first_issue[first]) - 1, issue - _LOOK_BACK), -1):
        instruction = program.code[int(index[i])]
        if instruction.mnemonic == "WARPGROUP" and instruction.has("DEPBAR"):
            return True
        if instruction.has("PHASECHK"):
            return False
    return False


def tensor_core_idle(pipeline: Pipeline) -> tuple[int, int]:
    """Cycles between the first and the last product without any product, and those of them with a full stage."""
    spans = sorted((p.start, p.stop) for p in pipeline.products)
    if not spans:
        return 0, 0
    begin, end = spans[0][0], max(stop for _, stop in spans)
    busy = np.zeros(end - begin + 1, np.int64)
    for start, stop in spans:
        busy[start - begin] += 1
        busy[stop - begin] -= 1
    idle = np.cumsum(busy)[:-1] == 0
    ready = np.zeros(end - begin + 1, np.int64)
    for ring in pipeline.rings:
        for barrier in ring.barriers if ring.name == "full" else ():
            for phase, over in enumerate(barrier.over):
                taken = [w.stop for w in barrier.waits if w.phase == phase]
                if taken and over.cycle < max(taken):
                    ready[min(max(over.cycle, begin), end) - begin] += 1
                    ready[min(max(taken), end) - begin] -= 1
    return int(idle.sum()), int((idle & (np.cumsum(ready)[:-1] > 0)).sum())
