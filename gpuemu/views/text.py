"""A run as text for the terminal. `gpuemu run traces/v2_shared_memory.yaml --arch sm_89` prints

    v2_shared_memory on sm_89, RTX 4060 Ti (default of sm_89; --chip chooses another)
    Grid Size 1, Block Size 32, 24 registers per thread, 1,536 bytes of shared memory per block

      Duration          1.78 us  estimated, at 2,535 MHz
      Elapsed Cycles      4,518  of which 3,802 are launch overhead
      SM Active Cycles      720  ±5%: about 80% of the sm_89 values are assumptions (--sure)
      Instructions           37  warp instructions, 0.05 per cycle

    Limited by latency: the only warp waits for global or local memory, and no other fills the time.
      34.9%  Long Scoreboard   waits for global or local memory                   v2_shared_memory.cu:19
      18.5%  IMC Miss          waits for the first read of a constant             v2_shared_memory.cu:19
      15.1%  Short Scoreboard  waits for shared memory, a shuffle or a special    v2_shared_memory.cu:30
                               function
      33.3%  Bank Conflicts    12 of 36 shared-memory wavefronts are conflicts    v2_shared_memory.cu:28
      33 of 34 SMs have no work: the grid has 1 block.

    Shared memory       Instructions  Wavefronts  Ideal  Bank Conflicts
    Shared Load                    1           4      4               0
    Shared Load Matrix             2          16      8               8
    Shared Store                   6          16     12               4
    Total                          9          36     24              12

    Global memory  Requests  Sectors  Ideal  Sectors/Request
    Global Load           2       32     32             16.0
    Global Store          1       16     16             16.0
    L1 hit rate 0.0% (0 of 32 sectors). L2 and DRAM: 32 sectors read, 16 written.

    Theoretical Occupancy 50.0% (24 of 48 warps, limited by blocks per SM). Achieved Occupancy 2.1%.

    Next ("..." stands for the arguments of this command)
      gpuemu why traces/v2_shared_memory.yaml --arch sm_89  what each cause costs
      gpuemu run ... --page source                          cycles per source line and instruction
      gpuemu check traces/v2_shared_memory.yaml             races, out-of-bounds accesses
      gpuemu run ... --all                                  lower bounds, all stall reasons, warps

How to read it. The duration of the launch comes first, and then its limit: the largest stall reasons, and accesses that
do more work than necessary, each with the source line that has most of it. A bank conflict is a wavefront beyond the
ideal, which is the minimum that the instructions' widths need. The table of global memory has the sectors that the
lanes touch, and the fewest sectors that could hold their data. `--all` adds every lower bound, stall reason, scheduler
and warp (`views.details`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from textwrap import wrap

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.file_kinds import is_machine_code
from gpuemu.base.table import Cell, Line, Style, Table, number, words
from gpuemu.views.answer import conflicts
from gpuemu.views.counters import RowCounts
from gpuemu.views.details import details
from gpuemu.views.figures import changed_values, counted, figures, headline, launch_sizes
from gpuemu.views.grid import not_refilled
from gpuemu.views.result import Result
from gpuemu.views.source import of_accesses, short_place, waited
from gpuemu.views.stalls import ISSUED, stall_reason
from gpuemu.views.sure.estimate import Sure
from gpuemu.views.sure.sure_text import lines as of_sure

WIDTH = 100
_INDENT = 2
_MOST_STALLS, _LEAST_STALL, _LEAST_EXCESS = 3, 0.15, 0.1
"""The most stall reasons after the verdict, their least share of the warps' cycles, the least share of waste."""
_ROOM_OF_PURPOSE = 38
_LIMITS = {"CTAs": "blocks per SM", "warps": "warps per SM"}
"""The limits of the occupancy whose names in the profiler differ from those in the data."""


def report(
    result: Result, columns: int = WIDTH, everything: bool = False, again: str = "", sure: Sure | None = None
) -> Iterator[Line]:
    """The lines of the report, each with a style, at most `columns` wide, which is 60 or more.

    `everything`: every bound, stall reason and warp. `again`: the arguments of this `gpuemu run` for the next commands.
    `sure`: the uncertainty of the cycles.
    """
    parts = [
        _head(result, columns), _figures(result, columns), _limits(result, columns), _shared_table(result, columns),
        _global_table(result, columns), _occupancy(result, columns),
        *(details(result, columns) if everything else ()),
        of_sure(sure, columns) if sure is not None else iter(()), _next(columns, again, everything),
    ]  # fmt: skip
    first = True
    for lines in map(list, parts):
        if lines and not first:
            yield "plain", ""
        yield from lines
        first = first and not lines


def wrapped(style: Style, text: str, columns: int, indent: int = 0) -> Iterator[Line]:
    """A sentence, wrapped into lines."""
    before = " " * indent
    for line in wrap(text, columns, initial_indent=before, subsequent_indent=before):
        yield style, line


def told(result: Result, columns: int = WIDTH) -> Iterator[Line]:
    """The notes of a run, as lines."""
    for note in result.notes:
        yield from wrapped("faint", note, columns)


def _head(result: Result, columns: int) -> Iterator[Line]:
    yield from wrapped("strong", headline(result), columns)
    yield from wrapped("plain", launch_sizes(result), columns)
    yield from wrapped("plain", changed_values(result), columns)
    yield from told(result, columns)


def _figures(result: Result, columns: int) -> Iterator[Line]:
    rows = [*figures(result)]
    styles: list[Style] = ["plain"] * len(rows)
    styles[0] = "strong"
    yield from Table([words(""), number(""), words("")], rows, styles).lines(columns, _INDENT)


def _limits(result: Result, columns: int) -> Iterator[Line]:
    yield from wrapped("strong", f"{result.limit}.", columns)
    code, total = result.program.code, max(1, sum(result.stalls.values()))
    places = [short_place(instruction) for instruction in code]

    def most(of_instruction: NDArray[np.int64]) -> str:
        """The place with the highest sum."""
        sums: dict[str, int] = {}
        for place, value in zip(places, of_instruction.tolist(), strict=True):
            sums[place] = sums.get(place, 0) + value
        return max(sums, key=lambda place: sums[place])

    of_reasons = waited(result.program, result.log)
    ranked = sorted(((c, r) for r, c in result.stalls.items() if r not in (ISSUED, "not_selected")), reverse=True)
    rows: list[tuple[Cell, ...]] = [
        (cycles / total, stall_reason(reason).title, stall_reason(reason).sentence, most(of_reasons[reason]))
        for cycles, reason in ranked[:_MOST_STALLS]
        if cycles >= _LEAST_STALL * total
    ]
    styles: list[Style] = ["plain"] * len(rows)
    for title, what, needed, used in (
        ("Bank Conflicts", "shared-memory wavefronts are conflicts", "ideal_wavefronts", "wavefronts"),
        ("Excessive Sectors", "global-memory sectors are not needed", "ideal_sectors", "sectors"),
    ):
        all_of, ideal = (of_accesses(result.program, name) for name in (used, needed))
        excess, count = int((all_of - ideal).sum()), int(all_of.sum())
        if excess and excess >= _LEAST_EXCESS * count:
            rows.append((excess / count, title, f"{excess:,} of {count:,} {what}", most(all_of - ideal)))
            styles.append("bad")
    heads = [number("", ".1%"), words("", leaves=1), words(""), words("")]
    yield from Table(heads, rows, styles).lines(columns, _INDENT)
    found, wavefronts = conflicts(result.shared_memory)
    rest = ["No bank conflicts."] if wavefronts and not found else []
    grid = result.grid
    if grid.ctas < grid.sms:
        rest += [f"{grid.sms - grid.ctas} of {grid.sms} SMs have no work: the grid has {counted(grid.ctas, 'block')}."]
    yield from wrapped("plain", " ".join(rest), columns, _INDENT)


def _shared_table(result: Result, columns: int) -> Iterator[Line]:
    total = RowCounts()
    for counts in result.shared_memory.values():
        total.add(counts)
    if not total.instructions:
        return
    named = [(row, c) for row, c in result.shared_memory.items() if c.instructions] + [("Total", total)]
    rows = [(name, c.instructions, c.wavefronts, c.ideal_wavefronts, c.bank_conflicts) for name, c in named]
    styles: list[Style] = ["bad" if c.bank_conflicts else "plain" for _, c in named]
    heads = ("Instructions", "Wavefronts", "Ideal", "Bank Conflicts")
    yield from Table([words("Shared memory"), *map(number, heads)], rows, styles).lines(columns)


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
    hits = ""
    if l1.cached_sectors:
        share = l1.hit_sectors / l1.cached_sectors
        hits = f"L1 hit rate {share:.1%} ({l1.hit_sectors:,} of {l1.cached_sectors:,} sectors). "
    gone = f"L2 and DRAM: {l1.loaded_sectors:,} sectors read, {l1.stored_sectors:,} written."
    yield from wrapped("plain", hits + gone, columns)


def _occupancy(result: Result, columns: int) -> Iterator[Line]:
    occupancy, limits = result.occupancy, result.program.residency_limits
    limit = min(limits, key=lambda name: limits[name])
    fit = f"{occupancy.theoretical_warps} of {occupancy.max_warps} warps, limited by {_LIMITS.get(limit, limit)}"
    partly = f" ({not_refilled(result.grid)})" if not_refilled(result.grid) else ""
    there = f"Achieved Occupancy {occupancy.achieved:.1%}{partly}"
    yield from wrapped("plain", f"Theoretical Occupancy {occupancy.theoretical:.1%} ({fit}). {there}.", columns)


def _next(columns: int, again: str, everything: bool) -> Iterator[Line]:
    """The commands that answer the next questions, where the words of this one are known."""
    if not again:
        return
    what = shlex.split(again)[0]
    room = columns - len("  gpuemu check   ") - _ROOM_OF_PURPOSE

    def short(arguments: str) -> str:
        return arguments if len(arguments) <= room else "..."

    rows = [
        (f"gpuemu why {short(again)}", "what each cause costs"),
        ("gpuemu run ... --page source", "cycles per source line and instruction"),
        (
            f"gpuemu check {'...' if is_machine_code(what) else short(shlex.quote(what))}",
            "races, out-of-bounds accesses",
        ),
    ]
    if not everything:
        rows.append(("gpuemu run ... --all", "lower bounds, all stall reasons, warps"))
    yield "strong", 'Next ("..." stands for the arguments of this command)'
    yield from Table([words(""), words("")], rows).lines(columns, _INDENT)
