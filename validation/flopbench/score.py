"""Each measured launch of the set beside what the emulator says of it.

Measured is gpu__time_duration on an RTX 3080 at its base clock, all caches flushed in front of every launch: of each
kernel of a program the first two launches. Only those are told that put at most one CTA on an SM.
"""

from __future__ import annotations

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
from validation.flopbench.compiling import ARCHITECTURE, BuildError, Compiler, compiled
from validation.replay import executor

CHIP = "RTX 3080"
MOST_CTAS = 68
SHORTER = {
    "us measured": "too long on the GPU",
    "more seconds": "too long to run here",
    "launched with": "launched otherwise here",
    "not launched": "not launched here",
    "the program ended": "input that is not there, or a host program that did not come so far",
}
"""What a reason has in it, and how a table says it."""
TOO_LONG = "more seconds than a program may take"


@dataclass(frozen=True)
class Row:
    """A measured launch."""

    program: str
    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: tuple[str, ...]
    nanoseconds: float

    @property
    def ctas(self) -> int:
        """Of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]


@dataclass(frozen=True)
class Score:
    """A launch, measured and emulated; or why not. `notes`: what was not executed in front of it, or of it."""

    row: Row
    nanoseconds: float = 0.0
    cycles: int = 0
    limited_by: str = ""
    notes: str = ""
    error: str = ""

    @property
    def off(self) -> float:
        """How far the emulated time is off, as a share of the measured one."""
        return self.nanoseconds / self.row.nanoseconds - 1


@dataclass(frozen=True)
class Limits:
    """`seconds` for a program: launches beyond them are sampled, as `gpuemu exec --seconds` does.

    `longest`: launches that took more microseconds on the GPU are left out.
    """

    seconds: int = 60
    longest: float = 5000.0


def read_rows(path: Path) -> list[Row]:
    """The rows of the table, those of larger grids too: they count which launch of its kernel a row is."""
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Row(
                row["targetName"], row["kernelName"], _numbers(row["Grid Size"]), _numbers(row["Block Size"]),
                tuple(row["exeArgs"].split()), float(row["xtime"]),
            )
            for row in csv.DictReader(file)
        ]  # fmt: skip


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.strip("()").split(","))


def settings() -> dict[str, Any]:
    """The chip as it was measured: what is behind L2 keeps its clock and takes fewer cycles of slower SMs."""
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


def matched(rows: Sequence[Row], launches: Sequence[Mapping[str, Any]], limits: Limits) -> dict[int, Score]:
    """The score of each row that a launch stands for: rows and launches of a kernel are in the same order."""
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


def _score(row: Row, launch: Mapping[str, Any], limits: Limits) -> Score:
    sizes = tuple(launch["grid"]), tuple(launch["block"])
    if sizes != (row.grid, row.block):
        return Score(row, error=f"launched with a grid of {sizes[0]} and blocks of {sizes[1]} here")
    why = _too_long(row, limits) or ("" if launch["elapsed_cycles"] else TOO_LONG)
    notes = "sampled" if launch["values"] == "sampled" else ""
    return Score(row, launch["duration_ns"] or 0.0, launch["elapsed_cycles"] or 0, launch["limited_by"], notes, why)


def _too_long(row: Row, limits: Limits) -> str:
    return f"more than {limits.longest:.0f} us measured" if row.nanoseconds > 1000 * limits.longest else ""


def of_program(job: tuple[Path, Path, Compiler, list[Row], Limits]) -> list[Score]:
    """The scores of a program's launches, in the table's order."""
    sources, folder, compiler, rows, limits = job
    wanted = [number for number, row in enumerate(rows) if row.ctas <= MOST_CTAS]
    if all(_too_long(rows[number], limits) for number in wanted):
        return [Score(rows[number], error=_too_long(rows[number], limits)) for number in wanted]
    launches: list[dict[str, Any]] = []
    try:
        program = compiled(sources, rows[0].program, folder, compiler)
        launches, why = executed(program, rows[0].arguments, sources / "src" / rows[0].program, limits)
    except BuildError as error:
        why = " ".join(str(error).split())
    found = matched(rows, launches, limits)
    return [found.get(number, Score(rows[number], error=why or "not launched")) for number in wanted]


def scores(
    sources: Path, folder: Path, compiler: Compiler, rows: list[Row], only: str, limits: Limits, jobs: int
) -> Iterator[list[Score]]:
    """Program by program, as they are done."""
    by_program: dict[str, list[Row]] = {}
    for row in rows:
        by_program.setdefault(row.program, []).append(row)
    chosen = [group for name, group in by_program.items() if only in name and any(r.ctas <= MOST_CTAS for r in group)]
    with executor(jobs) as pool:
        started = [pool.submit(of_program, (sources, folder, compiler, group, limits)) for group in chosen]
        for future in as_completed(started):
            yield future.result()


def lines(found: Sequence[Score]) -> Iterator[str]:
    """A line a launch."""
    for s in found:
        head = f"{s.row.program.removesuffix('-cuda'):18} {s.row.kernel[:32]:32} {s.row.ctas:3} CTAs"
        if s.error:
            yield f"{head}  measured {s.row.nanoseconds / 1000:10.2f} us  left out: {s.error}"
        else:
            figures = f"emulated {s.nanoseconds / 1000:10.2f} us measured {s.row.nanoseconds / 1000:10.2f} us"
            yield f"{head}  {figures} {s.off:+7.1%}  {s.limited_by}{f'; {s.notes}' if s.notes else ''}"


def summary(found: Sequence[Score]) -> str:
    """How many ran, of how many programs, and how far they are off."""
    ran = [s for s in found if not s.error]
    programs = {s.row.program for s in found}
    off = [abs(s.off) for s in ran] or [0.0]
    return (
        f"{len(ran)} of {len(found)} launches of {len({s.row.program for s in ran})} of {len(programs)} programs; "
        f"mean error {fmean(off):.1%}, median {median(off):.1%}, {sum(one <= 0.15 for one in off)} within 15 %"
    )


def table(found: Sequence[Score]) -> Iterator[str]:
    """For a page: of each kernel that ran, its launches together; then why others were left out, and how many."""
    groups: dict[tuple[str, str], list[Score]] = {}
    why: dict[str, int] = {}
    for s in found:
        if s.error:
            reason = next((short for begin, short in SHORTER.items() if begin in s.error), "did not compile or run")
            why[reason] = why.get(reason, 0) + 1
        else:
            groups.setdefault((s.row.program.removesuffix("-cuda"), s.row.kernel), []).append(s)
    yield "| program | kernel | CTAs | launches | emulated | measured | off |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for (program, kernel), group in sorted(groups.items()):
        ctas = ", ".join(str(n) for n in dict.fromkeys(s.row.ctas for s in group))
        emulated, measured = (
            fmean(values) / 1000 for values in ([s.nanoseconds for s in group], [s.row.nanoseconds for s in group])
        )
        off = fmean(s.off for s in group)
        yield f"| {program} | {kernel} | {ctas} | {len(group)} | {emulated:,.2f} | {measured:,.2f} | {off:+.1%} |"
    yield ""
    yield f"Left out: {'; '.join(f'{reason} ({count})' for reason, count in sorted(why.items()))}."
