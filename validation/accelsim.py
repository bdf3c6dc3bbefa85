"""Accel-Sim's own microbenchmarks: elapsed cycles emulated and measured, and how far Accel-Sim itself is off.

    python -m validation accelsim                        # all; needs nvcc
    python -m validation accelsim --chip H200 --sure     # whether the measured cycles lie in the range of --sure, too

The suite compiles its own kernels that measure the same (`accelsim.cu`) for the chip. Their loops have thousands of
equal turns, so two short runs give the cycles of a turn, and the remaining turns are extrapolated. "H200 here" is
the second launch of these very kernels, compiled with CUDA 13.0, on an H200 under the same profiler: differences of
the published code, compiler and clocks are not in it.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

import gpuemu
from validation.suite import Score, mean_error

SOURCE = Path(__file__).with_name("accelsim.cu")
MEASURED = Path(__file__).with_name("published") / "accelsim.csv"
ARCHITECTURE = {"A100": "sm_80", "H200": "sm_90", "H200 here": "sm_90"}
FLUSHED = "dram"
"""The `global_memory.first_touch` of a launch before which the profiler flushes all caches."""
MATRIX = 512


@dataclass(frozen=True)
class Kernel:
    """The launch of a kernel, whose loop has `times` turns (0: no loop) and is emulated with `short` and 2 x `short`.

    `buffer` is the type and number of the elements that it reads, `number` a last argument after the buffers.
    `everywhere`: one CTA runs on each SM, instead of one in all; each reads more elements, and the number counts all.
    """

    times: int = 0
    short: int = 1
    threads: int = 1024
    buffer: tuple[type, int] | None = None
    number: int | None = None
    everywhere: bool = False

    def arguments(self, ctas: int) -> list[Any]:
        """The kernel's arguments: cycles and results of each thread, the elements that it reads, the number."""
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
"""The kernels by their names in `accelsim.cu` and in the table of measured cycles."""


def accelsim_errors(scores: Iterable[Score]) -> list[float]:
    """Accel-Sim's own errors, for the kernels that it ran."""
    return [s.accelsim / s.measured - 1 for s in scores if s.accelsim]


def run(name: str, arch: gpuemu.Architecture, times: int) -> gpuemu.Result:
    """Run one kernel with that many turns of its loop."""
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
    """Elapsed cycles of the launch, and the ends of their range with `sure`, or 0."""
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


def scores(chips: Sequence[str], names: Sequence[str], sure: bool = False) -> Iterator[Score]:
    """Each kernel on each chip, in the table's order."""
    with MEASURED.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["chip"] in chips and row["kernel"] in names]
    for row in rows:
        arch = gpuemu.load_arch(ARCHITECTURE[row["chip"]]).with_overrides({"global_memory.first_touch": FLUSHED})
        cycles, least, most = emulate(row["kernel"], arch, sure)
        yield Score(
            name=row["kernel"], family=row["chip"], measured=float(row["measured"]), emulated=cycles, least=least,
            most=most, accelsim=float(row["accelsim"] or 0),
        )  # fmt: skip


def table(found: list[Score], sure: bool) -> Iterator[str]:
    """A line for each kernel, and a line for each chip."""
    for s in found:
        more = "".join(f"  Accel-Sim {error:+6.1%}" for error in accelsim_errors([s]))
        if sure:
            more += f"  range {s.least:,.0f} to {s.most:,.0f} {'inside' if s.inside else 'OUTSIDE'}"
        cycles = f"emulated {s.emulated:11,.0f} measured {s.measured:11,.0f}"
        yield f"{s.family:9} {s.name:20} {cycles} {s.error:+6.1%}{more}"
    for chip in dict.fromkeys(s.family for s in found):
        group = [s for s in found if s.family == chip]
        theirs = accelsim_errors(group)
        more = f", of Accel-Sim {fmean(map(abs, theirs)):.1%}" if theirs else ""
        if sure:
            more += f"; inside the range {sum(s.inside for s in group)} of {len(group)}"
        yield f"{chip}: {len(group)} kernels, mean error {mean_error(group):.1%}{more}"


def main(options: argparse.Namespace) -> None:
    """Print the chosen kernels on the chosen chips."""
    found = list(scores(options.chip or list(ARCHITECTURE), options.kernel or list(KERNELS), options.sure))
    print("\n".join(table(found, options.sure)))
