"""How often figures that others measured lie in the range of --sure, by architecture: nine of ten should.

    python -m validation coverage                        # every architecture; exit code 1 if fewer than 80 % do
    python -m validation coverage --arch sm_80 --outside --move

A figure is a row of the published table that somebody measured. Its range has every value as it is and the model's
share of 5 %; a figure given as a whole number may be off by another half. For figures outside, --move sets the values
of confidence C and D to the ends of their ranges, one at a time, as `gpuemu run --sure` does, which takes minutes for
each. Without it the share is a lower bound.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from math import hypot

import gpuemu
from gpuemu.arch.ranges import unsure
from gpuemu.base.errors import GpuemuError
from gpuemu.views.sure.estimate import MODEL_SHARE
from validation.published import Figure, figures, number
from validation.published_bench import PROBES
from validation.published_data import ARCHITECTURES, FOLDER, load

NOT_MEASURED = {"CUDA", "WP", "DERIVED", "ACCEL", "HUERTA-SIM", "NVD90", "RECALL", "REV", "FILE-4090", "none", "H200"}
"""Sources without a measurement by others: specifications, settings of a simulator, and this project's own figures."""
TIMES = ("cyc", "clk", "cycles")
ENOUGH = 0.8


def measured(figure: Figure) -> bool:
    """Whether somebody measured the figure, and it is a time or a rate."""
    sources = set(figure.entry.source.split("; ")) | ({figure.check.taken_from} - {""})
    timed = any(figure.entry.unit.startswith(unit) or f"/{unit}" in figure.entry.unit for unit in TIMES)
    return timed and not sources <= NOT_MEASURED and not figure.entry.taken_over


def is_inside(figure: Figure) -> bool:
    """Whether the published figure, or an end of it, lies in the range."""
    expected = figure.check.expected
    ends = expected if isinstance(expected, tuple) else (float(expected or 0), float(expected or 0))
    half = 0.5 if all(end % 1 == 0 for end in ends) else 0.0
    return figure.least - half <= ends[1] and ends[0] <= figure.most + half


def with_range(arch: gpuemu.Architecture, figure: Figure, move: bool = False) -> Figure:
    """The figure with its range; with `move`, values are moved if the figure is not inside without."""
    share = MODEL_SHARE * figure.emulated
    still = replace(figure, least=figure.emulated - share, most=figure.emulated + share)
    if is_inside(still) or not move:
        return still
    down, up = [share], [share]
    for _, value in unsure(arch):
        found = []
        for end in (value.low, value.high):
            try:
                moved = arch.with_overrides({value.name: end})
                found.append(float(PROBES[figure.check.probe](moved, **figure.check.parameters)) - figure.emulated)
            except GpuemuError:
                continue
        down.append(max([0.0, *(-by for by in found)]))
        up.append(max([0.0, *found]))
    return replace(figure, least=figure.emulated - hypot(*down), most=figure.emulated + hypot(*up))


def measured_figures(arch: gpuemu.Architecture, move: bool = False) -> Iterator[Figure]:
    """Every figure of an architecture that somebody measured, with its range."""
    for figure in figures(arch, load(arch.name, FOLDER)):
        if measured(figure):
            yield with_range(arch, figure, move)


def headline(name: str, found: list[Figure]) -> str:
    """One line: how many figures lie inside their range."""
    inside = sum(map(is_inside, found))
    return f"{name}: {inside} of {len(found)} measured figures inside, {inside / max(1, len(found)):.0%}"


def main(options: argparse.Namespace) -> int:
    """Print a line for each architecture; returns 1 if too few figures lie inside."""
    everything: list[Figure] = []
    for name in options.arch or ARCHITECTURES:
        found = list(measured_figures(gpuemu.load_arch(name), options.move))
        everything += found
        print(headline(name, found), flush=True)
        for f in found if options.outside else ():
            if not is_inside(f):
                ends = f"{number(round(f.least, 2))} to {number(round(f.most, 2))}"
                print(f"  {f.name}: measured {f.check.expected}, range {ends}")
    print(headline("all", everything))
    return int(sum(map(is_inside, everything)) < ENOUGH * len(everything))
