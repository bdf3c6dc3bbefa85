"""The parts that `gpuemu run --all` adds to the summary: launch, lower bounds, stall reasons, schedulers, warps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import wrap

from gpuemu.base.shown import counted
from gpuemu.base.table import Bar, Cell, Line, Table, number, words
from gpuemu.views.grid import rests_on
from gpuemu.views.json_result import shuffles
from gpuemu.views.notes import caches
from gpuemu.views.result import Result
from gpuemu.views.stalls import stall_reason

LEAST_SHARE = 0.01
"""The least share of the cycles at which a lower bound has a row."""


def details(result: Result, columns: int) -> tuple[Iterator[Line], ...]:
    """The parts, each as lines of at most `columns`."""
    return (
        _launch(result, columns), _bounds(result, columns), _queued(result, columns), _stalls(result, columns),
        _schedulers(result, columns), _warps(result, columns),
    )  # fmt: skip


def _launch(result: Result, columns: int) -> Iterator[Line]:
    trace, program, grid = result.trace, result.program, result.grid
    limits = program.residency_limits
    limit = min(limits, key=lambda name: limits[name])
    warps = trace.launch.warps_per_cta
    said = [
        trace.about.rstrip("."),
        f"Code for {trace.arch}; each block has {counted(warps, 'warp')}",
        f"The SM has room for {counted(program.resident_ctas, 'block')}, limited by {limit}",
        f"SM Active Cycles run from the launch to the last store, {caches(result.arch, result.footprint)}",
    ]
    if grid.whole is not None:
        said += [
            f"{grid.chip} has {grid.sms} SMs, and the SM with the most gets {grid.most_ctas} of {grid.ctas:,} blocks",
            f"The launch is limited by {grid.whole.limited_by}: {rests_on(grid)}",
            "Cycles count at the SMs' clock, which a limit of power may lower",
        ]
    for line in wrap(". ".join(filter(None, said)) + ".", columns):
        yield "faint", line


def _bounds(result: Result, columns: int) -> Iterator[Line]:
    bounds = [b for n, b in enumerate(result.bounds) if not n or b.cycles >= LEAST_SHARE * result.cycles]
    rows = [(b.resource, b.cycles, b.cycles / result.cycles) for b in bounds]
    heads = [words("Lower bound per resource"), number("Cycles"), number("% of cycles", ".1%")]
    yield from Table(heads, rows).lines(columns)


def _queued(result: Result, columns: int) -> Iterator[Line]:
    waited = sum(counts.data_stage_wait_cycles for counts in result.shared_memory.values())
    moved = shuffles(result)
    said = [f"Requests queued for shared memory for {waited:,} cycles in total."] if waited else []
    if moved:
        said.append(
            f"Not in the table of shared memory: {moved:,} shuffle{'s' * (moved != 1)},"
            f" which use{'s' * (moved == 1)} the data stage but no bank."
        )
    for line in wrap(" ".join(said), columns):
        yield "plain", line


def _stalls(result: Result, columns: int) -> Iterator[Line]:
    total = sum(result.stalls.values())
    rows = [
        (reason, cycles, cycles / total, Bar(cycles / total), stall_reason(reason).waits_for or "nothing: it issued")
        for reason, cycles in _by_size(result.stalls)
    ]
    heads = [
        words("Stall reason"), number("Cycles"), number("% of all warps", ".1%"), words("", leaves=1, has_bars=True),
        words("A warp waits for"),
    ]  # fmt: skip
    yield from Table(heads, rows).lines(columns)


def _by_size(stalls: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(((r, c) for r, c in stalls.items() if c), key=lambda item: -item[1])


def _schedulers(result: Result, columns: int) -> Iterator[Line]:
    counts, occupancy = result.scheduler, result.occupancy
    issued = counts.per_cycle(counts.issued)
    rows = [
        ("Active Warps Per Scheduler", f"{counts.per_cycle(counts.active_warps):.2f}"),
        ("Eligible Warps Per Scheduler", f"{counts.per_cycle(counts.eligible_warps):.2f}"),
        ("Issued Warp Per Scheduler", f"{issued:.2f}"),
        ("No Eligible", f"{1 - issued:.1%}"),
        ("Achieved Active Warps Per SM", f"{occupancy.achieved_warps:.1f}"),
    ]
    yield from Table([words("Schedulers"), number("")], rows).lines(columns)


def _warps(result: Result, columns: int) -> Iterator[Line]:
    """The warps, each with as many of the largest stall reasons as fit."""
    reasons = [reason for reason, _ in _by_size(result.stalls)]
    heads = ("Block", "Warp", "Sub-core", "Start", "End")
    shown = list(reasons)
    while True:  # a warp's numbers never break: the smallest reasons go until the others fit
        others = [reason for reason in reasons if reason not in shown]
        rows: list[tuple[Cell, ...]] = [
            (
                w.cta, w.warp, w.sub_core, w.start_cycle, w.end_cycle, *(w.stalls[reason] for reason in shown),
                *([sum(w.stalls[reason] for reason in others)] if others else []),
            )
            for w in result.warps
        ]  # fmt: skip
        lines = list(Table([*map(number, (*heads, *shown, *(["Others"] if others else [])))], rows).lines(columns))
        if not shown or max(len(line) for _, line in lines) <= columns:
            yield from lines
            return
        shown.pop()
