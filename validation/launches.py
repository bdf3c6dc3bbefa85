"""Whole launches: the cycles that an SM is active for a kernel of the corpus with one iteration, measured and emulated.

Measured are the profiler's sm__cycles_active.max of launches/launches.csv: `warm` the median of five launches behind
a first one, `flushed` that of four with all caches flushed before each.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import fmean, median

import gpuemu
from gpuemu.arch import Architecture
from gpuemu.base.table import Cell, Table, number, words
from validation import records
from validation.replay import executor, trace_of
from validation.score import WIDTH, chosen, worst_of

FILE = "launches.csv"
STATES = {"warm": "l2", "flushed": "dram"}
"""What was measured, and the `global_memory.first_touch` that means."""


@dataclass(frozen=True)
class LaunchScore:
    """A launch: cycles measured and emulated; `least` and `most` of the launches measured."""

    name: str
    family: str
    measured: int
    least: int
    most: int
    emulated: int

    @property
    def error(self) -> float:
        """Of the emulated cycles, as a share of the measured ones."""
        return self.emulated / self.measured - 1


def read_launches(path: Path) -> dict[str, dict[str, int]]:
    """The rows of launches.csv by kernel."""
    with path.open(newline="", encoding="utf-8") as file:
        return {
            row.pop("name"): {name: int(value) for name, value in row.items() if value} for row in csv.DictReader(file)
        }


def emulate(job: tuple[Path, records.Launch, Architecture]) -> tuple[str, int]:
    """The cycles of a launch with one iteration."""
    code, launch, arch = job
    return launch.name, gpuemu.run(trace_of(code, replace(launch, iterations=1)), arch).cycles


def score(
    folder: Path, arch: Architecture, state: str, which: str, family: str, limit: int, jobs: int | None,
    progress: Callable[[int, int], None] | None = None,
) -> list[LaunchScore]:  # fmt: skip
    """The launches of chosen kernels in a state of the caches, in the order of the measurements."""
    measured = read_launches(folder / FILE)
    arch = arch.with_overrides({"global_memory.first_touch": STATES[state]})
    kernels = [m for m in chosen(folder, which, family, limit) if state in measured.get(m.name, {})]
    work = [(folder / records.CODE_FILE, m.launch, arch) for m in kernels]
    found: dict[str, int] = {}
    with executor(jobs or 2) as pool:
        for future in as_completed([pool.submit(emulate, job) for job in work]):
            name, cycles = future.result()
            found[name] = cycles
            if progress is not None:
                progress(len(found), len(work))
    return [
        LaunchScore(
            m.name, m.family, measured[m.name][state], measured[m.name][f"{state}_min"],
            measured[m.name][f"{state}_max"], found[m.name],
        )
        for m in kernels
    ]  # fmt: skip


def table(scores: Sequence[LaunchScore], worst: int = 10) -> list[str]:
    """A line a family, the whole, and the worst."""
    families = sorted({s.family for s in scores})
    groups = [(name, [s for s in scores if s.family == name]) for name in families] + [("all", list(scores))]
    rows: list[tuple[Cell, ...]] = []
    for name, group in groups:
        errors = [s.error for s in group]
        if errors:
            near = fmean(abs(e) <= 0.05 for e in errors)
            rows.append((name, len(group), fmean(map(abs, errors)), fmean(errors), near))
    heads = [
        words("family"), number("launches"), number("error", ".2%"), number("mean", "+.2%"), number("within 5%", ".0%")
    ]  # fmt: skip
    lines = Table(heads, rows).text(WIDTH).splitlines()
    found = [(s.name, s.emulated, s.measured, s.error) for s in sorted(scores, key=lambda s: -abs(s.error))[:worst]]
    lines += ["", *worst_of(found)]
    if scores:
        spread = median((s.most - s.least) / s.measured for s in scores)
        lines.append(f"launches of one kernel differ by {spread:.1%} in the median, largest less smallest")
    return lines


def headline(scores: Mapping[str, Sequence[LaunchScore]]) -> str:
    """One sentence about whole launches, by the state of the caches."""
    parts = []
    for state, group in scores.items():
        errors = [abs(s.error) for s in group]
        near = fmean(e <= 0.05 for e in errors)
        parts.append(f"{state}, {len(group)} launches, mean error {fmean(errors):.2%}, {near:.0%} within 5 %")
    return "whole launches: " + "; ".join(parts)


def write_scores(path: Path, scores: Mapping[str, Sequence[LaunchScore]]) -> None:
    """As CSV: the state, and the fields of each score."""
    names = [field.name for field in fields(LaunchScore)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["state", *names])
        writer.writerows([state, *(getattr(s, n) for n in names)] for state, group in scores.items() for s in group)


def read_scores(path: Path) -> dict[str, list[LaunchScore]]:
    """What `write_scores` wrote."""
    found: dict[str, list[LaunchScore]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            numbers = (int(row[name]) for name in ("measured", "least", "most", "emulated"))
            found.setdefault(row["state"], []).append(LaunchScore(row["name"], row["family"], *numbers))
    return found
