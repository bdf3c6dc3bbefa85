"""The source page as text and CSV. `gpuemu run v2_shared_memory --page source` prints, among other lines,

    0160  LDSM.16.M88.4 R12, [R21]     1      22   2.6%  barrier 77%      8     4     4   2.0

How to read it. Cycles are sums over all warps, from the previous issue to this one, as the profiler's samples count.
The top stall is the reason for most of them. Known source lines come first, each with the sum of its instructions.
Inlined code counts at its own line and at the line that called it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from gpuemu.base.table import Cell, Column, Line, Style, Table, number, words
from gpuemu.views.result import Result
from gpuemu.views.source import COLUMNS, SourceRow, Texts, instructions, lines, stall_columns
from gpuemu.views.text import told, wrapped

WIDTH = 100
_TEXT_WIDTH = 24, 60
"""The least and the most columns of a line's text."""
_CONTROL = "Control word"


def page(result: Result, hottest_first: bool, texts: Texts, columns: int = WIDTH) -> Iterator[Line]:
    """The lines of the page, each with a style: known source lines, then instructions.

    The lines are at most `columns` wide, which is 60 or more. Without room, the least important columns go first.
    """
    rows = instructions(result.program, result.log)
    total = sum(row.cycles for row in rows)
    head = f"{result.trace.name} on {result.arch.name}: {result.cycles:,} cycles, {total:,} warp cycles"
    yield from wrapped("strong", head, columns)
    yield from told(result, columns)
    yield "plain", ""
    by_line = lines(rows, result.program, texts)
    if by_line:
        # Lines of the kernel's own files come first: they include the library code that is inlined at them.
        by_line = sorted(by_line, key=lambda row: (row.place.rpartition(":")[0] not in texts, -row.cycles))
        yield from _table("Source line, by cycles", [row for row in by_line if row.executed], total, columns)
        yield "plain", ""
    title = "Instruction, by cycles" if hottest_first else "Instruction, in order"
    yield from _table(title, sorted(rows, key=lambda row: -row.cycles) if hottest_first else rows, total, columns)


def _table(title: str, rows: Sequence[SourceRow], total: int, columns: int) -> Iterator[Line]:
    shown = [column for column in _columns(total) if any(column.cell(row) is not None for row in rows if row.executed)]
    if not all(row.control for row in rows):
        shown = [column for column in shown if column.head != _CONTROL]
    heads = [words(""), words(title, cut=_TEXT_WIDTH), *(column.column for column in shown)]
    cells = [
        (row.place, row.text.strip(), *(c.cell(row) if row.executed or c.head == _CONTROL else None for c in shown))
        for row in rows
    ]
    styles: list[Style] = ["plain" if row.executed else "faint" for row in rows]
    yield from Table(heads, cells, styles).lines(columns)


class _Shown(NamedTuple):
    """A column of the page and its cells; None for an instruction without one."""

    column: Column
    cell: Callable[[SourceRow], Cell]

    @property
    def head(self) -> str:
        return self.column.head


def _columns(total: int) -> list[_Shown]:
    """The columns in their order. The least important ones have the highest `leaves`."""
    return [
        _Shown(words(_CONTROL, leaves=12), lambda row: row.control),
        _Shown(number("Executed", leaves=7), lambda row: row.executed),
        _Shown(number("Cycles", leaves=1), lambda row: row.cycles),
        _Shown(number("%", ".1%", leaves=4), lambda row: row.cycles / total),
        _Shown(words("Top stall", leaves=3), _top_stall),
        _Shown(number("Wavefronts", leaves=6), lambda row: row.wavefronts or None),
        _Shown(number("Ideal", leaves=9), lambda row: row.ideal_wavefronts if row.wavefronts else None),
        _Shown(number("Bank Conflicts", leaves=2), lambda row: row.excess_wavefronts or None),
        _Shown(number("N-Way", ".1f", leaves=8), lambda row: row.conflicts_n_way if row.wavefronts else None),
        _Shown(number("Sectors", leaves=5), lambda row: row.sectors or None),
        _Shown(number("Ideal Sectors", leaves=10), lambda row: row.ideal_sectors if row.sectors else None),
        _Shown(number("Live Registers", leaves=11), lambda row: row.live_registers),
    ]


def _top_stall(row: SourceRow) -> str:
    reason, cycles = max(row.stalls.items(), key=lambda item: item[1])
    return f"{reason} {cycles / row.cycles:.0%}" if row.cycles else ""


def records(result: Result, by_line: bool, texts: Texts) -> list[dict[str, str | int | float]]:
    """A flat record for each instruction or source line, under the profiler's names."""
    rows: Sequence[SourceRow] = instructions(result.program, result.log)
    if by_line:
        rows = lines(rows, result.program, texts)
    return [row.as_record() for row in rows]


def as_csv(result: Result, by_line: bool, texts: Texts) -> str:
    """The records as comma-separated values."""
    names = ["Place", "Control", "Source", *COLUMNS.values(), *stall_columns().values()]
    return Table.of(records(result, by_line, texts), names).csv()
