"""The measurements of the grids: grids.csv has a row for each, made from the profiler's pages.

python -m validation.grids.records cycles.csv counters.csv grids.csv
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from validation.grids.launches import Grid, grids

CYCLES = "sm__cycles_elapsed.max"
SPREAD = ("least", "most")
"""The fewest and the most cycles of the launches."""


def pages(path: Path) -> dict[int, dict[str, float]]:
    """The metrics of each profiled launch by its place, from a profiler's page as CSV."""
    found: dict[int, dict[str, float]] = defaultdict(dict)
    with path.open(newline="", encoding="utf-8") as file:
        lines = [line for line in file if line.startswith('"')]
    for row in csv.DictReader(lines):
        found[int(row["ID"])][row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    return dict(found)


def rows(cycles: Path, counters: Path) -> list[dict[str, str | int]]:
    """A row for each grid: medians over its launches. Raises ValueError if the pages lack launches or have too many."""
    timed, counted, todo = pages(cycles), pages(counters), grids()
    each = len(timed) // len(todo)
    if len(timed) != each * len(todo) or len(counted) != len(todo):
        raise ValueError(
            f"{len(timed)} and {len(counted)} launches, expected a multiple of {len(todo)}, and {len(todo)}"
        )
    made = []
    for number, grid in enumerate(todo):
        launches = [timed[number * each + i] for i in range(each)]
        row: dict[str, str | int] = {"name": grid.name, "family": grid.family}
        row |= {name: round(median(launch[name] for launch in launches)) for name in sorted(launches[0])}
        row |= dict(zip(SPREAD, (round(f(launch[CYCLES] for launch in launches)) for f in (min, max)), strict=True))
        made.append(row | {name: round(value) for name, value in sorted(counted[number].items())})
    return made


def read(path: Path) -> dict[str, tuple[Grid, dict[str, int]]]:
    """Each grid with its figures, by name."""
    with path.open(newline="", encoding="utf-8") as file:
        figures = {row.pop("name"): row for row in csv.DictReader(file)}
    named = {grid.name: grid for grid in grids()}
    return {
        name: (named[name], {key: int(value) for key, value in row.items() if key != "family"})
        for name, row in figures.items()
    }


def main(paths: Sequence[Path]) -> None:
    """Write the rows."""
    made = rows(paths[0], paths[1])
    with paths[2].open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(made[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(made)


if __name__ == "__main__":
    main([Path(path) for path in sys.argv[1:4]])
