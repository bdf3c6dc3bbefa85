"""Scores launches of HeCBench programs that others measured on an RTX 3080: Durations emulated and measured.

    python -m validation flopbench SOURCES               # a checkout of gpuFLOPBench; needs nvcc
    python -m validation flopbench SOURCES --only sort --jobs 1

The measured value is gpu__time_duration on an RTX 3080 at its base clock, with all caches flushed before every launch,
for the first two launches of each kernel of a program. Only launches with at most one CTA on an SM are scored.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import gpuemu
from validation import suite
from validation.flopbench.compiling import ARCHITECTURE, BuildError, Compiler, compiled
from validation.replay import executor
from validation.suite import Score

DATA = Path("cuda-profiling") / "profiling-data.csv"
CHIP = "RTX 3080"
MOST_CTAS = 68
SHORTER = {
    "us measured": "too long on the GPU",
    "more seconds": "too long to run here",
    "launched with": "launched otherwise here",
    "not launched": "not launched here",
    "the program ended": "input that is not there, or a host program that did not come so far",
}
"""A part of each reason, and the short form that a table has."""
TOO_LONG = "more seconds than a program may take"


@dataclass(frozen=True)
class Measured:
    """A measured launch."""

    program: str
    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: tuple[str, ...]
    nanoseconds: float

    @property
    def ctas(self) -> int:
        """The CTAs of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]


@dataclass(frozen=True)
class Limits:
    """Limits of a program's emulation.

    Launches beyond `seconds` are sampled, as `gpuemu exec --seconds` does. Launches that took more than `longest`
    microseconds on the GPU are left out.
    """

    seconds: int = 60
    longest: float = 5000.0


def read_rows(path: Path) -> list[Measured]:
    """All rows of the table. Rows of larger grids count too: they decide which launch of its kernel a row is."""
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Measured(
                row["targetName"], row["kernelName"], _numbers(row["Grid Size"]), _numbers(row["Block Size"]),
                tuple(row["exeArgs"].split()), float(row["xtime"]),
            )
            for row in csv.DictReader(file)
        ]  # fmt: skip


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.strip("()").split(","))


def settings() -> dict[str, Any]:
    """The chip as it was measured: DRAM keeps its clock, so its latency is fewer cycles of the slower SMs."""
    arch = gpuemu.load_arch(ARCHITECTURE).with_overrides({"chip": CHIP})
    chip, memory = arch.chips[CHIP], arch.global_memory
    base_clock = chip.base_clock_mhz or chip.clock_mhz
    slower = base_clock / chip.clock_mhz
    behind_l2 = memory.latency_cycles - memory.l2.latency_cycles
    return {
        "chip": CHIP,
        f"chips.{CHIP}.clock_mhz": base_clock,
        "global_memory.latency_cycles": memory.l2.latency_cycles + round(behind_l2 * slower),
        "global_memory.first_touch": "dram",
    }


def architecture() -> gpuemu.Architecture:
    """The architecture with these settings."""
    return gpuemu.load_arch(ARCHITECTURE).with_overrides(settings())


def executed(program: Path, arguments: Sequence[str], folder: Path, limits: Limits) -> tuple[list[dict[str, Any]], str]:
    """The launches of a program as `gpuemu exec` reports them, and why there are no more; "" if it ended well."""
    words = [word for name, value in settings().items() for word in ("--set", f"{name}={value}")]
    with tempfile.TemporaryDirectory() as place:
        told = Path(place) / "launches.json"
        command = [
            sys.executable, "-m", "gpuemu", "exec", "--arch", ARCHITECTURE, *words, "--seconds", str(limits.seconds),
            "--format", "json", "-o", str(told), "--", str(program), *arguments,
        ]  # fmt: skip
        try:
            ran = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=10 * limits.seconds,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return [], TOO_LONG
        found = json.loads(told.read_text(encoding="utf-8"))["launches"] if told.exists() else []
    last = (ran.stderr or ran.stdout).strip().rpartition("\n")[2]
    return found, f"the program ended with {ran.returncode}: {last[:120]}" if ran.returncode else ""


def matched(rows: Sequence[Measured], launches: Sequence[Mapping[str, Any]], limits: Limits) -> dict[int, Score]:
    """The score of each row that has a launch: rows and launches of a kernel are in the same order."""
    found: dict[int, Score] = {}
    counts: dict[str, int] = {}
    for launch in launches:
        name = launch["kernel"].rpartition("::")[2]
        count = counts.get(name, 0)
        counts[name] = count + 1
        same = [number for number, row in enumerate(rows) if row.kernel == name]
        if count < len(same):
            found[same[count]] = _score(rows[same[count]], launch, limits)
    return found


def _scored(row: Measured, failure: str = "", emulated: float = 0.0, note: str = "") -> Score:
    return Score(
        name=row.kernel, family=row.program.removesuffix("-cuda"), ctas=row.ctas, measured=row.nanoseconds / 1000,
        emulated=emulated, note=note, failure=failure,
    )  # fmt: skip


def _score(row: Measured, launch: Mapping[str, Any], limits: Limits) -> Score:
    sizes = tuple(launch["grid"]), tuple(launch["block"])
    if sizes != (row.grid, row.block):
        return _scored(row, f"launched with a grid of {sizes[0]} and blocks of {sizes[1]} here")
    why = _too_long(row, limits) or ("" if launch["elapsed_cycles"] else TOO_LONG)
    note = launch["limited_by"] + ("; sampled" if launch["values"] == "sampled" else "")
    return _scored(row, why, (launch["duration_ns"] or 0.0) / 1000, note)


def _too_long(row: Measured, limits: Limits) -> str:
    return f"more than {limits.longest:.0f} us measured" if row.nanoseconds > 1000 * limits.longest else ""


def of_program(job: tuple[Path, Path, Compiler, list[Measured], Limits]) -> list[Score]:
    """The scores of a program's launches, in the table's order."""
    sources, folder, compiler, rows, limits = job
    wanted = [number for number, row in enumerate(rows) if row.ctas <= MOST_CTAS]
    if all(_too_long(rows[number], limits) for number in wanted):
        return [_scored(rows[number], _too_long(rows[number], limits)) for number in wanted]
    launches: list[dict[str, Any]] = []
    try:
        program = compiled(sources, rows[0].program, folder, compiler)
        launches, why = executed(program, rows[0].arguments, sources / "src" / rows[0].program, limits)
    except BuildError as error:
        why = " ".join(str(error).split())
    found = matched(rows, launches, limits)
    return [found.get(number) or _scored(rows[number], why or "not launched") for number in wanted]


def scores(
    sources: Path, folder: Path, compiler: Compiler, rows: list[Measured], only: str, limits: Limits, jobs: int
) -> Iterator[list[Score]]:
    """The scores of each program, in the order in which programs end."""
    by_program: dict[str, list[Measured]] = {}
    for row in rows:
        by_program.setdefault(row.program, []).append(row)
    chosen = [group for name, group in by_program.items() if only in name and any(r.ctas <= MOST_CTAS for r in group)]
    with executor(jobs) as pool:
        started = [pool.submit(of_program, (sources, folder, compiler, group, limits)) for group in chosen]
        for future in as_completed(started):
            yield future.result()


def lines(found: Sequence[Score]) -> Iterator[str]:
    """A line for each launch."""
    for s in found:
        head = f"{s.family:18} {s.name[:32]:32} {s.ctas:3} CTAs"
        if s.failure:
            yield f"{head}  measured {s.measured:10.2f} us  left out: {s.failure}"
        else:
            yield f"{head}  emulated {s.emulated:10.2f} us measured {s.measured:10.2f} us {s.error:+7.1%}  {s.note}"


def summary(found: Sequence[Score]) -> str:
    """One sentence: how many launches of how many programs ran, and their errors."""
    sizes = suite.errors(found)
    ran = {s.family for s in found if not s.failure}
    return (
        f"{len(sizes)} of {len(found)} launches of {len(ran)} of {len({s.family for s in found})} programs; mean error "
        f"{suite.mean_error(found):.1%}, median {median(sizes or [0.0]):.1%}, "
        f"{sum(size <= 0.15 for size in sizes)} within 15 %"
    )


def table(found: Sequence[Score]) -> Iterator[str]:
    """A page's table of kernels, each with its launches together, and how many launches each reason left out."""
    groups: dict[tuple[str, str], list[Score]] = {}
    why: dict[str, int] = {}
    for s in found:
        if s.failure:
            reason = next((short for begin, short in SHORTER.items() if begin in s.failure), "did not compile or run")
            why[reason] = why.get(reason, 0) + 1
        else:
            groups.setdefault((s.family, s.name), []).append(s)
    yield "| program | kernel | CTAs | launches | emulated | measured | off |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for (program, kernel), group in sorted(groups.items()):
        ctas = ", ".join(str(n) for n in dict.fromkeys(s.ctas for s in group))
        emulated, measured = fmean(s.emulated for s in group), fmean(s.measured for s in group)
        off = fmean(s.error for s in group)
        yield f"| {program} | {kernel} | {ctas} | {len(group)} | {emulated:,.2f} | {measured:,.2f} | {off:+.1%} |"
    yield ""
    yield f"Left out: {'; '.join(f'{reason} ({count})' for reason, count in sorted(why.items()))}."


def main(options: argparse.Namespace) -> None:
    """Emulate the programs and print a line for each launch as its program ends."""
    rows = read_rows(options.data or options.sources / DATA)
    found: list[Score] = []
    with tempfile.TemporaryDirectory() as folder:
        places = options.sources.resolve(), (options.build or Path(folder)).resolve()
        limits = Limits(options.seconds, options.longest)
        compiler = Compiler(options.compiler, options.cuda)
        for some in scores(*places, compiler, rows, options.only, limits, options.jobs):
            found += some
            print("\n".join(lines(some)), flush=True)
    print("\n".join([*(table(found) if options.table else ()), summary(found)]))
