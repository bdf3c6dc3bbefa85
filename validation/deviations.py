"""Reads DEVIATIONS.md, the page of known differences from the hardware.

Its table has a row for each: id, what, kernels (patterns of names, with spaces between), mean error at least,
status (open or closed). A test replays the kernels of every open row and fails when they have become better
than the row says: the page is then out of date.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

PAGE = Path(__file__).resolve().parent / "DEVIATIONS.md"
_STATUSES = ("open", "closed")


class PageError(Exception):
    """A row of the page that does not read; the text names the line."""


@dataclass(frozen=True)
class Deviation:
    """A known difference. `least_error` is the mean error of its kernels below which it counts as closed."""

    id: str
    what: str
    kernels: tuple[str, ...]
    least_error: float
    status: str

    def shows_in(self, name: str) -> bool:
        """Whether it is said to show in a kernel."""
        return any(fnmatchcase(name, pattern) for pattern in self.kernels)


def read_page(path: Path = PAGE) -> list[Deviation]:
    """The rows of the page's table. Raises PageError."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or cells[0] in ("id", "") or set(cells[0]) <= {"-", ":"}:
            continue
        if len(cells) != 5:
            raise PageError(f"{path.name}:{number}: {len(cells)} cells, expected 5")
        error = cells[3].removesuffix("%").strip()
        if cells[4] not in _STATUSES or not error.replace(".", "", 1).isdigit():
            raise PageError(f"{path.name}:{number}: '{cells[3]}', '{cells[4]}', expected such as '8 %', 'open'")
        patterns = tuple(pattern.strip("`") for pattern in cells[2].split())
        found.append(Deviation(cells[0], cells[1], patterns, float(error) / 100, cells[4]))
    ids = [d.id for d in found]
    if len(set(ids)) != len(ids):
        raise PageError(f"{path.name}: two rows have the same id")
    return found


def reasons(name: str, deviations: list[Deviation]) -> list[Deviation]:
    """The open deviations that a kernel is said to show."""
    return [d for d in deviations if d.status == "open" and d.shows_in(name)]
