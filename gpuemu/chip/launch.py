"""Simulates a whole launch: CTAs that ran on one SM in detail, then all CTAs of the grid on all SMs in time.

A CTA of the detailed run gives the steps of all (`steps`). `moves` says where the data of each CTA lie. `simulation`
runs the grid on the chip. The steps are calibrated first: the same CTAs on one SM alone take as long as in detail.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.chip import clock
from gpuemu.chip.clock import Ended, Grid
from gpuemu.chip.copies import with_copies
from gpuemu.chip.cta_work import executed, is_even, parts, work_of
from gpuemu.chip.estimate import (
    ALONE,
    ATOMICS,
    DEALING,
    DRAM,
    L2,
    LATENCY,
    SHARES,
    TAIL,
    TOO_FEW,
    LaunchEstimate,
    Traffic,
)
from gpuemu.chip.memory import ASKED, DIRTIED, HALF_BYTES, LOADED, READ, STORED, WRITTEN
from gpuemu.chip.rates import at_clock
from gpuemu.chip.selected import chosen_ctas, select_ctas
from gpuemu.chip.steps import steps_of
from gpuemu.chip.streams import LOCAL, LOCAL_BYTES, L2Requests, address_deltas, l2_requests
from gpuemu.engine import execute
from gpuemu.engine.log import Log
from gpuemu.program.lowering import lower
from gpuemu.program.program import Program
from gpuemu.trace.model import Trace

MOSTLY = 0.6
"""DRAM or L2 limits a launch if it alone takes at least this fraction of the time."""
SLOWER = 1.1
"""Shared resources limit a launch if the SM takes this factor longer next to the others than alone."""


@dataclass(frozen=True, eq=False)
class _Run:
    """The run of some CTAs on one SM: their numbers in the grid, and the instructions of each."""

    program: Program
    log: Log
    numbers: list[int]
    counts: NDArray[np.float64]


def simulate_launch(
    trace: Trace, arch: Architecture, program: Program, log: Log, engine: str = "auto"
) -> LaunchEstimate:
    """Simulate the launch of `trace` on the architecture's chip. `program`, `log`: the run of the SM alone."""
    chip, sample, work = at_clock(arch.chips[arch.chip], program), trace.sample, work_of(trace)
    run, events = _detailed(trace, arch, program, log, engine)
    program, resident = run.program, run.program.resident_ctas
    places = chip.sms * resident
    each = l2_requests(program, run.log)
    full = [with_copies(t, program, run.log, k, events) for k, t in enumerate(each)]
    reference = _reference(run, each, trace.launch.ctas / places)
    number, pattern = run.numbers[reference], full[reference]
    part = run.counts[reference] / work[number] if sample is not None and sample.is_cut else 1.0
    work = part * work
    others = [(run.numbers[k], t) for k, t in enumerate(full) if run.numbers[k] != number]
    moved = address_deltas(trace, pattern, number, others, places)
    unknown = [pc for pc, move in moved.items() if move is None and trace.code[pc].mnemonic == "UTMALDG"]
    pattern = pattern.without(unknown)
    moved = {pc: move for pc, move in moved.items() if pc not in unknown}
    rows = {stream: row for row, stream in enumerate(moved)}
    serial = 1 / (chip.atomics_per_cycle or math.inf), 1 / (chip.float_atomics_per_cycle or math.inf)
    alone = run if len(run.numbers) == 1 else _run(trace, [number], arch, engine)
    steps = steps_of(alone.program, alone.log, 0, _by_itself(pattern, program, reference), rows, arch, serial)
    buffers = (*sample.buffers, (LOCAL, places * LOCAL_BYTES)) if sample and sample.buffers else ()
    weights = work / run.counts[reference], *(parts(trace, work, number, stores) for stores in (False, True))
    accesses = any(len(t.line) for t in full)
    grid = Grid(pattern, moved, weights, buffers, resident, is_cold(arch), accesses)
    own = grid.of([min(n, trace.launch.ctas - 1) for n in run.numbers])  # a trace by hand may have any numbers
    steps = clock.calibrated(steps, own, arch, chip, float(run.log.cta_end.max()))
    ended = clock.all_sms(steps, grid, arch, chip)
    limits = {
        ALONE: clock.one_sm(steps, grid, arch, chip, ended.most), SHARES: ended.end, DRAM: ended.dram_busy,
        L2: ended.l2_busy, ATOMICS: ended.atomics_busy, DEALING: ended.reports_busy,
    }  # fmt: skip
    # With all caches flushed, the first access waits for a page walk in DRAM.
    walk = (chip.page_walk_cycles or 0) if is_cold(arch) and len(pattern.line) else 0
    # The rest of a launch whose CTAs were not recorded to their ends has the same pace.
    elapsed = (chip.launch_cycles or 0) + walk + ended.end / part
    return LaunchEstimate(
        round(elapsed), {name: round(n / part) for name, n in limits.items() if round(n)},
        _limited_by(limits, trace.launch.ctas, places, chip.sms), _traffic(ended, part),
        len({w.cta for w in sample.others.warps}) if sample else 0, is_even(work), places,
    )  # fmt: skip


def _detailed(
    trace: Trace, arch: Architecture, program: Program, log: Log, engine: str
) -> tuple[_Run, NDArray[np.int64] | None]:
    """The run of one SM with the timed CTAs and others of the sample, and the events of its trace."""
    chosen = chosen_ctas(trace)
    longer = select_ctas(trace, chosen)
    if longer is not trace:
        return _run(trace, chosen, arch, engine), longer.events
    return _of(trace, program, log), longer.events


def _run(trace: Trace, ctas: list[int], arch: Architecture, engine: str) -> _Run:
    """Run these CTAs on one SM."""
    program = lower(select_ctas(trace, ctas), arch)
    return _of(trace, program, execute(program, arch, engine))


def _of(trace: Trace, program: Program, log: Log) -> _Run:
    known = executed(trace)
    numbers = [int(program.warp_cta[w]) for w in program.first_warp[:-1]]
    return _Run(program, log, numbers, np.array([known[n] for n in numbers], float))


def _by_itself(pattern: L2Requests, program: Program, cta: int) -> L2Requests:
    """The requests of a CTA of the program, numbered as in a program of this CTA only."""
    warp = program.first_warp[cta]
    first, issue = program.first_request[warp], program.first_issue[warp]
    request = np.where(pattern.request >= 0, pattern.request - first, pattern.request + issue)
    return replace(pattern, request=request)


def _reference(run: _Run, each: list[L2Requests], rounds: float) -> int:
    """The CTA whose steps represent all others.

    Of those with the most work, the one whose sectors are closest to the mean of the launch, then the one that lived
    for the median time. Only in the first of so many `rounds` are SMs without the data that CTAs share.
    """
    spans, resident = (run.log.cta_end - run.log.cta_start).astype(float), run.program.resident_ctas
    sectors = np.array([float(pattern.count.sum()) for pattern in each])
    first, later = sectors[:resident].mean(), sectors[resident:]
    mean = first if not len(later) or rounds <= 1 else later.mean() + (first - later.mean()) / rounds
    full = np.flatnonzero(run.counts >= 0.98 * run.counts.max())
    off = np.round(16 * np.abs(sectors[full] - mean) / max(1.0, mean))
    closest = full[off == off.min()]
    return int(closest[np.argsort(spans[closest], kind="stable")[len(closest) // 2]])


def _traffic(ended: Ended, part: float) -> Traffic:
    """The counters of a launch, of which this part was simulated."""
    counts = np.asarray(ended.counts) / part
    read, written, dirtied = (int(counts[n]) * HALF_BYTES for n in (READ, WRITTEN, DIRTIED))
    loaded, asked, stored = (int(counts[n]) for n in (LOADED, ASKED, STORED))
    return Traffic(loaded, asked, stored, read, written, dirtied, ended.looked)


def is_cold(arch: Architecture) -> bool:
    """Whether no launch came before, so that L2 has nothing."""
    return arch.global_memory.first_touch == "dram"


def _limited_by(limits: dict[str, float], ctas: int, places: int, sms: int) -> str:
    """The name of the resource that limits a launch, by how long each was busy."""
    busiest = max((DRAM, L2, ATOMICS, DEALING), key=lambda name: limits[name])
    if limits[SHARES] >= SLOWER * limits[ALONE]:
        return busiest if limits[busiest] >= MOSTLY * limits[SHARES] else LATENCY
    if ctas < sms:
        return TOO_FEW
    rounds = ctas / sms
    return TAIL if ctas > places and math.ceil(rounds) > 1.1 * rounds else ALONE
