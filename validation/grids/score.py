"""Whole grids, estimated and measured: the profiler's elapsed cycles of a launch that follows others on the same data.

The machine code is the code that was measured. Its data is the same too, because a grid's work may depend on it.
"""

from __future__ import annotations

import argparse
import lzma
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median

import gpuemu
from gpuemu.base.table import Cell
from gpuemu.sass.image.cubin import read_cubin
from validation import records as data
from validation import suite
from validation.grids import records
from validation.grids.launches import Grid, argument
from validation.suite import Score

FILE = "grids.csv"
CODE = Path(__file__).with_name("kernels.cubin.xz")
HELD_OUT = 3
"""One grid of so many is held out."""
COUNTERS = {
    "DRAM bytes": ("dram__bytes_read.sum", "dram__bytes_write.sum"),
    "L2 sectors": ("lts__t_sectors_srcunit_tex.sum",),
}
"""Each count of a launch, and the profiler's counters whose sum it is."""
NEAR, FEW_BYTES = 0.1, 100_000
"""A count is near the measured one if it is off by at most a tenth, or by so many bytes, by which launches differ."""
STATISTICS = (
    suite.count("grids"), suite.mean("error", ".1%"), suite.median("median", ".1%"), suite.bias("mean", "+.1%"),
    suite.within("within 10%", 0.1),
)  # fmt: skip


def chosen(folder: Path, which: str, family: str = "") -> list[tuple[Grid, dict[str, int]]]:
    """The grids of a part of the data with their figures; `family` is the beginning of their families' names."""
    return [
        (grid, figures)
        for name, (grid, figures) in records.read(folder / FILE).items()
        if grid.family.startswith(family) and suite.keeps(which, suite.drawn(name, HELD_OUT))
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
    whole = gpuemu.run(trace, arch).grid.whole
    if whole is None:
        raise ValueError(f"{grid.name}: no estimate of the whole launch")
    return grid.name, float(whole.elapsed), time.perf_counter() - began, whole.counters


def score(
    folder: Path, arch: str, chip: str, which: str, family: str = "", jobs: int | None = None,
    progress: suite.Progress | None = None,
) -> list[Score]:  # fmt: skip
    """The chosen grids, in the order of the measurements."""
    todo = chosen(folder, which, family)
    found = suite.each(estimate, [(grid, arch, chip) for grid, _ in todo], jobs, progress)
    return [
        Score(
            name=grid.name, family=grid.family, measured=measured[records.CYCLES], emulated=cycles, seconds=seconds,
            counters={
                what: (sum(measured[c] for c in names), sum(counted[c] for c in names))
                for what, names in COUNTERS.items()
            },
        )
        for (grid, measured), (_, cycles, seconds, counted) in zip(todo, found, strict=True)
    ]  # fmt: skip


def table(scores: Sequence[Score], worst: int = 10) -> list[str]:
    """The statistics of each family, the counters that are near the measured ones, and the worst grids."""
    counted: list[tuple[Cell, ...]] = []
    for what, names in COUNTERS.items():
        pairs = [s.counters[what] for s in scores if what in s.counters]
        few = FEW_BYTES // (1 if "bytes" in names[0] else 32)
        if pairs:
            near = fmean(abs(is_ - was) <= max(few, NEAR * was) for was, is_ in pairs)
            counted.append((f"{what} of the whole launch", len(pairs), None, None, None, near))
    lines = suite.table(scores, STATISTICS, worst, counted)
    if scores:
        slowest = max(scores, key=lambda s: s.seconds)
        usual = median(s.seconds for s in scores)
        lines.append(f"an answer takes {usual:.1f} s in the median, {slowest.seconds:.0f} s at most: {slowest.name}")
    return lines


def main(options: argparse.Namespace) -> None:
    """Score the chosen grids and print the table."""
    folder = data.data_folder(options.gpu, FILE)
    chip = options.chip or folder.name.upper()
    with suite.progress_bar() as progress:
        found = score(folder, options.arch, chip, options.which, options.family, options.jobs, progress)
    print("\n".join(table(found, options.worst)))
