"""Whole launches: the cycles that an SM is active for a kernel of the corpus with one iteration, measured and emulated.

The measured value is the profiler's sm__cycles_active.max in launches.csv: `warm` is the median of five launches after
a first one, `flushed` the median of four with all caches flushed before each.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import gpuemu
from gpuemu.arch import Architecture
from validation import records, suite
from validation.replay import trace_of
from validation.score import chosen
from validation.suite import Score

FILE = "launches.csv"
STATES = {"warm": "l2", "flushed": "dram"}
"""The states that were measured, and the `global_memory.first_touch` that each means."""
COLUMNS = ("state", "name", "family", "measured", "least", "most", "emulated")
STATISTICS = (
    suite.count("launches"), suite.mean("error", ".2%"), suite.bias("mean", "+.2%"), suite.within("within 5%", 0.05),
)  # fmt: skip


def read_launches(path: Path) -> dict[str, dict[str, int]]:
    """The rows of launches.csv by kernel."""
    with path.open(newline="", encoding="utf-8") as file:
        return {
            row.pop("name"): {name: int(value) for name, value in row.items() if value} for row in csv.DictReader(file)
        }


def emulate(job: tuple[Path, records.KernelLaunch, Architecture]) -> int:
    """The cycles of a launch with one iteration."""
    code, launch, arch = job
    return gpuemu.run(trace_of(code, replace(launch, iterations=1)), arch).cycles


def score(
    folder: Path, arch: Architecture, state: str, which: str, family: str, limit: int, jobs: int | None,
    progress: suite.Progress | None = None,
) -> list[Score]:  # fmt: skip
    """The launches of chosen kernels in a state of the caches, in the order of the measurements."""
    measured = read_launches(folder / FILE)
    arch = arch.with_overrides({"global_memory.first_touch": STATES[state]})
    kernels = [m for m in chosen(folder, which, family, limit) if state in measured.get(m.name, {})]
    cycles = suite.each(emulate, [(folder / records.CODE_FILE, m.launch, arch) for m in kernels], jobs, progress)
    return [
        Score(
            name=m.name, family=m.family, state=state, measured=measured[m.name][state],
            least=measured[m.name][f"{state}_min"], most=measured[m.name][f"{state}_max"], emulated=emulated,
        )
        for m, emulated in zip(kernels, cycles, strict=True)
    ]  # fmt: skip


def table(scores: Sequence[Score], worst: int = 10) -> list[str]:
    """The statistics of each family, the worst launches, and how far measured launches of one kernel differ."""
    lines = suite.table(sorted(scores, key=lambda s: s.family), STATISTICS, worst)
    if scores:
        spread = median((s.most - s.least) / s.measured for s in scores)
        lines.append(f"launches of one kernel differ by {spread:.1%} in the median, largest less smallest")
    return lines


def headline(scores: Mapping[str, Sequence[Score]]) -> str:
    """One sentence about whole launches, by the state of the caches."""
    parts = []
    for state, group in scores.items():
        mean, near = suite.mean_error(group), suite.near(group, 0.05)
        parts.append(f"{state}, {len(group)} launches, mean error {mean:.2%}, {near:.0%} within 5 %")
    return "whole launches: " + "; ".join(parts)


def read_scores(path: Path) -> dict[str, list[Score]]:
    """Read a file of scores, by the state of the caches. Raises RecordError."""
    found: dict[str, list[Score]] = {}
    for one in suite.read(path, COLUMNS):
        found.setdefault(one.state, []).append(one)
    return found


def main(options: argparse.Namespace) -> None:
    """Score the chosen launches and print the table."""
    folder = records.data_folder(options.gpu)
    arch = gpuemu.load_arch(options.arch or records.read_device(folder / records.DEVICE_FILE)["arch"])
    chosen_ones = options.which, options.family, options.limit, options.jobs
    with suite.progress_bar() as progress:
        found = score(folder, arch, options.caches, *chosen_ones, progress)
    print("\n".join(table(found, options.worst)))
