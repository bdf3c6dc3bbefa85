"""Tables of plain text: as columns for the terminal, and as comma-separated values."""

from __future__ import annotations

import csv
import io
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any


def columns(rows: Sequence[Sequence[str]], left: Container[int]) -> list[str]:
    """Return a line per row. Columns are as wide as their widest cell and two apart; `left` lists left-aligned ones."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if number in left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def as_csv(records: Iterable[Mapping[str, Any]], names: Sequence[str] = ()) -> str:
    """Return a header and a line for each record. The names are by default those of the first record."""
    text, found = io.StringIO(), list(records)
    writer = csv.DictWriter(text, names or (list(found[0]) if found else []), lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return text.getvalue()
