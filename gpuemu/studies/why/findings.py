"""Rows of `gpuemu why` by what they are about: conflicts of several places and the layouts of their tiles are one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuemu.studies.why.causes import Cause
from gpuemu.studies.why.tiles import described

MOST_PLACES = 3
"""The places that a title names."""
_FAMILIES = {"conflicts": "conflicts", "tile": "conflicts", "tiles": "conflicts", "sectors": "sectors"}
"""Causes by the first part of their names that are one finding."""


@dataclass(frozen=True)
class RunWithout:
    """A cause and the run without it, slower where `gained` is below 0; `repeat`: the command that repeats it."""

    cause: Cause
    cycles: int
    gained: int
    repeat: str


@dataclass(frozen=True)
class Finding:
    """The rows that are about one thing: the one that saves most, and the others in their order."""

    rows: tuple[RunWithout, ...]

    @property
    def gained(self) -> int:
        """The cycles that the best of its rows saves."""
        return self.rows[0].gained

    @property
    def fixes(self) -> list[RunWithout]:
        """The tiles whose layouts are printed."""
        return [row for row in self.rows if row.cause.code and row.gained > 0]

    @property
    def gained_by_fixes(self) -> int:
        """The most cycles that its layouts save, alone or together; 0 without layouts."""
        return max((row.gained for row in self.rows if row.cause.edit.relaid), default=0)

    @property
    def name(self) -> str:
        """The cause without its place."""
        cause = self.rows[0].cause
        title = cause.title or cause.name
        return title.partition(",")[0] if cause.place else title

    @property
    def title(self) -> str:
        """The cause, with the places that save most."""
        title = self.rows[0].cause.title or self.rows[0].cause.name
        at = [row for row in self.rows if row.cause.place and not row.cause.edit.relaid]
        places = [row.cause.place for row in at if row.gained > 0] or [row.cause.place for row in at]
        if len(self.rows) == 1 or not places:
            return title
        file = places[0].rpartition(":")[0]
        short = [p.removeprefix(f"{file}:") if file and n else p for n, p in enumerate(places[:MOST_PLACES])]
        more = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
        return f"{title.partition(',')[0]}, {', '.join(short)}{more}"

    @property
    def advice(self) -> str:
        """A change of the source to try."""
        return f"the layout{'s' * (len(self.fixes) > 1)} below" if self.fixes else self.rows[0].cause.advice


@dataclass(frozen=True)
class Fix:
    """A layout as code, and the tiles that it is for."""

    tiles: str
    gained: int
    several: bool
    code: str


def findings(rows: Sequence[RunWithout]) -> list[Finding]:
    """The rows by what they are about, the largest savings first."""
    found: dict[str, list[RunWithout]] = {}
    for row in rows:
        name = row.cause.name
        found.setdefault(_FAMILIES.get(name.partition("@")[0], name), []).append(row)
    return [Finding(tuple(members)) for members in found.values()]


def fixes(shown: Sequence[Finding]) -> list[Fix]:
    """The layouts as code, tiles with the same one together."""
    written: dict[str, list[RunWithout]] = {}
    for row in (row for finding in shown for row in finding.fixes):
        written.setdefault(row.cause.code, []).append(row)
    found = []
    for code, rows in written.items():
        relaid = [row.cause.edit.relaid[0] for row in rows]
        tile = described(relaid[0].tile) + "s" * (len(rows) > 1)
        places = " and ".join(f"{one.first_byte:,}" for one in relaid)
        where = f"{tile} at shared byte{'s' * (len(rows) > 1)} {places}"
        found.append(Fix(where, max(row.gained for row in rows), len(rows) > 1, code))
    return found
