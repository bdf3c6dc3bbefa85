"""Tables for the terminal, as wide as there is room: heads and words break, numbers never do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from gpuemu.base.shown import shown

Style = Literal["plain", "strong", "faint", "bad"]
Line = tuple[Style, str]
Cell = str | int | float
_STYLES = {"strong": "bold", "faint": "dim", "bad": "red", "plain": ""}
_GAP, _WORD = 2, 28


def laid_out(
    columns: int, heads: Sequence[str], rows: Iterable[Sequence[Cell]], styles: Sequence[Style] = ()
) -> Iterator[Line]:
    """The lines of a table, at most `columns` wide, each with a style: `styles` are those of the rows.

    A head that begins with < has its column to the left, any other to the right. Whole numbers are grouped by commas,
    others have one decimal.
    """
    from rich.console import Console
    from rich.table import Table

    found = [[_written(cell) for cell in row] for row in rows]
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    for number, head in enumerate(heads):
        left = head.startswith("<")
        words = head.removeprefix("<").split(" ")
        cells = [row[number] for row in found]
        # Numbers stay whole, and so do words that are not too long.
        kept = [word[:_WORD] for cell in cells for word in cell.split()] if left else cells
        table.add_column(
            " ".join(words), justify="left" if left else "right", overflow="fold",
            min_width=max(map(len, [*words, *kept]), default=1),
        )  # fmt: skip
    for number, row in enumerate(found):
        table.add_row(*row, style=_STYLES[styles[number]] if styles else None)
    console = Console(width=columns, color_system=None, markup=False, highlight=False, emoji=False)
    for segments in console.render_lines(table, pad=False):
        worn = next((s.style for s in segments if s.text.strip() and s.style), None)
        style: Style = "plain"
        if worn is not None:
            style = "strong" if worn.bold else "faint" if worn.dim else "bad" if worn.color else "plain"
        yield style, "".join(segment.text for segment in segments).rstrip()


def _written(cell: Cell) -> str:
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:.1f}" if isinstance(cell, float) else shown(cell)
