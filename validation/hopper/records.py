"""The measurements: hopper.csv has a row for each launch, made from the profiler's pages and the digests of the
results.

python -m validation.hopper.records cycles.csv counters.csv results.csv hopper.csv
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from validation.grids.records import pages
from validation.hopper.launches import HopperLaunch, launches

CYCLES = "sm__cycles_active.max"


def rows(cycles: Path, counters: Path, results: Path) -> list[dict[str, str | int]]:
    """A row for each launch: the median of its cycles. Raises ValueError if the pages lack launches or have more."""
    timed, counted, todo = pages(cycles), pages(counters), launches()
    with results.open(newline="", encoding="utf-8") as file:
        digests = {row["name"]: row["digest"] for row in csv.DictReader(file)}
    each = len(timed) // len(todo)
    if (len(timed), len(counted), len(digests)) != (each * len(todo), len(todo), len(todo)):
        found = f"{len(timed)}, {len(counted)} and {len(digests)} launches"
        raise ValueError(f"{found}, expected a multiple of {len(todo)}, {len(todo)} and {len(todo)}")
    made = []
    for number, launch in enumerate(todo):
        of_it = [timed[number * each + i][CYCLES] for i in range(each)]
        row: dict[str, str | int] = {"name": launch.name, "family": launch.family, "digest": digests[launch.name]}
        row |= {CYCLES: round(median(of_it)), "least": round(min(of_it)), "most": round(max(of_it))}
        made.append(row | {name: round(value) for name, value in sorted(counted[number].items())})
    return made


def read(path: Path) -> list[tuple[HopperLaunch, str, dict[str, int]]]:
    """Each launch with its digest and its figures."""
    named = {launch.name: launch for launch in launches()}
    with path.open(newline="", encoding="utf-8") as file:
        return [
            (named[row.pop("name")], row.pop("digest"), {k: int(v) for k, v in row.items() if k != "family"})
            for row in csv.DictReader(file)
        ]


def main(paths: Sequence[Path]) -> None:
    """Write the rows."""
    made = rows(*paths[:3])
    with paths[3].open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(made[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(made)


if __name__ == "__main__":
    main([Path(path) for path in sys.argv[1:5]])
