"""Runs CTAs on the emulated chip in time: it lays out the state of `simulation`, and reads the results.

`engine.twins` compiles the simulation for long runs. Short ones and machines without Numba run the same functions as
they are, with equal results.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.arch.chips import Chip as ChipFacts
from gpuemu.base.unaided import has_numba, unaided
from gpuemu.chip import dispatch, events, simulation
from gpuemu.chip.before import fill, forget, trim
from gpuemu.chip.cta_work import is_even
from gpuemu.chip.memory import (
    BLOCKS,
    COUNTS,
    DIRTIED,
    DONE,
    END_AT,
    HALF_BYTES,
    LAST,
    LINE_BYTES,
    LOADED,
    MERGES,
    PEAK,
    STORED,
    SUB_CORES,
    UNWRITTEN,
    WAYS,
    WORKED,
    WRITTEN,
    Chip,
    MemoryUnits,
    share,
    slices_at,
    units,
)
from gpuemu.chip.simulation import ANYWHERE, FIXED, PRIVATE
from gpuemu.chip.state import Moves, Places, Simulation, Steps, as_lists
from gpuemu.chip.streams import Anywhere, L2Requests, Move, Numbers
from gpuemu.engine import twins

KIB = 1024
MODULES = "gpuemu.chip.memory", "gpuemu.chip.events", "gpuemu.chip.simulation"
MOST_WORK = 4_000_000
"""About so many steps and lines are simulated of a launch. The rest goes on as the second half of these."""
FEWEST_ROUNDS = 4
"""But at least so many CTAs for each place."""
WORTH_LOADING = 3_000
"""Steps and lines for which plain functions need about the time that compiled ones need to load."""
SLICE_KIBIBYTES, CHANNEL_SLICES = 512, 2
"""The size of a slice of L2, and slices for each channel of DRAM, as counted on an A100 (80 slices, 40 channels)."""
WARMING = 4
"""An earlier launch leaves what so many lines for each place of L2 leave that were accessed last."""
CLOSE, TRIES = 0.005, 6
"""The calibrated steps take the time of the detailed run up to this fraction, if so many tries get there."""


@dataclass(frozen=True, eq=False)
class Grid:
    """The CTAs of a grid: where their data lie, relative to the pattern, and how much work each has.

    `weights`: each CTA's fraction of the instructions, loads and stores of the pattern. `buffers`: address and size.
    `accesses`: whether any CTA sends requests to L2.
    """

    pattern: L2Requests
    moved: dict[int, Move]
    weights: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
    buffers: tuple[tuple[int, int], ...]
    resident: int
    cold: bool
    accesses: bool

    @property
    def ctas(self) -> int:
        """The number of CTAs whose data are known."""
        known = [len(m) for m in self.moved.values() if isinstance(m, np.ndarray) and len(m) > 1]
        return min([len(self.weights[0]), *known])

    def of(self, numbers: Sequence[int]) -> Grid:
        """Some CTAs of the grid, as a grid of their own."""
        at = np.asarray(numbers)
        moved = {s: m[at] if isinstance(m, np.ndarray) and len(m) > 1 else m for s, m in self.moved.items()}
        work, loads, stores = (weight[at] for weight in self.weights)
        return replace(self, moved=moved, weights=(work, loads, stores))

    def moves(self) -> Moves:
        """The columns of the simulation."""
        far: list[Numbers] = [np.zeros(0, np.int64)]
        of: list[int] = []
        turns: list[int] = []
        begins: list[int] = []
        lengths: list[int] = []
        starts = np.array(sorted(self.buffers) or [(0, 1 << 60)], np.int64)
        for stream, move in self.moved.items():
            of.append(sum(len(part) for part in far))
            if isinstance(move, Anywhere):
                turns.append(ANYWHERE)
                begins.append(move.begin)
                lengths.append(move.length)
                continue
            turns.append(move.shape[1] if move is not None and move.ndim > 1 else 0)
            far.append(np.zeros(0, np.int64) if move is None or move.shape == (1,) else move.reshape(-1))
            line = int(self.pattern.line[self.pattern.stream == stream][0])
            buffer = max(0, int(np.searchsorted(starts[:, 0], line, "right")) - 1)
            begins.append(int(starts[buffer, 0]))
            lengths.append(max(LINE_BYTES, -(-int(starts[buffer, 1]) // LINE_BYTES) * LINE_BYTES))
        work, loads, stores = self.weights
        a, b, c, d = (np.array(n or [0], np.int64) for n in (of, turns, begins, lengths))
        return Moves(np.concatenate(far), a, b, c, d, work, loads, stores)

    def kinds(self) -> dict[int, int]:
        """Row of `moved` → FIXED or PRIVATE, for those that need no distance."""
        found = {}
        for row, move in enumerate(self.moved.values()):
            if move is None:
                found[row] = PRIVATE
            elif isinstance(move, np.ndarray) and move.shape == (1,):
                found[row] = FIXED
        return found


@dataclass(frozen=True, eq=False)
class Ended:
    """A launch that was simulated: its end, the counts of `memory`, and for how long its units were busy.

    `looked`: the CTAs that were simulated. `most`: the CTAs of the SM with the most. `ends`: the end of the last CTA of
    each place.
    """

    end: float
    counts: NDArray[np.float64]
    dram_busy: float
    l2_busy: float
    atomics_busy: float
    reports_busy: float
    looked: int
    most: int
    ends: NDArray[np.float64]


def all_sms(steps: Steps, grid: Grid, arch: Architecture, chip: ChipFacts) -> Ended:
    """Run the grid on all SMs."""
    numbers = _chip(arch, chip, grid, chip.sms)
    each = max(1, len(steps.kind) + len(steps.address))
    places, ctas = chip.sms * grid.resident, len(grid.weights[0])
    looked, marks = _part(ctas, grid.ctas, places, MOST_WORK // each)
    whole = grid
    if looked < grid.ctas and not is_even(grid.weights[0]):
        grid = grid.of(_everywhere(grid.ctas, looked, places))
    launch = _launch(steps, grid, numbers, marks, chip.l2_dirty_kibibytes)
    if grid.cold:
        fill(launch.memory, numbers.sets, (chip.l2_dirty_kibibytes or 0) * KIB // LINE_BYTES)
    else:
        _warm(launch, whole, chip)
    _run(launch, looked, looked * each)
    more = 1 + _left(whole.weights[:1], grid.weights[:1], looked)
    counts = _with_rest(launch, more - 1, _left(whole.weights[1:], grid.weights[1:], looked))
    busy = np.array(launch.memory.busy)
    at = slices_at(numbers)
    return Ended(
        max(float(counts[END_AT]), float(counts[LAST])), counts,
        dram_busy=more * float(busy[at[2] : at[3]].mean()),
        l2_busy=more * max(float(busy[a:b].mean()) for a, b in ((at[0], at[1]), (at[1], at[2]), (at[3], at[4]))),
        atomics_busy=more * float(busy[at[9] : at[9] + BLOCKS].max()), reports_busy=more * float(busy[at[9] + BLOCKS]),
        looked=looked, most=round(np.max(launch.places.taken) * ctas / looked), ends=np.array(launch.places.ends),
    )  # fmt: skip


def one_sm(steps: Steps, grid: Grid, arch: Architecture, chip: ChipFacts, most: int) -> float:
    """Cycles of the SM with the `most` CTAs, if it has L2 and DRAM for itself, from the first SM's start on."""
    own = grid.of((np.arange(most) * chip.sms % grid.ctas).tolist())
    each = max(1, len(steps.kind) + len(steps.address))
    looked, marks = _part(most, len(own.weights[0]), grid.resident, MOST_WORK // chip.sms // each)
    launch = _alone(steps, own, arch, chip, marks)
    _run(launch, looked, looked * each)
    counts = _with_rest(launch, most / looked - 1, most / looked - 1)
    last = max(share(sm) for sm in range(min(chip.sms, len(grid.weights[0]))))
    drain = (0.5 + last / 2) * (chip.drain_cycles or 0) if grid.accesses else 0.0
    return max(float(counts[END_AT]) + last * (chip.start_spread_cycles or 0) + drain, float(counts[LAST]))


def _left(whole: Sequence[NDArray[np.float64]], part: Sequence[NDArray[np.float64]], looked: int) -> float:
    """How much more the whole grid has than the first CTAs of the part."""
    seen = sum(float(weight[:looked].sum()) for weight in part)
    return max(0.0, sum(float(weight.sum()) for weight in whole) / max(1e-9, seen) - 1)


def _everywhere(ctas: int, looked: int, places: int) -> list[int]:
    """Rounds of CTAs from all over the grid, and the last CTAs."""
    rounds, rest = divmod(looked, places)
    starts = np.linspace(0, ctas - rest - places, rounds).astype(int)
    chosen = [*(start + np.arange(places) for start in starts), np.arange(ctas - rest, ctas)]
    return [int(cta) for cta in np.concatenate(chosen)]


def _with_rest(launch: Simulation, work: float, traffic: float) -> NDArray[np.float64]:
    """The counts with those of the CTAs that are left, which go on as those between the marks.

    They have so much more work and traffic than those that were looked at. CTAs that have not ended have done a part
    of their work, too: cycles of their own tell how much, and sectors that they loaded and stored.
    """
    counts = np.array(launch.memory.counts)
    if work > 0 or traffic > 0:
        first, last = np.array(launch.kept).reshape(-1, COUNTS)
        between = last - first
        moved = between[LOADED] + between[STORED]
        rest = between * ((counts[LOADED] + counts[STORED]) / max(1.0, moved) * traffic)
        rest[[END_AT, LAST]] = between[[END_AT, LAST]] * (counts[WORKED] / max(1e-9, between[WORKED]) * work)
        counts += rest
    return counts


def _part(ctas: int, known: int, places: int, most: int) -> tuple[int, list[int]]:
    """How many CTAs to simulate of a grid, and the ended CTAs between which those lie that the rest is like.

    They are the second half but for the last round: L2 is full of written data. The last round is the grid's.
    """
    rounds = max(FEWEST_ROUNDS, most // places)
    looked = min(ctas, known, rounds * places + ctas % places)
    if looked < 3 * places:
        return looked, [0, looked]
    return looked, [looked // 2 if looked >= 6 * places else places, looked - places]


def calibrated(steps: Steps, own: Grid, arch: Architecture, chip: ChipFacts, cycles: float) -> Steps:
    """The steps with their own work scaled, so that the CTAs of `own` take these cycles on an SM alone."""
    factor, ctas = 1.0, len(own.weights[0])
    low, high = 0.0, math.inf
    for _ in range(TRIES):
        launch = _alone(_scaled(steps, factor), own, arch, chip, [])
        _run(launch, ctas, ctas * (len(steps.kind) + len(steps.address)))
        end = launch.memory.counts[END_AT]
        if abs(end - cycles) <= CLOSE * cycles:
            break
        low, high = (factor, high) if end < cycles else (low, factor)
        guess = factor * cycles / end
        factor = guess if low < guess < high else (low + min(high, 2 * low + 1)) / 2
    return _scaled(steps, factor)


def _scaled(steps: Steps, factor: float) -> Steps:
    return steps._replace(
        wait=np.asarray(steps.wait) * factor, issue=np.asarray(steps.issue) * factor,
        stage=np.asarray(steps.stage) * factor,
    )  # fmt: skip


def _alone(steps: Steps, own: Grid, arch: Architecture, chip: ChipFacts, marks: list[int]) -> Simulation:
    """These CTAs on one SM, for which L2 and DRAM are never busy."""
    shared = re.compile("per_cycle|far_|cta_|drain_|dirty_share|dram_wait_cycles|rates_clock")
    bare = chip.model_copy(update=dict.fromkeys(filter(shared.search, type(chip).model_fields)))
    numbers = _chip(arch, bare, own, 1)
    if not own.cold:  # L2 has everything
        numbers = numbers._replace(dram_cycles=0.0, spread_cycles=0.0, refresh_cycles=0.0, sets=1)
    return _launch(steps, own, numbers, marks)


def _chip(arch: Architecture, chip: ChipFacts, grid: Grid, sms: int) -> Chip:
    """The numbers of the chip for the simulation."""
    memory, mio = arch.global_memory, arch.mio
    before = mio.queue_latency_cycles + mio.cycles_per_source_register
    size = chip.l2_held_kibibytes or chip.l2_kibibytes or (1 << 16)
    slices = chip.l2_slices or max(1, round((chip.l2_kibibytes or size) / SLICE_KIBIBYTES))
    gpcs = max(1, min(sms, chip.gpcs or 1))
    l2 = memory.l2.latency_cycles + memory.l2.spread_cycles // 2
    dram = memory.latency_cycles + memory.spread_cycles // 2
    slower = chip.clock_mhz / (chip.rates_clock_mhz or chip.clock_mhz)  # DRAM keeps its clock

    def each(amount: float, rate: float | None, parts: int = 1) -> float:
        """Cycles of one of so many parts of a resource."""
        return amount * parts / rate if rate else 0.0

    channels = max(1, slices // CHANNEL_SLICES)
    return Chip(
        sms=sms, gpcs=gpcs, resident=grid.resident, slices=slices, channels=channels,
        sets=max(1, size * KIB // LINE_BYTES // WAYS), l2_cycles=float(l2 - before), dram_cycles=slower * (dram - l2),
        atomic_cycles=float(memory.atomic_latency_cycles - before), far_cycles=float(chip.far_cycles or 0),
        far_sm_cycles=float(chip.far_sm_cycles or 0),
        slice_line=each(1, chip.l2_lines_per_cycle, slices),
        slice_sector=each(memory.sector_bytes, chip.l2_read_bytes_per_cycle, slices),
        gpc_sector=each(memory.sector_bytes, chip.l2_together_bytes_per_cycle, gpcs),
        sm_sector=memory.sector_bytes / memory.bytes_per_cycle, sm_line=float(memory.l2.line_cycles),
        out_sector=memory.sector_bytes / memory.store_bytes_per_cycle,
        store_line=each(1, chip.l2_store_lines_per_cycle, slices),
        store_sector=each(memory.sector_bytes, chip.l2_write_bytes_per_cycle, slices),
        channel_half=each(HALF_BYTES, chip.dram_bytes_per_cycle, channels),
        half_alone=(chip.dram_half_factor or 1.0) - 1.0,
        spread_cycles=slower * memory.spread_cycles, block_lines=max(1, (chip.dram_block_bytes or 0) // LINE_BYTES),
        wait_cycles=float(chip.dram_wait_cycles or 0), wait_power=chip.dram_wait_power or 1,
        refresh_interval=slower * memory.refresh_interval_cycles, refresh_cycles=slower * memory.refresh_cycles,
        refresh_lines=max(1, memory.refresh_block_bytes // LINE_BYTES),
        dirty_share=chip.dirty_share or 0.0,
        buffered_cycles=float(max(0, (chip.dram_loaded_cycles or 0) - memory.latency_cycles)),
        merged=chip.merged_requests or 1, merge_cycles=float(chip.merge_cycles or 0),
        slice_queue=float(chip.slice_queue_cycles or 0),
        overhead_cycles=float(arch.launch.overhead_cycles),
        cta_interval=float(arch.launch.cta_interval_cycles), start_spread=float(chip.start_spread_cycles or 0),
        drain=float(chip.drain_cycles or 0) if grid.accesses else 0.0, cta_launch=float(arch.sm.cta_launch_cycles),
        cta_launch_spread=float(chip.cta_launch_spread_cycles or 0),
        report_cycles=chip.cta_dispatch_cycles or 0.0,
        older_first=int(arch.issue.policy == "greedy_then_fair"),
    )  # fmt: skip


def _launch(steps: Steps, grid: Grid, chip: Chip, marks: list[int], dirty_kibibytes: int | None = None) -> Simulation:
    """A launch that has not begun, with nothing in L2."""
    lines, places = chip.sets * WAYS, chip.sms * chip.resident
    ring = max(1, (dirty_kibibytes or 1 << 14) * KIB // LINE_BYTES)
    memory = MemoryUnits(
        free=np.zeros(units(chip)), busy=np.zeros(units(chip)), tag=np.full(lines, -1), touch=np.zeros(lines, np.int64),
        present=np.zeros(lines, np.int8), dirty=np.zeros(lines, np.int8), changed=np.zeros(lines, np.int8),
        comes=np.zeros(lines),
        ring_key=np.full(ring, -1), ring_halves=np.zeros(ring, np.int64),
        merge_key=np.full(MERGES, -1), merge_until=np.zeros(MERGES), merge_count=np.zeros(MERGES, np.int16),
        merge_sm=np.full(MERGES, -1, np.int16), merge_reply=np.zeros(MERGES),
        recent=np.zeros(chip.channels), since=np.zeros(chip.channels), counts=np.zeros(COUNTS),
    )  # fmt: skip
    warps, meetings = len(steps.start), len(steps.arrivals)
    state = Places(
        on=np.zeros(places, np.int64), live=np.zeros(places, np.int64), ends=np.zeros(places),
        next=np.zeros(places * warps, np.int64), order=_first_sms(chip.sms, places),
        taken=np.zeros(chip.sms, np.int64), parked=np.full(places * warps, -1),
        wants=np.zeros(places * warps), ready=np.zeros(places * warps), rank=np.zeros(places * warps, np.int64),
        in_line=np.zeros(SUB_CORES * chip.sms, np.int64), line=np.zeros(SUB_CORES * places * warps, np.int64),
        reply=np.zeros(max(1, places * len(steps.lead))), missing=np.zeros(max(1, places * meetings), np.int64),
        met=np.zeros(max(1, places * meetings)),
    )  # fmt: skip
    queue = events.empty(places * (warps + 1) + SUB_CORES * chip.sms)
    kinds = grid.kinds()
    move = np.array([kinds.get(row, row) for row in np.asarray(steps.move).tolist()], np.int64)
    kept = np.zeros(max(1, len(marks)) * COUNTS)
    return Simulation(
        steps._replace(move=move), grid.moves(), chip, memory, state, queue, np.array(marks or [-1]), kept, -1
    )


def _first_sms(sms: int, places: int) -> Numbers:
    """The SM of each of the first CTAs: a round fills one GPC after another, later ones take the TPCs by chance."""
    return np.concatenate([np.arange(min(sms, places)), dispatch.order(sms, places)[sms:]])


def _warm(launch: Simulation, whole: Grid, chip: ChipFacts) -> None:
    """Leave L2 as an equal launch of the whole grid leaves it, and the work between two launches after it.

    That work evicts all but the last `l2_kept_kibibytes` and writes back dirty lines. With null, there is none.
    """
    kept = None if chip.l2_kept_kibibytes is None else chip.l2_kept_kibibytes * KIB // LINE_BYTES
    each = max(1, len(launch.steps.address))
    size, address = len(launch.memory.tag), np.asarray(launch.steps.address)
    stored = np.repeat(launch.steps.stores, np.diff(launch.steps.line_of)) > 0
    restores = np.isin(address[stored], address[~stored]).any()
    wanted = WARMING * (size if kept is None or restores else min(kept, size))
    first = max(0, whole.ctas - FEWEST_ROUNDS - wanted // each)
    _run(launch._replace(moves=whole.moves(), first=first), whole.ctas, (whole.ctas - first) * each)
    launch.memory.counts[DIRTIED] = launch.memory.counts[WRITTEN] = 0.0
    if kept is not None:
        forget(launch.memory, kept)
    elif chip.l2_found_kibibytes is not None:
        trim(launch.memory, chip.l2_found_kibibytes * KIB // LINE_BYTES)
    launch.memory.counts[PEAK] = launch.memory.counts[UNWRITTEN]


@cache
def _compiled() -> Any:
    return twins.machine_code_of(MODULES, "run")


_asked = 0


def _run(launch: Simulation, until: int, work: int) -> None:
    """Run the simulation, compiled if the work is worth it, and change the launch."""
    global _asked
    _asked += work
    if has_numba() and _asked >= WORTH_LOADING:
        _compiled()(launch, until)
    else:
        with unaided():
            plain = Simulation(*(as_lists(part) for part in launch))
            simulation.run(plain, until)
        columns: Any = zip((*launch.memory, *launch.places), (*plain.memory, *plain.places), strict=True)
        for column, numbers in columns:
            if isinstance(numbers, list):
                column[:] = numbers
        launch.kept[:] = plain.kept
    assert launch.first >= 0 or launch.memory.counts[DONE] == until, "warps wait forever"
