"""One table in several formats: text for a terminal, CSV, JSON, Markdown and HTML.

    table = Table(
        [words("Row"), number("Wavefronts", name="wavefronts"), number("Share", ".1%")],
        [("Shared Load", 4, 0.25), ("Total", 1234, 1.0)],
    )
    table.text(100)

        Row          Wavefronts   Share
        Shared Load           4   25.0%
        Total             1,234  100.0%

CSV and JSON have the raw cells under the columns' names. The other formats have formatted text.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Any, Literal, NamedTuple

from gpuemu.base.shown import shown

Style = Literal["plain", "strong", "faint", "good", "bad"]
Line = tuple[Style, str]
"""A line of text and its style."""

GAP = 2
BAR_COLUMNS = 16
_COMFORTABLE, _LONG_WORD, _LEAST_WORDS = 36, 28, 10
"""Widths of a column of words. Other columns are left out until it has 36. As a last resort, words of up to 28 letters
are broken until it has only 10.
"""
_BELOW = " " * 6
_MARKUP = "\\|<*_`["


class Bar(NamedTuple):
    """A cell that draws a fraction, from 0 to 1."""

    share: float


Cell = str | int | float | Bar | None


@dataclass(frozen=True)
class Column:
    """A column: how its cells are written, and which columns are left out first if the table is too wide.

    `form`: the format of its numbers. By default, integers have commas and other numbers one decimal. `unit` follows
    the numbers. `name`: the field in CSV and JSON, by default the head. `leaves`: columns above 0 are left out of text
    that is too narrow, the highest first. `cut`: the minimum and maximum width of words that are cut, not broken.
    `spills`: a cell that is too wide gets its own line above its row. `code`: Markdown and HTML show its words as code.
    `markup`: its words are already Markdown. `has_bars`: its cells are bars.
    """

    head: str
    left: bool = False
    form: str = ""
    unit: str = ""
    name: str = ""
    leaves: int = 0
    cut: tuple[int, int] | None = None
    spills: bool = False
    code: bool = False
    markup: bool = False
    has_bars: bool = False

    def written(self, cell: Cell) -> str:
        """Return a cell as formatted text."""
        if cell is None:
            return ""
        if isinstance(cell, Bar):
            return "#" * round(BAR_COLUMNS * min(1.0, max(0.0, cell.share)))
        if isinstance(cell, str):
            return shown(cell)
        if isinstance(cell, bool):
            return str(cell).lower()
        return format(cell, self.form or (",.1f" if isinstance(cell, float) else ",")) + self.unit


def words(head: str, name: str = "", **options: Any) -> Column:
    """Return a column of left-aligned words."""
    return Column(head, left=True, name=name, **options)


def number(head: str, form: str = "", name: str = "", **options: Any) -> Column:
    """Return a column of right-aligned numbers."""
    return Column(head, form=form, name=name, **options)


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns. `styles` has one for each row; the title is above the table.

    `below` has the notes of each row, which text shows faintly below it.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    styles: Sequence[Style] = ()
    title: str = ""
    below: Sequence[Sequence[str]] = ()

    @staticmethod
    def of(records: Iterable[Mapping[str, Any]], names: Sequence[str] = ()) -> Table:
        """Return a table of records; its columns are `names`, or by default the fields of the first record.

        A field that a record lacks is empty. Raises ValueError if a record has a field without a column.
        """
        found = list(records)
        heads = names or (list(found[0]) if found else [])
        if more := {name for record in found for name in record}.difference(heads):
            raise ValueError(f"fields without a column: {', '.join(sorted(more))}")
        return Table([number(head) for head in heads], [[record.get(head) for head in heads] for record in found])

    def lines(self, width: int, indent: int = 0) -> Iterator[Line]:
        """Yield the lines of its text, at most `width` wide if possible: heads and words break, numbers never do."""
        texts = [[c.written(cell) for c, cell in zip(self.columns, row, strict=True)] for row in self.rows]
        made = [_Laid(c, [row[at] for row in texts], width) for at, c in enumerate(self.columns)]
        shown = _fitted(made, width - indent)
        before = " " * indent
        if self.title:
            yield from (("strong", line) for line in wrap(self.title, width))
        if any(each.column.head for each in shown):
            yield from (("strong", before + line) for line in _row([each.head() for each in shown], shown, top=False))
        for at in range(len(texts)):
            style = self.styles[at] if self.styles else "plain"
            spilled = [line for each in shown for line in each.spilled(at)]
            cells = [each.cell(at) for each in shown]
            yield from ((style, before + line) for line in spilled)
            if not spilled or any(map(any, cells)):
                yield from ((style, before + line) for line in _row(cells, shown, top=True))
            for note in self.below[at] if self.below else ():
                yield from (("faint", f"{before}{_BELOW}{line}") for line in wrap(note, width - indent - len(_BELOW)))

    def text(self, width: int) -> str:
        """Return the lines without their styles."""
        return "".join(f"{line}\n" for _, line in self.lines(width))

    @property
    def names(self) -> list[str]:
        return [column.name or column.head for column in self.columns]

    def records(self) -> list[dict[str, Any]]:
        """Return a dict of raw cells for each row."""
        plain = ([cell.share if isinstance(cell, Bar) else cell for cell in row] for row in self.rows)
        return [dict(zip(self.names, row, strict=True)) for row in plain]

    def json(self) -> str:
        return json.dumps(self.records(), indent=2) + "\n"

    def csv(self) -> str:
        """Return a line of names, and a line for each row."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.names)
        writer.writerows(record.values() for record in self.records())
        return text.getvalue()

    def markdown(self) -> str:
        """Return a table for a page or for a comment on a code host. Only `code` columns contain markup."""
        lines = [[markdown_escaped(column.head) for column in self.columns]]
        lines += [[_in_markdown(c, cell) for c, cell in zip(self.columns, row, strict=True)] for row in self.rows]
        head, *body = (f"| {' | '.join(cells)} |" for cells in lines)
        ruler = f"|{'|'.join('---' if column.left else '---:' for column in self.columns)}|"
        return "\n".join([head, ruler, *body])

    def html(self) -> str:
        """Return a table for a notebook, with all text escaped."""
        head = "".join(f"<th>{escape(column.head)}</th>" for column in self.columns)
        rows = ("".join(_in_html(c, cell) for c, cell in zip(self.columns, row, strict=True)) for row in self.rows)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        style = "text-align:left;font-weight:bold"
        title = f'<caption style="{style}">{escape(self.title)}</caption>' if self.title else ""
        return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def markdown_escaped(text: str) -> str:
    """Escape text so that a Markdown cell shows no part of it as markup."""
    for mark in _MARKUP:
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", " ")


def _in_markdown(column: Column, cell: Cell) -> str:
    text = f"{cell.share:.1%}" if isinstance(cell, Bar) else column.written(cell)
    if column.markup:
        return text
    plain = not column.code or not text or any(mark in text for mark in "`|\n")
    return markdown_escaped(text) if plain else f"`{text}`"


def _in_html(column: Column, cell: Cell) -> str:
    side = "right" if isinstance(cell, int | float) else "left"
    if isinstance(cell, Bar):
        width = round(160 * min(1.0, max(0.0, cell.share)))
        style = f"display:inline-block;width:{width}px;height:10px;background:#7aa7e8;border-radius:2px"
        text = f'<span style="{style}"></span> {cell.share:.1%}'
    else:
        text = escape(column.written(cell))
    return f'<td style="text-align:{side}">{f"<code>{text}</code>" if column.code else text}</td>'


class _Laid:
    """A column of text, its width, and its minimum widths, of which the first that let the table fit are used.

    At the first of `floors`, heads are unbroken and words have a comfortable width. Next heads are broken, then words
    more and more. Numbers are never broken.
    """

    def __init__(self, column: Column, cells: list[str], width: int):
        self.column, self._cells = column, cells
        lines = [line for cell in cells for line in cell.splitlines()]
        widest = BAR_COLUMNS if column.has_bars else max(map(len, lines), default=0)
        of_head = max(map(len, column.head.split()), default=0)
        comfortable = least = narrowest = widest
        if column.cut is not None:
            widest, comfortable = min(widest, column.cut[1]), min(widest, column.cut[0])
            least = narrowest = comfortable
        elif column.spills:
            comfortable = least = narrowest = min(widest, _COMFORTABLE)
        elif column.left:
            longest = max((len(word) for line in lines for word in line.split()), default=0)
            comfortable = max(min(widest, _COMFORTABLE), min(longest, _LONG_WORD))
            least, narrowest = min(longest, _LONG_WORD), min(longest, _LEAST_WORDS)
        wide_enough = (max(comfortable, len(column.head)), comfortable, least, narrowest)
        self.floors = tuple(max(each, of_head) for each in wide_enough)
        self.width = min(max(widest, len(column.head)), max(width, self.floors[0]))

    def head(self) -> list[str]:
        return _broken(self.column.head, self.width)

    def spilled(self, at: int) -> list[str]:
        text = self._cells[at]
        return [text] if self.column.spills and len(text) > self.width else []

    def cell(self, at: int) -> list[str]:
        text = self._cells[at] if not self.spilled(at) else ""
        if self.column.cut is not None:
            return [text if len(text) <= self.width else text[: self.width - 3] + "..."]
        return _broken(text, self.width)


def _broken(text: str, width: int) -> list[str]:
    if len(text) <= width and "\n" not in text:
        return [text]
    return [part for line in text.splitlines() for part in wrap(line, width, break_on_hyphens=False) or [""]]


def _fitted(columns: Sequence[_Laid], width: int) -> list[_Laid]:
    """Return the columns that fit, each with its width."""
    shown = list(columns)

    def excess(widths: Iterable[int]) -> int:
        return sum(widths) + GAP * (len(shown) - 1) - width

    while any(each.column.leaves for each in shown) and excess(each.floors[1] for each in shown) > 0:
        shown.remove(max(shown, key=lambda each: each.column.leaves))
    for at in range(len(shown[0].floors) if shown else 0):
        while excess(each.width for each in shown) > 0:
            wide = [each for each in shown if each.width > each.floors[at]]
            if not wide:
                break
            max(wide, key=lambda each: each.width).width -= 1
    return shown


def _row(cells: Sequence[Sequence[str]], shown: Sequence[_Laid], top: bool) -> Iterator[str]:
    """Yield the lines of a row, whose cells are aligned at its top or at its bottom."""
    high = max(map(len, cells))
    for at in range(high):
        parts = []
        for cell, each in zip(cells, shown, strict=True):
            line = at if top else at - high + len(cell)
            text = cell[line] if 0 <= line < len(cell) else ""
            parts.append(text.ljust(each.width) if each.column.left else text.rjust(each.width))
        yield (" " * GAP).join(parts).rstrip()
