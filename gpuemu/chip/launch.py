"""Estimates the time of a whole launch from one detailed SM, as if all other SMs made the same requests.

The SM runs alone, and then with its share of L2 and DRAM. `traffic` determines which of its data are in L2. CTAs that
were not run take as long as the later ones that were. CTAs of unequal work are assigned as places become free.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.chip.copies import with_copies
from gpuemu.chip.cta_work import EVEN, executed, is_even, parts, work_of
from gpuemu.chip.dispatch import Dealt, Pace, deal, pace_of
from gpuemu.chip.estimate import SECTOR_BYTES, LaunchEstimate
from gpuemu.chip.hot import serialized_cycles
from gpuemu.chip.l2 import LINE_BYTES
from gpuemu.chip.rates import First, at_clock, beside_others, burst, share, solve_wait
from gpuemu.chip.streams import LOCAL, LOCAL_BYTES, Anywhere, L2Requests, address_deltas, l2_requests, runs
from gpuemu.chip.traffic import traffic
from gpuemu.engine import execute
from gpuemu.engine.log import Log
from gpuemu.isa.opcodes import Kind
from gpuemu.program.lowering import lower
from gpuemu.program.program import Program
from gpuemu.trace.model import Trace, WarpTrace

GROUP_CYCLES = 500
"""Lines that an SM first loads within so many cycles, about one latency, are either all in L2 or all missing."""
ALONE, SHARES, DRAM, L2, ATOMICS, DEALING = (
    "the SM with the most CTAs", "the SMs' shares of L2 and DRAM", "DRAM", "L2", "atomics on one address",
    "dealing out CTAs",
)  # fmt: skip


LOOKS, CLOSE_CYCLES = 3, 40
"""Most runs of the SM to find how long its loads wait, and the tolerance of that wait in cycles."""
LATENCY, TOO_FEW, TAIL = "latencies of L2 and DRAM", "too few CTAs", "the tail: the last CTAs leave SMs idle"
MOSTLY = 0.6
"""DRAM or L2 limits a launch if it alone takes at least this fraction of the time."""
APART = 0.1
"""CTAs that fill an SM end together if the first ends at most this fraction of the time before the last."""
SLOWER = 1.1
"""Shared resources limit a launch if the SM takes this factor longer next to the others than alone."""


@dataclass(frozen=True, eq=False)
class _Run:
    """The run of some CTAs on one SM: their numbers in the grid, and the instructions of each.

    `heaviest_cta`: if CTAs are unequal, a run of the longest one alone.
    """

    program: Program
    log: Log
    numbers: list[int]
    counts: NDArray[np.float64]
    heaviest_cta: _Run | None = None

    @property
    def spans(self) -> NDArray[np.float64]:
        """Cycles from the start to the end of each CTA."""
        return (self.log.cta_end - self.log.cta_start).astype(float)

    @property
    def lived(self) -> float:
        """Cycles from the start of the first CTA to the end of the last."""
        return float(self.log.cta_end.max() - self.log.cta_start.min())


def _run(trace: Trace, ctas: list[int], known: dict[int, int], arch: Architecture, engine: str) -> _Run:
    """Run these CTAs on an SM alone."""
    program = lower(select_ctas(trace, ctas), arch)
    numbers = [int(program.warp_cta[w]) for w in program.first_warp[:-1]]
    return _Run(program, execute(program, arch, engine), numbers, np.array([known[n] for n in numbers], float))


def estimate_launch(
    trace: Trace, arch: Architecture, program: Program, log: Log, engine: str = "auto"
) -> LaunchEstimate:
    """Estimate the launch of `trace` on the architecture's chip. `program`, `log`: the run of the SM alone."""
    chip, ctas, sample = at_clock(arch.chips[arch.chip], program), trace.launch.ctas, trace.sample
    known, work = executed(trace), work_of(trace)
    chosen = chosen_ctas(trace)
    longer = select_ctas(trace, chosen)
    numbers = [int(program.warp_cta[w]) for w in program.first_warp[:-1]]
    run = _Run(program, log, numbers, np.array([known[n] for n in numbers], float))
    if longer is not trace:
        run = _run(trace, chosen, known, arch, engine)
    if sample is not None and (sample.heaviest or not is_even(work)):
        run = replace(run, heaviest_cta=_run(trace, [max(chosen, key=lambda n: known[n])], known, arch, engine))
    program, log, numbers = run.program, run.log, run.numbers
    each = l2_requests(program, log)
    full = [with_copies(t, program, log, k, longer.events) for k, t in enumerate(each)]
    reference = _reference(run, each)
    number, pattern = numbers[reference], full[reference]
    if run.heaviest_cta is not None and reference < program.resident_ctas:
        # CTAs of other work load other data, too.
        heaviest, number = run.heaviest_cta, run.heaviest_cta.numbers[0]
        events = select_ctas(trace, [number]).events
        pattern = with_copies(l2_requests(heaviest.program, heaviest.log)[0], heaviest.program, heaviest.log, 0, events)
    places = chip.sms * program.resident_ctas
    dispatch = chip.cta_dispatch_cycles or 0.0
    between = float(arch.sm.cta_launch_cycles)
    if run.heaviest_cta is None:
        starts = (np.arange(ctas) // places * run.spans.mean()).astype(np.int64)
    else:
        starts = _dealt(run, work, chip.sms, dispatch, between).starts_of_all(ctas)
    starts = np.maximum(starts, (dispatch * np.arange(ctas)).astype(np.int64))
    others = [(numbers[k], t) for k, t in enumerate(full) if numbers[k] != number]
    moved = address_deltas(trace, pattern, number, others, places)
    unknown = [pc for pc, move in moved.items() if move is None and trace.code[pc].mnemonic == "UTMALDG"]
    pattern = pattern.without(unknown)
    here = np.zeros(1, np.int64)
    moves = {pc: here if isinstance(m, Anywhere) else m for pc, m in moved.items() if pc not in unknown}
    weights = np.stack([parts(trace, work, number, stores) for stores in (False, True)])
    buffers, resident = sample.buffers if sample else (), program.resident_ctas
    buffers = (*buffers, (LOCAL, places * LOCAL_BYTES)) if buffers else ()
    found = traffic(pattern, moves, weights, starts, chip, buffers, is_cold(arch), resident)
    busy = min(ctas, chip.sms)
    alone, shared = _end(run, work, chip.sms, dispatch, between), 0.0
    idle = arch.global_memory.latency_cycles
    taken = _at(found.dram_read + found.dram_written, chip.dram_bytes_per_cycle, 0)
    last = beside_last = float(run.spans.max())
    if busy > 1 and (found.loaded_sectors or found.stored_sectors):
        at_l2 = _at(found.asked_sectors * SECTOR_BYTES, chip.l2_read_bytes_per_cycle, 0)
        saved = burst(float(run.spans.mean()), ctas / places, max(taken, at_l2) / alone)
        shares = heaviest_shares = share(chip, found, busy, _first(program, each), ctas <= places, saved)
        if run.heaviest_cta is not None:
            of_first = _first(run.heaviest_cta.program, l2_requests(run.heaviest_cta.program, run.heaviest_cta.log))
            heaviest_shares = share(chip, found, busy, of_first, ctas <= places, saved)
        calm = beside_others(arch, chip, busy, ctas <= places)
        wait, first = 0, (arch.global_memory.l2.latency_cycles - idle, alone)
        looks: list[float] = []
        while len(looks) < LOOKS:
            beside = replace(run, log=execute(program, calm, engine, share=replace(shares, dram_wait=wait)))
            if run.heaviest_cta is not None:
                waits = replace(heaviest_shares, dram_wait=wait)
                heaviest = replace(run.heaviest_cta, log=execute(run.heaviest_cta.program, calm, engine, share=waits))
                beside = replace(beside, heaviest_cta=heaviest)
            looks.append(_end(beside, work, chip.sms, dispatch, between, run))
            begin = first if len(looks) > 1 else (-1, looks[-1])
            settles, wait = wait, solve_wait(chip, idle, taken, begin, (wait, looks[-1]))
            if abs(wait - settles) <= CLOSE_CYCLES:
                break
        shared = max(looks[0], looks[-1])
        beside_last = min(shared, float(beside.spans.max()))
    hot = serialized_cycles(longer, chip) * float(work.sum()) / max(1.0, float(run.counts.sum()))
    limits = {
        ALONE: alone,
        SHARES: shared,
        DRAM: max(
            taken and taken + idle + solve_wait(chip, idle, taken, (-idle, taken), (0, taken + idle)),
            _at(found.dram_bytes(chip), chip.dram_bytes_per_cycle, 0),  # no load waits for dirty lines
        ),
        L2: _at(found.asked_sectors * SECTOR_BYTES, chip.l2_read_bytes_per_cycle, arch.global_memory.l2.latency_cycles),
        ATOMICS: hot,
    }
    most = max(limits.values()) + dispatch * busy
    limits[DEALING] = dispatch * ctas
    # CTAs that start no faster than L2 and DRAM serve them do not wait for each other.
    last += max(0.0, beside_last - last) * max(0.0, 1 - limits[DEALING] / max(1.0, shared))
    limited_by = DEALING if limits[DEALING] > most else _limited_by(limits, ctas, places, chip.sms)
    last *= float(work[-1] / work.max())  # a short CTA ends early
    # With all caches flushed, the first access waits for a page walk in DRAM.
    walk = (chip.page_walk_cycles or 0) if is_cold(arch) and (found.loaded_sectors or found.stored_sectors) else 0
    elapsed = (chip.launch_cycles or 0) + walk + max(most, limits[DEALING] + last)
    return LaunchEstimate(
        round(elapsed), {name: round(n) for name, n in limits.items() if n}, limited_by, found,
        len({w.cta for w in sample.others.warps}) if sample else 0, is_even(work), places,
    )  # fmt: skip


def _reference(run: _Run, each: list[L2Requests]) -> int:
    """The CTA whose requests represent all others.

    Among the CTAs with the most instructions, its requests to L2 are closest to their average. Later CTAs win ties. If
    CTAs are unequal and some followed others on the SM, it is the longest of these.
    """
    counts, resident = run.counts, run.program.resident_ctas
    if run.heaviest_cta is not None and counts[resident:].max(initial=0.0) > counts.max() / 2:
        return resident + int(counts[resident:].argmax())
    full = np.flatnonzero(counts >= (1 - EVEN) * counts.max())
    asked = np.array([float(each[k].count.sum()) for k in full])
    off = np.round(16 * np.abs(asked - asked.mean()) / max(1.0, asked.mean()))
    return int(full[np.flatnonzero(off == off.min())[-1]])


def chosen_ctas(trace: Trace) -> list[int]:
    """CTAs to run: the timed ones and their followers, or, if CTAs are unequal, those of the busiest SM."""
    timed = list(dict.fromkeys(warp.cta for warp in trace.warps))
    sample = trace.sample
    if sample is None:
        return timed
    return list(sample.heaviest) or [*timed, *sample.followers]


def select_ctas(trace: Trace, ctas: list[int]) -> Trace:
    """The trace of these CTAs, which are timed or in the sample."""
    sample = trace.sample
    if sample is None or ctas == list(dict.fromkeys(warp.cta for warp in trace.warps)):
        return trace
    others = sample.others
    rows, events = np.int32(len(trace.addresses)), np.int32(0 if trace.events is None else len(trace.events))
    added = [
        replace(
            w, rows=w.rows + rows, events=None if w.events is None else np.where(w.events < 0, -1, w.events + events)
        )
        for w in others.warps
    ]
    of: dict[int, list[WarpTrace]] = {}
    for warp in (*trace.warps, *added):
        of.setdefault(warp.cta, []).append(warp)

    def both(name: str, missing: int, kind: type) -> Any:
        columns = [getattr(t, name) for t in (trace, others)]
        if all(column is None for column in columns):
            return None
        shapes = [t.active.shape for t in (trace, others)]
        return np.concatenate([
            np.full(shape, missing, kind) if column is None else column
            for column, shape in zip(columns, shapes, strict=True)
        ])  # fmt: skip

    return replace(
        trace, warps=tuple(warp for cta in ctas for warp in of[cta]), sample=None,
        addresses=np.concatenate([trace.addresses, others.addresses]),
        active=np.concatenate([trace.active, others.active]),
        spaces=both("spaces", 0, np.uint8), sources=both("sources", -1, np.int64),
        events=None if trace.events is None else np.concatenate([trace.events, others.events]),
    )  # fmt: skip


def _limited_by(limits: dict[str, float], ctas: int, places: int, sms: int) -> str:
    """The name of the resource behind the largest limit."""
    most = max(limits, key=lambda name: limits[name])
    if most == SHARES and limits[SHARES] < SLOWER * limits[ALONE]:
        most = ALONE
    if most == SHARES:
        bound = max((DRAM, L2), key=lambda name: limits[name])
        return bound if limits[bound] >= MOSTLY * limits[SHARES] else LATENCY
    if most != ALONE:
        return most
    if ctas < sms:
        return TOO_FEW
    rounds = ctas / sms
    return TAIL if ctas > places and math.ceil(rounds) > 1.1 * rounds else ALONE


def is_cold(arch: Architecture) -> bool:
    """Whether no launch came before, so that L2 has nothing."""
    return arch.global_memory.first_touch == "dram"


def _at(amount: float, rate: float | None, latency: int | None) -> float:
    """Cycles to transfer an amount at a rate, after the latency of the first transfer."""
    return amount / rate + (latency or 0) if rate and amount else 0.0


def _first(program: Program, each: list[L2Requests]) -> First:
    """The first loads of each line by the SM, CTA by CTA."""
    accesses, ops = program.accesses, program.ops
    of_global = np.array([op.kind is Kind.GLOBAL and not op.is_local for op in ops])[program.path]
    asked = np.unique(program.access[of_global[program.request_issue]])
    touched = np.unique(accesses.line[runs(accesses.first_line[asked], accesses.lines[asked])])
    group, met = np.zeros(len(touched), np.int64), np.zeros(len(touched), np.bool_)
    groups, sectors, loaded = 0, 0, 0
    for t in each:
        loads = ~t.written & (t.line < LOCAL)
        at = np.searchsorted(touched, t.line[loads] // LINE_BYTES)
        _, first = np.unique(at, return_index=True)
        fresh = np.sort(first[~met[at[first]]])
        met[at[fresh]] = True
        group[at[fresh]] = groups + t.time[loads][fresh] // GROUP_CYCLES
        groups += 1 + t.cycles // GROUP_CYCLES
        sectors += int(t.count[loads][fresh].sum())
        loaded += int(t.count[loads].sum())
    return First(sectors / loaded if loaded else 1.0, group)


def _pace(run: _Run, besides: float) -> Pace:
    """The pace of an SM with CTAs of unequal work, from the run of one alone and of several together."""
    assert run.heaviest_cta is not None
    alone = float(run.heaviest_cta.counts[0]) / run.heaviest_cta.lived
    return pace_of(run.counts, run.lived + besides, run.program.resident_ctas, alone, besides)


def _dealt(run: _Run, work: NDArray[np.float64], sms: int, dispatch: float, besides: float) -> Dealt:
    return deal(work, sms, run.program.resident_ctas, _pace(run, besides), dispatch)


def _end(
    run: _Run, work: NDArray[np.float64], sms: int, dispatch: float, besides: float, alone: _Run | None = None
) -> float:
    """The end of the last CTA if all SMs run as this one.

    `alone`: a run of the same CTAs without other SMs. The CTAs left after the last full round of all SMs take at least
    the time that they take alone, and otherwise their part of the shared resources.
    """
    ctas, log = len(work), run.log
    if run.heaviest_cta is not None:
        return _dealt(run, work, sms, dispatch, besides).end - besides + float(log.cycles) - run.lived
    each, left = divmod(ctas, sms)
    if alone is None or not each or not left:
        return _until(run, each + (left > 0))
    all_have, one_more = _until(run, each), _until(run, each + 1)
    least = _until(alone, each + 1) - _until(alone, each)
    return all_have + max(least, (one_more - all_have) * left / sms)


def _until(run: _Run, wanted: int) -> float:
    """The cycle in which the SM has completed `wanted` CTAs."""
    ran, resident, log = run.program.ctas, run.program.resident_ctas, run.log
    ends = np.sort(log.cta_end)
    if wanted <= ran:
        return float(log.cycles - ends[-1] + ends[wanted - 1])
    if ran >= 2 * resident:
        further = (ends[-1] - ends[resident - 1]) / (ran - resident)
    elif ran >= resident and log.cta_end[:resident].min() < (1 - APART) * log.cta_end[:resident].max():
        further = _each_in_turn(run, int(ends[ran - resident]))
    elif ran > resident:
        return _rounds(float(ends[resident - 1]), float(log.cycles), ran - resident, resident, wanted)
    else:
        further = log.cycles / ran
    return float(log.cycles + (wanted - ran) * further)


def _each_in_turn(run: _Run, until: int) -> float:
    """Cycles per CTA if new CTAs take the places of those that end first, while the others continue.

    Counts the work of all CTAs until the first place stays free.
    """
    program, issue = run.program, run.log.issue
    at = program.first_issue[program.first_warp]
    return until / sum(float((issue[a:b] < until).mean()) for a, b in itertools.pairwise(at))


def _rounds(full: float, cycles: float, few: int, resident: int, wanted: int) -> float:
    """The end of `wanted` CTAs if `resident` CTAs take `full` cycles together.

    The run ended at `cycles`, after `few` more CTAs. A last round that is not full takes a time between the two.
    """
    before, last = (wanted - 1) // resident, (wanted - 1) % resident + 1
    alone = cycles - full
    return full * before + alone + (full - alone) * max(0.0, (last - few) / (resident - few))
