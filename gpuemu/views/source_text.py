"""The source page as text and CSV. `gpuemu run v2_shared_memory --page source` prints, among others (cut short here),

     0160 [B------:R-:W-:-:S04]  LDSM.16.M88.4 R12, [R21]     1      22   2.6%  barrier 77%      8     4     4   2.0

How to read it. Cycles are those of all warps from the issue before to this one's, which is what the profiler's samples
count; the words behind them are the reason for most. Excess are bank conflicts. Where source lines are known they come
first, each with the sum of its instructions; code that was inlined counts where it stands and where it was called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gpuemu.base import tables
from gpuemu.base.table import Line
from gpuemu.views.result import Result
from gpuemu.views.source import COLUMNS, SourceRow, Texts, instructions, lines, stall_columns
from gpuemu.views.text import told, wrapped

WIDTH = 160
_LEAST_SASS, _MOST_SASS = 24, 60
_GAP = 2


def page(result: Result, hottest_first: bool, texts: Texts, columns: int = WIDTH) -> Iterator[Line]:
    """The lines of the page, each with a style: source lines, where they are known, then instructions.

    Where not all columns find room those go first that say least; at most `columns` wide, from 60 on.
    """
    rows = instructions(result.program, result.log)
    total = sum(row.cycles for row in rows)
    head = f"{result.trace.name} on {result.arch.name}: {result.cycles} cycles, {total} of all warps"
    yield from wrapped("strong", head, columns)
    yield from told(result, columns)
    yield "plain", ""
    by_line = lines(rows, result.program, texts)
    if by_line:
        # What libraries have inlined is in the lines that called it, which one's own source has: those come first.
        by_line = sorted(by_line, key=lambda row: (row.place.rpartition(":")[0] not in texts, -row.cycles))
        yield from _table(
            "Source line, most cycles first", [row for row in by_line if row.executed], total, columns
        )  # fmt: skip
        yield "plain", ""
    order = "most cycles first" if hottest_first else "in their order"
    yield from _table(
        f"Instructions, {order}", sorted(rows, key=lambda r: -r.cycles) if hottest_first else rows, total, columns
    )


def _table(title: str, rows: Sequence[SourceRow], total: int, columns: int) -> Iterator[Line]:
    places = [row.place for row in rows]
    least = min(_LEAST_SASS, max(map(len, (title, *(row.text.strip() for row in rows)))))
    room = columns - max(map(len, places)) - least - 2 * _GAP
    chosen: dict[str, list[str]] = {}
    for name, cell in _cells(total):
        cells = [name, *(cell(row) if row.executed else "" for row in rows)]
        width = max(map(len, cells)) + _GAP
        if any(cells[1:]) and width <= room:
            chosen[name] = cells
            room -= width
    if all(row.control for row in rows) and room >= len(rows[0].control) + _GAP:
        chosen["Control word"] = ["Control word", *(row.control for row in rows)]
        room -= len(rows[0].control) + _GAP
    room = max(min(_MOST_SASS, room + least), least)
    texts = [_cut(title, room), *(_cut(row.text.strip(), room) for row in rows)]
    order = [name for name in _ORDER if name in chosen]
    made = tables.columns(
        list(zip(["", *places], texts, *(chosen[name] for name in order), strict=True)),
        left={0, 1, *(at for at, name in enumerate(order, 2) if name in ("Control word", "Most of them"))},
    )  # fmt: skip
    yield "strong", made[0]
    for row, line in zip(rows, made[1:], strict=True):
        yield ("plain" if row.executed else "faint"), line


_ORDER = (
    "Control word", "Executed", "Cycles", "%", "Most of them", "Wavefronts", "Ideal", "Excess", "N-Way", "Sectors",
    "Fewest", "Live",
)  # fmt: skip


def _cells(total: int) -> list[tuple[str, Callable[[SourceRow], str]]]:
    """The columns, what says most first."""

    def some(number: int) -> str:
        return str(number) if number else ""

    return [
        ("Cycles", lambda row: str(row.cycles)),
        ("Excess", lambda row: some(row.excess_wavefronts)),
        ("Most of them", _most),
        ("%", lambda row: f"{row.cycles / total:.1%}"),
        ("Sectors", lambda row: some(row.sectors)),
        ("Wavefronts", lambda row: some(row.wavefronts)),
        ("Executed", lambda row: str(row.executed)),
        ("N-Way", lambda row: f"{row.conflicts_n_way:.1f}" if row.wavefronts else ""),
        ("Ideal", lambda row: str(row.ideal_wavefronts) if row.wavefronts else ""),
        ("Fewest", lambda row: str(row.ideal_sectors) if row.sectors else ""),
        ("Live", lambda row: str(row.live_registers)),
    ]


def _most(row: SourceRow) -> str:
    reason, cycles = max(row.stalls.items(), key=lambda item: item[1])
    return f"{reason} {cycles / row.cycles:.0%}" if row.cycles else ""


def _cut(text: str, columns: int) -> str:
    return text if len(text) <= columns else text[: columns - 3] + "..."


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
