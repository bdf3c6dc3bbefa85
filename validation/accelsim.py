"""Accel-Sim's own microbenchmarks: elapsed cycles emulated and measured, and how far Accel-Sim itself is off.

    python -m validation.accelsim                        # all; needs nvcc
    python -m validation.accelsim --chip H200 --sure     # whether the measured cycles lie in the range of --sure, too

Kernels of our own that ask the same (`accelsim.cu`) are compiled for the chip. Loops go round thousands of times, each
time alike: two short runs give what a turn takes, and the rest is that times what is left. "H200 here" are these very
kernels, compiled with CUDA 13.0, in their second launch on an H200 of ours under the same profiler: what the published
code, compiler and clocks add is not in that.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, TextIO

import numpy as np

import gpuemu

SOURCE = Path(__file__).with_name("accelsim.cu")
MEASURED = Path(__file__).with_name("published") / "accelsim.csv"
ARCHITECTURE = {"A100": "sm_80", "H200": "sm_90", "H200 here": "sm_90"}
FLUSHED = "dram"
"""`global_memory.first_touch`: the profiler flushes all caches in front of a launch."""
MATRIX = 512


@dataclass(frozen=True)
class Kernel:
    """How one is launched: its loop goes round `times`, emulated for `short` and twice `short`; 0: it has no loop.

    `buffer`: the type and the number of what it reads; `number`: of a kernel that takes one behind its buffers.
    `everywhere`: a CTA on each SM, else one; each reads as much more, and the number is that of all.
    """

    times: int = 0
    short: int = 1
    threads: int = 1024
    buffer: tuple[type, int] | None = None
    number: int | None = None
    everywhere: bool = False

    def arguments(self, ctas: int) -> list[Any]:
        """Cycles and results of each thread, what is read, the number."""
        kind = self.buffer[0] if self.buffer else np.uint64 if self.threads == 1 else np.uint32
        buffers: list[Any] = [np.zeros(1024 * ctas, np.uint32), np.zeros(1024 * ctas, kind)]
        if not self.buffer:
            return buffers if self.number is None else [*buffers, self.number]
        read = self.buffer[1] + (1024 * ctas if self.everywhere else 0)
        return [*buffers, np.zeros(read, kind), *([read] if self.everywhere else [])]


KERNELS = {
    "l1_bw_32f": Kernel(4096, 64, buffer=(np.float32, 16384 + 1024)),
    "l1_bw_64f": Kernel(256, 64, buffer=(np.float64, 8192 + 1024)),
    "l1_bw_128": Kernel(4096, 64, buffer=(np.float32, 16384 + 4096)),
    "l1_bw_32f_unroll": Kernel(4096, 128, buffer=(np.float32, 16384 + 1024)),
    "l1_lat": Kernel(256, 64, 1, (np.uint64, 8192)),
    "l2_lat": Kernel(32768, 256, 1, (np.uint64, 4096)),
    "l2_bw_32f": Kernel(2048, 64, buffer=(np.float32, 2048 * 32), everywhere=True),
    "l2_bw_64f": Kernel(2048, 64, buffer=(np.float64, 2048 * 32), everywhere=True),
    "shared_bw": Kernel(4096, 64, number=1024),
    "shared_lat": Kernel(2048, 256, 1, number=1),
    "MaxIops_int32": Kernel(1024, 64, buffer=(np.int32, 1024)),
    "transpose_conflicts": Kernel(),
    "transpose_padded": Kernel(),
}
"""By the name in `accelsim.cu` and in the table of what was measured."""


@dataclass(frozen=True)
class Score:
    """Cycles of a kernel on a chip; `accelsim`: those of Accel-Sim, `lowest` to `highest` of --sure; or 0."""

    chip: str
    kernel: str
    measured: float
    accelsim: float
    emulated: float
    lowest: float = 0.0
    highest: float = 0.0

    @property
    def error(self) -> float:
        """How far the emulator is off."""
        return self.emulated / self.measured - 1

    @property
    def accelsim_error(self) -> float:
        """How far Accel-Sim is off."""
        return self.accelsim / self.measured - 1

    @property
    def inside(self) -> bool:
        """Whether the measured cycles lie in the range."""
        return self.lowest <= self.measured <= self.highest


def run(name: str, arch: gpuemu.Architecture, times: int) -> gpuemu.Result:
    """One kernel, whose loop goes round `times`."""
    kernel = KERNELS[name]
    grid: Any = arch.chips[arch.chip].sms if kernel.everywhere else 1
    block: Any = kernel.threads
    arguments = kernel.arguments(grid)
    if not kernel.times:
        grid, block = (MATRIX // 32, MATRIX // 32), (32, 8)
        arguments = [np.zeros(MATRIX * MATRIX, np.float32), np.zeros(MATRIX * MATRIX, np.float32), MATRIX]
    if name == "MaxIops_int32":
        arguments.append(np.zeros(1024, np.int32))
    trace = gpuemu.trace_kernel(SOURCE, name, grid, block, 0, arguments, arch=arch, options=[f"-DTIMES={times}"])
    return gpuemu.run(trace, arch)


def emulate(name: str, arch: gpuemu.Architecture, sure: bool = False) -> tuple[float, float, float]:
    """Elapsed cycles of the launch, and between what they lie."""
    kernel = KERNELS[name]
    first = run(name, arch, max(1, kernel.short))
    elapsed: float = first.on_the_chip().elapsed
    if kernel.times:
        longer = run(name, arch, 2 * kernel.short).on_the_chip().elapsed
        elapsed += (kernel.times - kernel.short) * (longer - elapsed) / kernel.short
    if not sure:
        return elapsed, 0.0, 0.0
    found = first.sure()
    return elapsed, elapsed * found.lowest / first.cycles, elapsed * found.highest / first.cycles


def scores(chips: list[str], names: list[str], sure: bool = False) -> Iterator[Score]:
    """Each kernel on each chip, in the table's order."""
    with MEASURED.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["chip"] in chips and row["kernel"] in names]
    for row in rows:
        arch = gpuemu.load_arch(ARCHITECTURE[row["chip"]]).with_overrides({"global_memory.first_touch": FLUSHED})
        found = emulate(row["kernel"], arch, sure)
        yield Score(row["chip"], row["kernel"], float(row["measured"]), float(row["accelsim"] or 0), *found)


def write(out: TextIO, found: list[Score], sure: bool) -> None:
    """A line a kernel, and a line a chip."""
    for s in found:
        told = f"  Accel-Sim {s.accelsim_error:+6.1%}" if s.accelsim else ""
        if sure:
            told += f"  range {s.lowest:,.0f} to {s.highest:,.0f} {'inside' if s.inside else 'OUTSIDE'}"
        print(
            f"{s.chip:9} {s.kernel:20} emulated {s.emulated:11,.0f} measured {s.measured:11,.0f} {s.error:+6.1%}{told}",
            file=out,
        )
    for chip in dict.fromkeys(s.chip for s in found):
        group = [s for s in found if s.chip == chip]
        theirs = [abs(s.accelsim_error) for s in group if s.accelsim]
        told = f", of Accel-Sim {fmean(theirs):.1%}" if theirs else ""
        if sure:
            told += f"; inside the range {sum(s.inside for s in group)} of {len(group)}"
        print(f"{chip}: {len(group)} kernels, mean error {fmean(abs(s.error) for s in group):.1%}{told}", file=out)


def main(arguments: list[str] | None = None, out: TextIO = sys.stdout) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.accelsim", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--chip", action="append", choices=list(ARCHITECTURE), help="only this one; may be repeated")
    parser.add_argument("--kernel", action="append", choices=list(KERNELS), help="only this one; may be repeated")
    parser.add_argument("--sure", action="store_true", help="and between what the cycles lie: minutes")
    options = parser.parse_args(arguments)
    chosen = options.chip or list(ARCHITECTURE), options.kernel or list(KERNELS)
    write(out, list(scores(*chosen, options.sure)), options.sure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
