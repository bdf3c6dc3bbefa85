"""Each measured launch of the set beside what the emulator says of it.

Measured is gpu__time_duration on an RTX 3080 at its base clock, all caches flushed in front of every launch: of each
kernel of a program the first two launches. Only those are told that put at most one CTA on an SM.
"""

from __future__ import annotations

import csv
import math
import multiprocessing
import resource
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import closing, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import fmean, median
from typing import Any

import gpuemu
from gpuemu.sass.machine.memory import Device
from gpuemu.sass.tools.disassembly import decode_function
from validation.flopbench.compiling import ARCHITECTURE, BuildError, Compiler, compiled
from validation.flopbench.serving import Launch, ProgramError, launches
from validation.replay import executor

CHIP = "RTX 3080"
MOST_CTAS = 68
SHORTER = {
    "us measured": "too long on the GPU",
    "more seconds": "too long to execute here",
    "launched with": "launched otherwise here",
    "not launched": "not launched here",
    "the program ended": "input that is not there, or a host program that did not come so far",
}
"""What a reason has in it, and how a table says it."""
TOO_LONG = "more seconds than a launch may take"


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
    """Seconds of a core: for a launch, for one in front of it, and for all of those of a program.

    `longest`: launches that took more microseconds on the GPU are left out.
    """

    launch: float = 60.0
    before: float = 4.0
    all_before: float = 20.0
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


def architecture() -> gpuemu.Architecture:
    """The chip as it was measured: what is behind L2 keeps its clock and takes fewer cycles of slower SMs."""
    arch = gpuemu.load_arch(ARCHITECTURE).with_overrides({"chip": CHIP})
    chip, memory = arch.chips[CHIP], arch.global_memory
    base_clock = chip.base_clock_mhz or chip.clock_mhz
    slower = base_clock / chip.clock_mhz
    behind_l2 = memory.latency_cycles - memory.l2.latency_cycles
    values = {
        f"chips.{CHIP}.clock_mhz": base_clock,
        "global_memory.latency_cycles": memory.l2.latency_cycles + round(behind_l2 * slower),
        "global_memory.first_touch": "dram",
    }
    return arch.with_overrides(values)


@dataclass
class _Program:
    """A program on its way through its launches."""

    rows: Sequence[Row]
    arch: gpuemu.Architecture
    limits: Limits
    wanted: int
    found: dict[int, Score] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    left_out: int = 0
    seconds: float = 0.0

    def take(self, launch: Launch) -> None:
        """Time a launch that was measured, execute another."""
        count = self.counts.get(launch.name, 0)
        self.counts[launch.name] = count + 1
        if not count:  # here, so that processes below find its disassembly
            with suppress(gpuemu.GpuemuError):
                decode_function(launch.cubin, launch.kernel)
        same = [number for number, row in enumerate(self.rows) if row.kernel == launch.name]
        number = same[count] if count < len(same) else None
        if number is not None and self.rows[number].ctas <= MOST_CTAS:
            row = self.rows[number]
            why = _unlike(launch, row) or _too_long(row, self.limits)
            self.found[number] = Score(row, error=why) if why else self._timed(launch, row)
        if len(self.found) == self.wanted:
            return
        started = _children_seconds()
        may = self.seconds < self.limits.all_before
        executed = may and _limited(_executed, (launch, self.arch), self.limits.before) is None
        self.left_out += not executed
        self.seconds += _children_seconds() - started

    def _timed(self, launch: Launch, row: Row) -> Score:
        found = _limited(_emulated, (launch, self.arch), self.limits.launch)
        if isinstance(found, str):
            return Score(row, error=found)
        nanoseconds, cycles, limited_by = found
        notes = f"{self.left_out} launches before not executed" if self.left_out else ""
        return Score(row, nanoseconds, cycles, limited_by, notes)


def _unlike(launch: Launch, row: Row) -> str:
    if (launch.grid, launch.block) == (row.grid, row.block):
        return ""
    return f"launched with a grid of {launch.grid} and blocks of {launch.block} here"


def _too_long(row: Row, limits: Limits) -> str:
    return f"more than {limits.longest:.0f} us measured" if row.nanoseconds > 1000 * limits.longest else ""


def _executed(launch: Launch, arch: gpuemu.Architecture) -> None:
    _trace(launch, arch, launch.device, False)


def _emulated(launch: Launch, arch: gpuemu.Architecture) -> tuple[float, int, str]:
    """Only CTAs that are timed and looked at execute, apart from the program's memory."""
    result = gpuemu.run(_trace(launch, arch, launch.apart(), True), arch)
    whole = result.on_the_chip()
    return whole.elapsed * 1000 / arch.chips[CHIP].clock_mhz, result.cycles, whole.limited_by


def _trace(launch: Launch, arch: gpuemu.Architecture, device: Device, timed_only: bool) -> gpuemu.Trace:
    return gpuemu.trace_kernel(
        launch.cubin, launch.kernel, launch.grid, launch.block, launch.dynamic_shared_bytes, launch.arguments,
        arch=arch, device=device, timed_only=timed_only, zero_shared=True,
    )  # fmt: skip


def _limited(work: Any, arguments: tuple[Any, ...], seconds: float) -> Any:
    """What `work` returns in a process of its own, which shares the device's memory; else what went wrong."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_child, args=(theirs, work, arguments, seconds))
    process.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        return TOO_LONG
    finally:
        process.join()
        ours.close()


def _child(pipe: Connection, work: Any, arguments: tuple[Any, ...], seconds: float) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds)))
    try:
        pipe.send(work(*arguments))
    except gpuemu.GpuemuError as error:
        pipe.send(" ".join(str(error).split())[:200])


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def of_program(job: tuple[Path, Path, Compiler, list[Row], Limits]) -> list[Score]:
    """The scores of a program's launches, in the table's order."""
    sources, folder, compiler, rows, limits = job
    wanted = [number for number, row in enumerate(rows) if row.ctas <= MOST_CTAS]
    if all(_too_long(rows[number], limits) for number in wanted):
        return [Score(rows[number], error=_too_long(rows[number], limits)) for number in wanted]
    program = _Program(rows, architecture(), limits, len(wanted))
    why = "not launched"
    try:
        executable = compiled(sources, rows[0].program, folder, compiler)
        with closing(launches(executable, rows[0].arguments, sources / "src" / rows[0].program)) as found:
            for launch in found:
                program.take(launch)
                if len(program.found) == len(wanted):
                    break
    except (BuildError, ProgramError, gpuemu.GpuemuError) as error:
        why = " ".join(str(error).split())
    return [program.found.get(number, Score(rows[number], error=why)) for number in wanted]


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
