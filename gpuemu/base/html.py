"""Small pieces of HTML for notebooks: every text is escaped, and nothing is fetched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple


class Bar(NamedTuple):
    """A cell that draws a share of a whole, from 0 to 1."""

    share: float


Cell = str | int | Bar


def table(heads: Sequence[str], rows: Iterable[Sequence[Cell]], caption: str = "") -> str:
    """A table; numbers stand to the right."""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    title = f'<caption style="text-align:left;font-weight:bold">{escape(caption)}</caption>' if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Cell) -> str:
    if isinstance(value, str):
        return f'<td style="text-align:left">{escape(value)}</td>'
    if isinstance(value, int):
        return f'<td style="text-align:right">{value:,}</td>'
    width = round(160 * min(1.0, max(0.0, value.share)))
    style = f"display:inline-block;width:{width}px;height:10px;background:#7aa7e8;border-radius:2px"
    return f'<td style="text-align:left"><span style="{style}"></span> {value.share:.1%}</td>'


def paragraph(text: str, strong: bool = False) -> str:
    """A line of text."""
    return f"<p>{f'<b>{escape(text)}</b>' if strong else escape(text)}</p>"
