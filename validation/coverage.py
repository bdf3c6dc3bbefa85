"""How often what others measured lies in the range of --sure, by architecture: nine of ten should.

    python -m validation.coverage                        # every architecture; exit code 1 if fewer than 80 % do
    python -m validation.coverage --arch sm_80 --outside --move

A figure is a row of the published table that somebody measured. It lies inside if it does with every value as it is
and the 5 % of the model; a figure that is told to a whole number may be half of one off. For those that do not --move
puts the values of confidence C and D at the ends of their ranges, one at a time, as `gpuemu run --sure` does: minutes
for each. Without it the share is the least that it can be.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import hypot
from typing import TextIO

import gpuemu
from gpuemu.arch.ranges import unsure
from gpuemu.base.errors import GpuemuError
from gpuemu.views.sure.estimate import MODEL_SHARE
from validation.published import Row, number, quantity, rows
from validation.published_bench import PROBES
from validation.published_data import ARCHITECTURES, FOLDER, load

NOT_MEASURED = {"CUDA", "WP", "DERIVED", "ACCEL", "HUERTA-SIM", "NVD90", "RECALL", "REV", "FILE-4090", "none", "H200"}
"""Sources that say what a chip has, or settle a simulator, or are our own: no measurement by others."""
TIMES = ("cyc", "clk", "cycles")
ENOUGH = 0.8


@dataclass(frozen=True)
class Figure:
    """A row, and between what its figure lies: for the values that nobody is sure of, and with the model's share."""

    row: Row
    lowest: float
    highest: float

    @property
    def inside(self) -> bool:
        """Whether what was measured is in the range, or an end of it is."""
        expected = self.row.check.expected
        ends = expected if isinstance(expected, tuple) else (float(expected or 0), float(expected or 0))
        half = 0.5 if all(end % 1 == 0 for end in ends) else 0.0
        return self.lowest - half <= ends[1] and ends[0] <= self.highest + half


def measured(row: Row) -> bool:
    """Whether somebody measured it, and it is a time or a rate."""
    sources = set(row.entry.source.split("; ")) | ({row.check.taken_from} - {""})
    timed = any(row.entry.unit.startswith(unit) or f"/{unit}" in row.entry.unit for unit in TIMES)
    return timed and not sources <= NOT_MEASURED and not row.entry.taken_over


def figure(arch: gpuemu.Architecture, row: Row, move: bool = False) -> Figure:
    """The range of a row; values are moved, if they are to be, where it is not inside without."""
    share = MODEL_SHARE * row.emulated
    still = Figure(row, row.emulated - share, row.emulated + share)
    if still.inside or not move:
        return still
    down, up = [share], [share]
    for _, value in unsure(arch):
        found = []
        for end in (value.low, value.high):
            try:
                moved = arch.with_overrides({value.name: end})
                found.append(float(PROBES[row.check.probe](moved, **row.check.parameters)) - row.emulated)
            except GpuemuError:
                continue
        down.append(max([0.0, *(-by for by in found)]))
        up.append(max([0.0, *found]))
    return Figure(row, row.emulated - hypot(*down), row.emulated + hypot(*up))


def figures(arch: gpuemu.Architecture, move: bool = False) -> Iterator[Figure]:
    """Every figure of an architecture that somebody measured."""
    for row in rows(arch, load(arch.name, FOLDER)):
        if measured(row):
            yield figure(arch, row, move)


def main(arguments: list[str] | None = None, out: TextIO = sys.stdout) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.coverage", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--arch", action="append", choices=ARCHITECTURES, help="only this one; may be repeated")
    parser.add_argument("--outside", action="store_true", help="and a line for each figure that lies outside")
    parser.add_argument("--move", action="store_true", help="move values where a figure lies outside without: minutes")
    options = parser.parse_args(arguments)
    everything: list[Figure] = []
    for name in options.arch or ARCHITECTURES:
        found = list(figures(gpuemu.load_arch(name), options.move))
        everything += found
        _write(out, name, found)
        for f in found if options.outside else ():
            if not f.inside:
                told = f"{number(round(f.lowest, 2))} to {number(round(f.highest, 2))}"
                print(f"  {quantity(f.row)}: measured {f.row.check.expected}, range {told}", file=out)
    _write(out, "all", everything)
    return int(sum(f.inside for f in everything) < ENOUGH * len(everything))


def _write(out: TextIO, name: str, found: list[Figure]) -> None:
    inside = sum(f.inside for f in found)
    print(f"{name}: {inside} of {len(found)} measured figures inside, {inside / max(1, len(found)):.0%}", file=out)


if __name__ == "__main__":
    sys.exit(main())
