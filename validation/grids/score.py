"""Whole grids, estimated and measured: the profiler's elapsed cycles of a launch behind others of the same data.

The machine code is that which was measured. The data is made anew, as it was: what a grid does may hang on it.
"""

from __future__ import annotations

import hashlib
import lzma
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median

import gpuemu
from gpuemu.base.table import Cell, Table, number, words
from gpuemu.sass.image.cubin import read_cubin
from validation.grids import records
from validation.grids.launches import Grid, argument
from validation.replay import executor
from validation.score import WIDTH, worst_of

FILE = "grids.csv"
CODE = Path(__file__).with_name("kernels.cubin.xz")
WHICH = ("all", "held-out", "fit")
COUNTERS = {
    "DRAM bytes": ("dram__bytes_read.sum", "dram__bytes_write.sum"),
    "L2 sectors": ("lts__t_sectors_srcunit_tex.sum",),
}
"""What is counted of a launch, and the profiler's counters of which it is the sum."""
NEAR, FEW_BYTES = 0.1, 100_000
"""A count is near what was measured if it is off by less than a tenth, or by fewer bytes than launches differ by."""


@dataclass(frozen=True)
class GridScore:
    """A grid: cycles measured and estimated, the seconds that the answer took, and `COUNTERS`: measured, estimated."""

    name: str
    family: str
    measured: int
    estimated: float
    seconds: float
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def error(self) -> float:
        """Of the estimate, as a share of what was measured."""
        return self.estimated / self.measured - 1


def held_out(name: str) -> bool:
    """Whether a grid is kept from those who work on the model: one in three, by a hash of its name."""
    return hashlib.sha256(name.encode()).digest()[0] % 3 == 0


def chosen(folder: Path, which: str, family: str = "") -> list[tuple[Grid, dict[str, int]]]:
    """The grids of a part of the data, whose families begin so, with their figures."""
    return [
        (grid, figures)
        for name, (grid, figures) in records.read(folder / FILE).items()
        if grid.family.startswith(family) and (which == "all" or held_out(name) == (which == "held-out"))
    ]


def estimate(job: tuple[Grid, str, str]) -> tuple[str, float, float, Mapping[str, int]]:
    """A grid's name, its cycles on a chip, the seconds that the answer took, and the counters of the launch."""
    grid, arch_name, chip = job
    code = read_cubin(lzma.decompress(CODE.read_bytes()), str(CODE))
    arguments = [argument(text) for text in grid.args]
    began = time.perf_counter()
    # Measured in one pass: nothing lies between a launch and the one before.
    arch = gpuemu.load_arch(arch_name).with_overrides({"chip": chip, f"chips.{chip}.l2_kept_kibibytes": None})
    trace = gpuemu.trace_kernel(
        code, grid.kernel, (*grid.grid, 1), (*grid.block, 1), grid.shared, arguments, arch=arch, timed_only=True
    )
    told = gpuemu.run(trace, arch).grid
    nanoseconds, whole = told.nanoseconds, told.whole
    if nanoseconds is None or whole is None:
        raise ValueError(f"{grid.name}: no estimate of the whole launch")
    return grid.name, nanoseconds * arch.chips[chip].clock_mhz / 1000, time.perf_counter() - began, whole.counters


def score(
    folder: Path, arch: str, chip: str, which: str, family: str = "", jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[GridScore]:  # fmt: skip
    """The chosen grids, in the order of the measurements."""
    todo = chosen(folder, which, family)
    found: dict[str, tuple[float, float]] = {}
    counted: dict[str, Mapping[str, int]] = {}
    with executor(jobs or 2) as pool:
        for future in as_completed([pool.submit(estimate, (grid, arch, chip)) for grid, _ in todo]):
            name, cycles, seconds, counted[name] = future.result()
            found[name] = cycles, seconds
            if progress is not None:
                progress(len(found), len(todo))

    def counts(name: str, told: Mapping[str, int]) -> dict[str, tuple[int, int]]:
        found = counted[name]
        return {what: (sum(told[c] for c in names), sum(found[c] for c in names)) for what, names in COUNTERS.items()}

    return [
        GridScore(grid.name, grid.family, told[records.CYCLES], *found[grid.name], counts(grid.name, told))
        for grid, told in todo
    ]


def table(scores: Sequence[GridScore], worst: int = 10) -> list[str]:
    """A line a family, the whole, the worst, and how many launches' counters are near what was measured."""
    rows: list[tuple[Cell, ...]] = []
    groups: Mapping[str, list[GridScore]] = {
        name: [s for s in scores if s.family == name] for name in dict.fromkeys(s.family for s in scores)
    }
    for name, group in (*groups.items(), ("all", list(scores))):
        errors = [s.error for s in group]
        if errors:
            near = fmean(abs(e) <= 0.1 for e in errors)
            sizes = fmean(map(abs, errors)), median(map(abs, errors))
            rows.append((name, len(group), *sizes, fmean(errors), near))
    for what, names in COUNTERS.items():
        pairs = [s.counts[what] for s in scores if what in s.counts]
        few = FEW_BYTES // (1 if "bytes" in names[0] else 32)
        if pairs:
            near = fmean(abs(is_ - was) <= max(few, NEAR * was) for was, is_ in pairs)
            rows.append((f"{what} of the whole launch", len(pairs), None, None, None, near))
    heads = [
        words("family"), number("grids"), number("error", ".1%"), number("median", ".1%"), number("mean", "+.1%"),
        number("within 10%", ".0%"),
    ]  # fmt: skip
    lines = Table(heads, rows).text(WIDTH).splitlines()
    found = [(s.name, s.estimated, s.measured, s.error) for s in sorted(scores, key=lambda s: -abs(s.error))[:worst]]
    lines += ["", *worst_of(found)]
    if scores:
        slowest = max(scores, key=lambda s: s.seconds)
        usual = median(s.seconds for s in scores)
        lines.append(f"an answer takes {usual:.1f} s in the median, {slowest.seconds:.0f} s at most: {slowest.name}")
    return lines
