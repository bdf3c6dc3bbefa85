"""The source page as text and CSV. `gpuemu run v2_shared_memory --page source` prints, among others (cut short here),

     0160 [B------:R-:W-:-:S04]  LDSM.16.M88.4 R12, [R21]     1      22   2.6%  barrier 77%      8     4     4   2.0

How to read it. Cycles are those of all warps from the issue before to this one's, which is what the profiler's samples
count; the words behind them are the reason for most. Excess are bank conflicts. Where source lines are known they come
first, each with the sum of its instructions; code that was inlined counts where it stands and where it was called.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuemu.base import tables
from gpuemu.views.result import Result
from gpuemu.views.source import COLUMNS, SourceRow, Texts, instructions, lines, stall_columns
from gpuemu.views.text import Line, Style, told

SASS_COLUMNS = 36
_HEAD = (
    f"{'Executed':>9}{'Cycles':>9}{'':>7}  {'Most of them':20}{'Wavefr':>8}{'Ideal':>7}{'Excess':>7}{'N-Way':>6}"
    f"{'Sectors':>8}{'Ideal':>7}{'Live':>5}"
)


def page(result: Result, hottest_first: bool, texts: Texts) -> Iterator[Line]:
    """The lines of the page, each with a style: source lines, where they are known, then instructions."""
    rows = instructions(result.program, result.log)
    total = sum(row.cycles for row in rows)
    yield "strong", f"{result.trace.name} on {result.arch.name}: {result.cycles} cycles, {total} of all warps"
    yield from told(result)
    yield "plain", ""
    by_line = lines(rows, result.program, texts)
    if by_line:
        widest = max(len(row.place) for row in by_line)
        yield "strong", f"{'Source line, most cycles first':{29 + SASS_COLUMNS}}{_HEAD}"
        # What libraries have inlined is in the lines that called it, which one's own source has: those come first.
        for row in sorted(by_line, key=lambda row: (row.place.rpartition(":")[0] not in texts, -row.cycles)):
            if row.executed:
                place = f"{row.place:{widest}}  {row.text.strip()}" if row.text else row.place
                yield "plain", f"{_cut(place, 28 + SASS_COLUMNS):{29 + SASS_COLUMNS}}{_numbers(row, total)}"
        yield "plain", ""
    order = "most cycles first" if hottest_first else "in their order"
    yield "strong", f"{'':5} {'Control word':22} {'Instructions, ' + order:{SASS_COLUMNS}}{_HEAD}"
    for row in sorted(rows, key=lambda row: -row.cycles) if hottest_first else rows:
        style: Style = "plain" if row.executed else "faint"
        text = f"{row.place:>5} {row.control:22} {_cut(row.text, SASS_COLUMNS - 1):{SASS_COLUMNS}}"
        yield style, (text + (_numbers(row, total) if row.executed else "")).rstrip()


def _cut(text: str, columns: int) -> str:
    return text if len(text) <= columns else text[: columns - 3] + "..."


def _numbers(row: SourceRow, total: int) -> str:
    reason, cycles = max(row.stalls.items(), key=lambda item: item[1])
    most = f"{stall_columns()[reason].removeprefix('stall_')} {cycles / row.cycles:.0%}" if row.cycles else ""
    shared = f"{row.wavefronts:8}{row.ideal_wavefronts:7}{row.excess_wavefronts:7}{row.conflicts_n_way:6.1f}"
    far = f"{row.sectors:8}{row.ideal_sectors:7}"
    text = f"{row.executed:9}{row.cycles:9}{row.cycles / total:7.1%}  {most:20}"
    return text + f"{shared if row.wavefronts else '':28}{far if row.sectors else '':15}{row.live_registers:5}"


def records(result: Result, by_line: bool, texts: Texts) -> list[dict[str, str | int | float]]:
    """A flat record for each instruction, or line of source, under the profiler's names."""
    rows: Sequence[SourceRow] = instructions(result.program, result.log)
    if by_line:
        rows = lines(rows, result.program, texts)
    return [row.as_record() for row in rows]


def as_csv(result: Result, by_line: bool, texts: Texts) -> str:
    """The same as comma-separated values."""
    names = ["Place", "Control", "Source", *COLUMNS.values(), *stall_columns().values()]
    return tables.as_csv(records(result, by_line, texts), names)
