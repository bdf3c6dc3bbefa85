"""A run as text for the terminal. `gpuemu run traces/v2_shared_memory.yaml --arch sm_89` prints

    v2_shared_memory on sm_89, code for sm_89
    A, B and C through shared memory, rows of 32 bytes: two-way conflicts
    1 CTA of 1 warp; 24 fit on the SM, limited by CTAs

           778 cycles from launch to last store, caches warm
            37 warp instructions, 0.05 a cycle
          0.31 us, about, for the whole launch on RTX 4060 Ti at 2535 MHz
    778 cycles elapsed: 1 CTA on 34 SMs, 1 on the SM with the most; limited by too few CTAs; 1 CTA
    timed; cycles at the SMs' clock, which power may lower
    sm_89: never measured here, 215 of 281 values assumed; about ±7% for that, --sure tells more

    Shared memory           Instructions  Wavefronts       Ideal  Bank Conflicts
    Shared Load                        1           4           4               0
    Shared Load Matrix                 2          16           8               8
    Shared Store                       6          16          12               4
    Total                              9          36          24              12
    requests waited 15 cycles for the data stage

    Global memory               Requests     Sectors       Ideal Sectors/Request
    Global Load                        2          32          32            16.0
    Global Store                       1          16          16            16.0
    L1 had 0 of the 32 sectors asked of it, 0.0%
    32 sectors came from beyond L1, 16 went there

    Stall reasons, cycles of all warps
    long_scoreboard              295   40.0%  ######            global memory
    imc_miss                     126   17.1%  ###               a constant had to be fetched
    short_scoreboard              99   13.4%  ##                shared memory, shuffles, special units
    wait                          87   11.8%  ##                stall counts of the code
    selected                      37    5.0%  #                 issued an instruction
    barrier                       34    4.6%  #                 the other warps of its CTA
    drain                         34    4.6%  #                 the last accesses were under way
    no_instruction                18    2.4%                    for code to be fetched
    math_pipe_throttle             8    1.1%                    the pipe it needs is busy

    Schedulers, each cycle with a warp on them
    Active Warps                1.00
    Eligible Warps              0.05
    Issued Warp                 0.05  no eligible warp in 95.0%
    Theoretical Occupancy      50.0%  24 of 48 warps, limited by CTAs
    Achieved Occupancy          2.1%  1.0 warps

     CTA warp core   start     end     select       wait      short       long    barrier
                                                            scorebd    scorebd
       0    0    0      40     778         37         87         99        295         34

     CTA warp core   start     end         no       math        imc      drain
                                        instr    throttl       miss
       0    0    0      40     778         18          8        126         34

    Limited by latency of one warp: 89% of the cycles; most go to long_scoreboard (global memory)
    latency of one warp                              696   89.5%
    latency of one warp, long_scoreboard             261   33.5%
    latency of one warp, imc_miss                    126   16.2%
    a warp's path to shared memory                   100   12.9%
    latency of one warp, short_scoreboard             99   12.7%
    latency of one warp, wait                         87   11.2%
    global-memory bandwidth                           77    9.9%
    operands sent to the load/store unit              70    9.0%
    shared-memory data stage                          50    6.4%
    launch                                            40    5.1%
    issue slots                                       37    4.8%
    tensor core                                       32    4.1%
    queues to the load/store unit                     32    4.1%
    load/store unit                                   28    3.6%
    IMAD pipe (FMA heavy)                             22    2.8%
    integer pipe (ALU)                                18    2.3%
    path of stored registers                          17    2.2%
    entries of the load/store unit                    16    2.1%
    way back to the registers                         11    1.4%

How to read it. The shared-memory table has the profiler's rows and columns; a bank conflict is a wavefront beyond
the ideal, the fewest that the instructions' widths need. That of global memory has the sectors that the lanes touch
beside the fewest that could hold what they ask for. Every cycle of a warp's life has one reason:
`selected` when it issued, else why it could not; `not_selected` means that it could have, but another warp did.
The last part names the resource that alone would take most of the cycles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Literal

from gpuemu.views.counters import RowCounts
from gpuemu.views.grid import rests_on
from gpuemu.views.json_result import overrides, shuffles
from gpuemu.views.notes import caches
from gpuemu.views.result import Result
from gpuemu.views.sure.estimate import Sure
from gpuemu.views.sure.sure_text import lines as of_sure

Style = Literal["plain", "strong", "faint"]
Line = tuple[Style, str]
BAR_COLUMNS = 16
WIDTH = 100
MOST_WARPS = 32
LEAST_SHARE = 0.01
"""Resources that would take less of the cycles alone are not worth a line."""

_MEANING = {
    "selected": "issued an instruction",
    "wait": "stall counts of the code",
    "short_scoreboard": "shared memory, shuffles, special units",
    "long_scoreboard": "global memory",
    "barrier": "the other warps of its CTA",
    "branch_resolving": "after taken branches",
    "no_instruction": "for code to be fetched",
    "mio_throttle": "the load/store unit's queue is full",
    "math_pipe_throttle": "the pipe it needs is busy",
    "dispatch_stall": "registers of one bank are read in turn",
    "not_selected": "another warp was issued",
    "imc_miss": "a constant had to be fetched",
    "drain": "the last accesses were under way",
}

_HEADS = {
    "selected": ("select", ""),
    "wait": ("wait", ""),
    "short_scoreboard": ("short", "scorebd"),
    "long_scoreboard": ("long", "scorebd"),
    "barrier": ("barrier", ""),
    "branch_resolving": ("branch", "resolv"),
    "no_instruction": ("no", "instr"),
    "mio_throttle": ("mio", "throttl"),
    "math_pipe_throttle": ("math", "throttl"),
    "dispatch_stall": ("dispat", "stall"),
    "not_selected": ("not", "select"),
    "imc_miss": ("imc", "miss"),
    "drain": ("drain", ""),
}
"""Heads of the columns, at most 7 characters a line, so that all of them keep a space between."""


def report(result: Result, columns: int = WIDTH, sure: Sure | None = None) -> Iterator[Line]:
    """The lines of the report, each with a style; at most `columns` wide, from 80 on; `sure`: how sure it is."""
    yield from _head(result, columns)
    yield "plain", ""
    for table in (_shared_table(result), _global_table(result)):
        lines = list(table)
        if lines:
            yield from lines
            yield "plain", ""
    yield from _stall_table(result, columns)
    yield "plain", ""
    yield from _scheduler_table(result)
    yield "plain", ""
    yield from _warp_table(result, columns)
    yield "plain", ""
    yield from _limits(result, columns)
    if sure is not None:
        yield "plain", ""
        yield from of_sure(sure, columns)


def _head(result: Result, columns: int) -> Iterator[Line]:
    trace, program = result.trace, result.program
    yield "strong", f"{trace.name} on {result.arch.name}, code for {trace.arch}"
    if trace.about:
        for line in wrap(trace.about, columns):
            yield "faint", line
    yield from told(result, columns)
    changes = [f"{name}={value}" for name, value in overrides(result.arch).items()]
    for line in wrap(f"with {', '.join(changes)}", columns) if changes else ():
        yield "plain", line
    ctas, warps = program.ctas, trace.launch.warps_per_cta
    grid = trace.launch.ctas
    timed = f"{ctas} CTA{'s' * (ctas != 1)}" if ctas == grid else f"timed {ctas} of the grid's {grid} CTAs, each"
    limits = program.residency_limits
    limit = min(limits, key=lambda name: limits[name])
    where = f"{timed} of {warps} warp{'s' * (warps != 1)}; "
    where += f"{program.resident_ctas} fit{'s' * (program.resident_ctas == 1)} on the SM, limited by {limit}"
    for line in wrap(where, columns):
        yield "plain", line
    instructions = result.counters["smsp__inst_executed.sum"]
    yield "plain", ""
    yield "strong", f"{result.cycles:10} cycles from launch to last store, {caches(result.arch, result.footprint)}"
    rate = instructions / result.cycles if result.cycles else 0.0
    yield "plain", f"{instructions:10} warp instructions, {rate:.2f} a cycle"
    yield from _whole_grid(result, columns)
    for line in wrap(result.sureness, columns):
        yield "faint", line


def told(result: Result, columns: int = WIDTH) -> Iterator[Line]:
    """The notes of a run, as lines."""
    for note in result.notes:
        for line in wrap(note, columns):
            yield "faint", line


def _whole_grid(result: Result, columns: int) -> Iterator[Line]:
    grid = result.grid
    if grid.whole is None or grid.nanoseconds is None:
        together = min(grid.most_ctas, grid.resident_ctas)
        told = f"of {grid.chip}'s {grid.sms} SMs the one with the most has {together} CTAs at once: no estimate of the"
        told += " whole launch"
    else:
        whole = grid.whole
        on = f"{grid.chip} at {grid.clock_mhz} MHz"
        yield "plain", f"{grid.nanoseconds / 1000:10.2f} us, about, for the whole launch on {on}"
        dealt = f"{grid.ctas} CTA{'s' * (grid.ctas != 1)} on {grid.sms} SMs, {grid.most_ctas} on the SM with the most"
        told = f"{whole.elapsed} cycles elapsed: {dealt}; limited by {whole.limited_by}; {rests_on(grid)}"
    for line in wrap(told, columns):
        yield "faint", line


def _shared_table(result: Result) -> Iterator[Line]:
    total = RowCounts()
    for counts in result.shared_memory.values():
        total.add(counts)
    moved = shuffles(result)
    if total.instructions:
        yield (
            "strong",
            f"{'Shared memory':22}{'Instructions':>14}{'Wavefronts':>12}{'Ideal':>12}{'Bank Conflicts':>16}",
        )
        for row, counts in result.shared_memory.items():
            if counts.instructions:
                yield "plain", _counts(row.value, counts)
        yield "plain", _counts("Total", total)
    if total.data_stage_wait_cycles:
        yield "faint", f"requests waited {total.data_stage_wait_cycles} cycles for the data stage"
    if moved:
        yield "faint", f"{moved} shuffle{'s' * (moved != 1)} crossed the data stage, touched no bank and are in no row"


def _global_table(result: Result) -> Iterator[Line]:
    rows = [(row.value, counts) for row, counts in result.global_memory.items() if counts.requests]
    if not rows:
        return
    yield "strong", f"{'Global memory':22}{'Requests':>14}{'Sectors':>12}{'Ideal':>12}{'Sectors/Request':>16}"
    for name, counts in rows:
        yield (
            "plain",
            f"{name:22}{counts.requests:14}{counts.sectors:12}{counts.ideal_sectors:12}"
            f"{counts.sectors_per_request:16.1f}",
        )
    l1 = result.l1
    if l1.cached_sectors:
        share = l1.hit_sectors / l1.cached_sectors
        yield (
            "faint",
            f"L1 had {l1.hit_sectors} of the {l1.cached_sectors} sectors asked of it, {share:.1%}",
        )
    yield "faint", f"{l1.loaded_sectors} sectors came from beyond L1, {l1.stored_sectors} went there"


def _scheduler_table(result: Result) -> Iterator[Line]:
    counts, occupancy, program = result.scheduler, result.occupancy, result.program
    limits = program.residency_limits
    limit = min(limits, key=lambda name: limits[name])
    yield "strong", "Schedulers, each cycle with a warp on them"
    issued = counts.per_cycle(counts.issued)
    yield "plain", f"{'Active Warps':22}{counts.per_cycle(counts.active_warps):10.2f}"
    yield "plain", f"{'Eligible Warps':22}{counts.per_cycle(counts.eligible_warps):10.2f}"
    yield "plain", f"{'Issued Warp':22}{issued:10.2f}  no eligible warp in {1 - issued:.1%}"
    yield (
        "plain",
        f"{'Theoretical Occupancy':22}{occupancy.theoretical:10.1%}  {occupancy.theoretical_warps} of"
        f" {occupancy.max_warps} warps, limited by {limit}",
    )
    yield "plain", f"{'Achieved Occupancy':22}{occupancy.achieved:10.1%}  {occupancy.achieved_warps:.1f} warps"


def _counts(name: str, counts: RowCounts) -> str:
    return (
        f"{name:22}{counts.instructions:14}{counts.wavefronts:12}{counts.ideal_wavefronts:12}{counts.bank_conflicts:16}"
    )


def _stall_table(result: Result, columns: int) -> Iterator[Line]:
    yield "strong", "Stall reasons, cycles of all warps"
    total = sum(result.stalls.values())
    for reason, cycles in _by_size(result.stalls):
        bar = f"{'#' * round(BAR_COLUMNS * cycles / total):{BAR_COLUMNS}}  " if columns >= WIDTH else ""
        yield "plain", f"{reason:20}{cycles:12}{cycles / total:8.1%}  {bar}{_MEANING[reason]}"


def _by_size(stalls: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(((r, c) for r, c in stalls.items() if c), key=lambda item: -item[1])


def _warp_table(result: Result, columns: int) -> Iterator[Line]:
    """The warps with a column for each reason; where not all find room, in several tables below each other."""
    reasons = [reason for reason, cycles in result.stalls.items() if cycles]
    warps = result.warps[:MOST_WARPS]
    whole = [f"{w.cta:4}{w.warp:5}{w.sub_core:5}{w.start_cycle:8}{w.end_cycle:8}" for w in warps]
    head = f"{'CTA':>4}{'warp':>5}{'core':>5}{'start':>8}{'end':>8}"
    needed = 1 + max(
        *(len(word) for reason in reasons for word in _HEADS[reason]),
        *(len(str(w.stalls[reason])) for w in warps for reason in reasons),
    )
    abreast = max(1, (columns - len(head)) // needed)
    blocks = -(-len(reasons) // abreast)
    abreast = -(-len(reasons) // blocks)
    width = min(11, (columns - len(head)) // abreast)
    for start in range(0, len(reasons), abreast):
        shown = reasons[start : start + abreast]
        if start:
            yield "plain", ""
        for line, left in enumerate((head, " " * len(head))):
            yield "strong", (left + "".join(f"{_HEADS[reason][line]:>{width}}" for reason in shown)).rstrip()
        for warp, left in zip(warps, whole, strict=True):
            yield "plain", left + "".join(f"{warp.stalls[reason]:{width}}" for reason in shown)
    if len(result.warps) > MOST_WARPS:
        yield "faint", f"and {len(result.warps) - MOST_WARPS} warps more; --format json has all"


def _limits(result: Result, columns: int) -> Iterator[Line]:
    tightest = result.bounds[0]
    for line in wrap(f"Limited by {tightest.resource}: {_why(result)}", columns):
        yield "strong", line
    for bound in result.bounds:
        if bound.cycles < LEAST_SHARE * result.cycles:
            break
        yield "plain", f"{bound.resource:42}{bound.cycles:10}{bound.cycles / result.cycles:8.1%}"


def _why(result: Result) -> str:
    """What the tightest bound means for this run, in half a sentence."""
    tightest = result.bounds[0]
    share = tightest.cycles / result.cycles
    reason, _ = next((item for item in _by_size(result.stalls) if item[0] != "selected"), ("selected", 0))
    if tightest.resource == "latency of one warp":
        return f"{share:.0%} of the cycles; most go to {reason} ({_MEANING[reason]})"
    if share >= 0.9:
        return f"busy in {share:.0%} of the cycles"
    return f"it alone would take {share:.0%} of the cycles; most of a warp's go to {reason}"
