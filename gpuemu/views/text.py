"""A run as text for the terminal. `gpuemu run traces/v2_shared_memory.yaml --arch sm_89` prints

    v2_shared_memory on sm_89, code for sm_89
    A, B and C through shared memory, rows of 32 bytes: two-way conflicts
    1 CTA of 1 warp; 24 fit on the SM, limited by CTAs

           720 cycles from launch to last store, caches warm
            37 warp instructions, 0.05 a cycle
          1.78 us, about, for the whole launch on RTX 4060 Ti at 2535 MHz
    4522 cycles elapsed, 3802 of them to launch it: 1 CTA on 34 SMs, 1 on the SM with the most; limited
    by too few CTAs; 1 CTA timed; cycles at the SMs' clock, which power may lower
    sm_89: never measured here, about 80% of its values assumed; about ±5% for that, --sure tells more

    Waits for global memory: one warp cannot hide it (92% of the cycles are the latency of one warp).
    Cycles if only this limited it         Cycles  Of the run
    latency of one warp                       663       92.1%
    one warp's accesses to shared memory      100       13.9%
    registers sent to the load/store unit      70        9.7%
    shared-memory data stage                   50        6.9%
    launch                                     40        5.6%
    issue slots                                37        5.1%
    and 13 more; --all shows them

    Shared memory       Instructions  Wavefronts  Ideal  Bank Conflicts
    Shared Load                    1           4      4               0
    Shared Load Matrix             2          16      8               8
    Shared Store                   6          16     12               4
    Total                          9          36     24              12
    accesses queued before shared memory for 15 cycles, all added up

    Global memory  Requests  Sectors  Ideal  Sectors/Request
    Global Load           2       32     32             16.0
    Global Store          1       16     16             16.0
    L1 had 0 of the 32 sectors asked of it, 0.0%
    32 sectors came from L2 or DRAM, 16 went there

    Stall reason, of all warps  Cycles  Of all                    Waits for
    long_scoreboard                237   34.9%  ######            global memory
    imc_miss                       126   18.5%  ###               constants to be fetched
    short_scoreboard               103   15.1%  ##                shared memory, shuffles or special
                                                                  functions
    wait                            87   12.8%  ##                results of a fixed latency
    selected                        37    5.4%  #                 issued an instruction
    drain                           34    5.0%  #                 its last stores
    barrier                         30    4.4%  #                 the other warps at a barrier
    no_instruction                  18    2.6%                    code to be fetched
    math_pipe_throttle               8    1.2%                    a busy pipe

    Schedulers
    Active Warps            1.00  on a scheduler, each cycle that it has any
    Eligible Warps          0.05  of them could issue
    Issued Warp             0.05  no eligible warp in 94.6%
    Theoretical Occupancy  50.0%  24 of 48 warps, limited by CTAs
    Achieved Occupancy      2.1%  1.0 warps

    CTA  Warp  Sub-core  Start  End  long_scoreboard  imc_miss  short_scoreboard  wait  Others
      0     0         0     40  720              237       126               103    87     127

    Next: gpuemu why traces/v2_shared_memory.yaml --arch sm_89: what the bank conflicts, and every other
    cause, cost. gpuemu check: races and wild accesses. Or --page source: which instruction.

How to read it. First what limits the run, and the cycles that each resource alone would take, the tightest first. The
shared-memory table has the profiler's rows and columns; a bank conflict is a wavefront beyond the ideal, the fewest
that the instructions' widths need. That of global memory has the sectors that the lanes touch beside the fewest that
could hold what they ask for. Every cycle of a warp's life has one reason: `selected` when it issued, else why it could
not; `not_selected` means that it could have, but another warp did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import wrap

from gpuemu.base.table import Bar, Cell, Line, Style, Table, number, words
from gpuemu.views.answer import waits_for
from gpuemu.views.counters import RowCounts
from gpuemu.views.grid import not_refilled, rests_on
from gpuemu.views.json_result import overrides, shuffles
from gpuemu.views.notes import caches
from gpuemu.views.resources import LATENCY
from gpuemu.views.result import Result
from gpuemu.views.sure.estimate import Sure
from gpuemu.views.sure.sure_text import lines as of_sure

WIDTH = 100
MOST_WARPS, MOST_BOUNDS = 8, 6
LEAST_SHARE = 0.01
"""Stall reasons and resources that take less of the cycles are left out unless all are asked for."""
_FIGURES = 11
"""Columns of a figure in the head, which end where the words about them begin."""


def report(
    result: Result, columns: int = WIDTH, everything: bool = False, again: str = "", sure: Sure | None = None
) -> Iterator[Line]:
    """The lines of the report, each with a style; at most `columns` wide, from 60 on.

    `everything`: every bound, stall reason and warp. `again`: what follows `gpuemu run` on the command line, for the
    questions that come next. `sure`: how sure it is.
    """
    yield from _head(result, columns)
    yield from _limits(result, columns, everything)
    for table in (_shared_table(result, columns), _global_table(result, columns)):
        lines = list(table)
        if lines:
            yield "plain", ""
            yield from lines
    yield "plain", ""
    yield from _stall_table(result, columns, everything)
    yield "plain", ""
    yield from _scheduler_table(result, columns)
    yield "plain", ""
    yield from _warp_table(result, columns, everything)
    if sure is not None:
        yield "plain", ""
        yield from of_sure(sure, columns)
    yield from _next(result, columns, again)


def wrapped(style: Style, text: str, columns: int) -> Iterator[Line]:
    """A sentence in lines."""
    for line in wrap(text, columns):
        yield style, line


def told(result: Result, columns: int = WIDTH) -> Iterator[Line]:
    """The notes of a run, as lines."""
    for note in result.notes:
        yield from wrapped("faint", note, columns)


def _head(result: Result, columns: int) -> Iterator[Line]:
    trace, program = result.trace, result.program
    yield from wrapped("strong", f"{trace.name} on {result.arch.name}, code for {trace.arch}", columns)
    yield from wrapped("faint", trace.about, columns)
    yield from told(result, columns)
    changes = [f"{name}={value}" for name, value in overrides(result.arch).items()]
    yield from wrapped("plain", f"with {', '.join(changes)}" if changes else "", columns)
    ctas, warps = program.ctas, trace.launch.warps_per_cta
    grid = trace.launch.ctas
    timed = f"{ctas} CTA{'s' * (ctas != 1)}" if ctas == grid else f"timed {ctas} of the grid's {grid} CTAs, each"
    limits = program.residency_limits
    limit = min(limits, key=lambda name: limits[name])
    where = f"{timed} of {warps} warp{'s' * (warps != 1)}; "
    where += f"{program.resident_ctas} fit{'s' * (program.resident_ctas == 1)} on the SM, limited by {limit}"
    yield from wrapped("plain", where, columns)
    yield "plain", ""
    instructions = result.counters["smsp__inst_executed.sum"]
    some = "" if ctas == grid else f" of the {ctas} CTA{'s' * (ctas != 1)} timed"
    cycles = f"cycles from launch to last store{some}, {caches(result.arch, result.footprint)}"
    yield from _figure("strong", str(result.cycles), cycles, columns)
    rate = instructions / result.cycles if result.cycles else 0.0
    yield from _figure("plain", str(instructions), f"warp instructions, {rate:.2f} a cycle", columns)
    yield from _whole_grid(result, columns)
    yield from wrapped("faint", result.sureness, columns)


def _figure(style: Style, figure: str, about: str, columns: int) -> Iterator[Line]:
    for at, line in enumerate(wrap(about, columns - _FIGURES)):
        yield style, f"{'' if at else figure:>{_FIGURES - 1}} {line}"


def _whole_grid(result: Result, columns: int) -> Iterator[Line]:
    grid = result.grid
    if grid.whole is None or grid.nanoseconds is None:
        together = min(grid.most_ctas, grid.resident_ctas)
        told = f"of {grid.chip}'s {grid.sms} SMs the one with the most has {together} CTAs at once: no estimate of the"
        told += " whole launch"
    else:
        whole = grid.whole
        on = f"us, about, for the whole launch on {grid.chip} at {grid.clock_mhz} MHz"
        yield from _figure("plain", f"{grid.nanoseconds / 1000:.2f}", on, columns)
        launch = result.arch.chips[grid.chip].launch_cycles
        started = f", {launch} of them to launch it" if launch else ""
        limit = whole.limited_by if whole.limited_by == result.limited_by else f"each SM's {result.limited_by}"
        dealt = f"{grid.ctas} CTA{'s' * (grid.ctas != 1)} on {grid.sms} SMs, {grid.most_ctas} on the SM with the most"
        told = f"{whole.elapsed} cycles elapsed{started}: {dealt}; limited by {limit}; {rests_on(grid)}"
    yield from wrapped("faint", told, columns)


def _limits(result: Result, columns: int, everything: bool) -> Iterator[Line]:
    yield "plain", ""
    yield from wrapped("strong", f"{result.verdict}.", columns)
    bounds = [b for n, b in enumerate(result.bounds) if not n or b.cycles >= LEAST_SHARE * result.cycles]
    shown = bounds if everything else [b for b in bounds if not b.resource.startswith(f"{LATENCY},")][:MOST_BOUNDS]
    rows = [(b.resource, b.cycles, b.cycles / result.cycles) for b in shown]
    heads = [words("Cycles if only this limited it"), number("Cycles"), number("Of the run", ".1%")]
    yield from Table(heads, rows).lines(columns)
    yield from _more(len(bounds) - len(shown))


def _more(count: int) -> Iterator[Line]:
    if count > 0:
        yield "faint", f"and {count} more; --all shows them"


def _shared_table(result: Result, columns: int) -> Iterator[Line]:
    total = RowCounts()
    for counts in result.shared_memory.values():
        total.add(counts)
    moved = shuffles(result)
    if total.instructions:
        named = [(row, c) for row, c in result.shared_memory.items() if c.instructions] + [("Total", total)]
        rows = [(name, c.instructions, c.wavefronts, c.ideal_wavefronts, c.bank_conflicts) for name, c in named]
        styles: list[Style] = ["bad" if c.bank_conflicts else "plain" for _, c in named]
        heads = ("Instructions", "Wavefronts", "Ideal", "Bank Conflicts")
        yield from Table([words("Shared memory"), *map(number, heads)], rows, styles).lines(columns)
    if total.data_stage_wait_cycles:
        waited = f"accesses queued before shared memory for {total.data_stage_wait_cycles:,} cycles, all added up"
        yield from wrapped("faint", waited, columns)
    if moved:
        told = f"{moved} shuffle{'s' * (moved != 1)} crossed the data stage, touched no bank and are in no row"
        yield from wrapped("faint", told, columns)


def _global_table(result: Result, columns: int) -> Iterator[Line]:
    rows = [
        (row, c.requests, c.sectors, c.ideal_sectors, c.sectors_per_request)
        for row, c in result.global_memory.items()
        if c.requests
    ]
    if not rows:
        return
    heads = ("Requests", "Sectors", "Ideal", "Sectors/Request")
    yield from Table([words("Global memory"), *map(number, heads)], rows).lines(columns)
    l1 = result.l1
    if l1.cached_sectors:
        share = l1.hit_sectors / l1.cached_sectors
        had = f"L1 had {l1.hit_sectors} of the {l1.cached_sectors} sectors asked of it, {share:.1%}"
        yield from wrapped("faint", had, columns)
    gone = f"{l1.loaded_sectors} sectors came from L2 or DRAM, {l1.stored_sectors} went there"
    yield from wrapped("faint", gone, columns)


def _stall_table(result: Result, columns: int, everything: bool) -> Iterator[Line]:
    total = sum(result.stalls.values())
    found = _by_size(result.stalls)
    shown = [(reason, cycles) for reason, cycles in found if everything or cycles >= LEAST_SHARE * total]
    rows = [
        (
            reason, cycles, cycles / total, Bar(cycles / total),
            "issued an instruction" if reason == "selected" else waits_for(reason),
        )
        for reason, cycles in shown
    ]  # fmt: skip
    heads = [
        words("Stall reason, of all warps"), number("Cycles"), number("Of all", ".1%"),
        words("", leaves=1, has_bars=True), words("Waits for"),
    ]  # fmt: skip
    yield from Table(heads, rows).lines(columns)
    yield from _more(len(found) - len(shown))


def _by_size(stalls: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(((r, c) for r, c in stalls.items() if c), key=lambda item: -item[1])


def _scheduler_table(result: Result, columns: int) -> Iterator[Line]:
    counts, occupancy, program = result.scheduler, result.occupancy, result.program
    limits = program.residency_limits
    limit = min(limits, key=lambda name: limits[name])
    issued = counts.per_cycle(counts.issued)
    fit = f"{occupancy.theoretical_warps} of {occupancy.max_warps} warps, limited by {limit}"
    there = ", ".join(filter(None, (f"{occupancy.achieved_warps:.1f} warps", not_refilled(result.grid))))
    rows = [
        ("Active Warps", f"{counts.per_cycle(counts.active_warps):.2f}", "on a scheduler, each cycle that it has any"),
        ("Eligible Warps", f"{counts.per_cycle(counts.eligible_warps):.2f}", "of them could issue"),
        ("Issued Warp", f"{issued:.2f}", f"no eligible warp in {1 - issued:.1%}"),
        ("Theoretical Occupancy", f"{occupancy.theoretical:.1%}", fit),
        ("Achieved Occupancy", f"{occupancy.achieved:.1%}", there),
    ]
    yield from Table([words("Schedulers"), number(""), words("")], rows).lines(columns)


def _warp_table(result: Result, columns: int, everything: bool) -> Iterator[Line]:
    """The warps with a column for each of the reasons that took most, as many as find room."""
    reasons = [reason for reason, _ in _by_size(result.stalls)]
    warps = result.warps if everything else result.warps[:MOST_WARPS]
    heads = ["CTA", "Warp", "Sub-core", "Start", "End"]
    room = columns - sum(max(len(head), 5) + 2 for head in heads) - len("Others")
    shown: list[str] = []
    for reason in reasons:
        room -= max(len(reason), *(len(f"{w.stalls[reason]:,}") for w in warps)) + 2
        if room < 0:
            break
        shown.append(reason)
    others = [reason for reason in reasons if reason not in shown] if shown else []
    rows: list[list[Cell]] = [
        [w.cta, w.warp, w.sub_core, w.start_cycle, w.end_cycle, *(w.stalls[reason] for reason in shown)] for w in warps
    ]
    if others:
        rows = [[*row, sum(w.stalls[r] for r in others)] for row, w in zip(rows, warps, strict=True)]
    names = [*heads, *shown, *(["Others"] if others else [])]
    yield from Table([*map(number, names)], rows).lines(columns)
    left = len(result.warps) - len(warps)
    if left:
        yield "faint", f"and {left} warps more; --all shows them"


def _next(result: Result, columns: int, again: str) -> Iterator[Line]:
    """The commands that answer what one asks next, where the words of this one are known."""
    if not again:
        return
    yield "plain", ""
    conflicts = any(counts.bank_conflicts for counts in result.shared_memory.values())
    what = "what the bank conflicts, and every other cause, cost" if conflicts else "what each cause costs"
    asked = f"gpuemu why {again}"
    if len(asked) + 6 > columns:
        asked = "gpuemu why, with the same words behind it"
    told = f"Next: {asked}: {what}. gpuemu check: races and wild accesses. Or --page source: which instruction."
    yield from wrapped("faint", told, columns)
