"""Is the estimate of a launch smooth: is a faster chip no slower, and a larger grid no faster?

For each of eight kernels (continuity.cu) one rate, size or clock of the chip changes in small steps, or the grid grows.
Duration must not rise by more than `RISE` when a rate or clock improves, or `RISE_OF_SIZE` when a size does, and must
not fall by more than `FALL` when the grid grows. A copy that DRAM limits must keep its Duration, within `KEEPS`, when
only the clock of the SMs changes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

import gpuemu
from gpuemu.arch import Architecture
from gpuemu.chip.launch import simulate_launch
from gpuemu.engine import execute
from gpuemu.program.lowering import lower
from validation.replay import executor
from validation.suite import progress_bar

SOURCE = Path(__file__).with_name("continuity.cu")
RISE, RISE_OF_SIZE, FALL, KEEPS = 0.01, 0.03, 0.03, 0.03
STEPS = 40
LEAST, MOST = 0.5, 2.0
"""The first and the last step of a value, as a multiple of the architecture file's."""
RATES = (
    "l2_read_bytes_per_cycle", "l2_together_bytes_per_cycle", "l2_lines_per_cycle", "l2_write_bytes_per_cycle",
    "l2_store_lines_per_cycle", "dram_bytes_per_cycle", "atomics_per_cycle",
)  # fmt: skip
SIZES = ("l2_held_kibibytes", "l2_kept_kibibytes", "l2_dirty_kibibytes")
CLOCK, GRID = "clock_mhz", "grid"
VALUES = (*RATES, *SIZES, CLOCK, GRID)
GRIDS = {
    "copy": 4224, "read_l2": 2112, "gather": 2112, "chain": 528, "arithmetic": 2112, "atomic": 4224, "tiles": 1056,
    "transpose": 4096,
}  # fmt: skip
"""Each kernel with the grid at which the chip changes. The grid itself grows from a quarter to four times of that."""
ELEMENTS = 1 << 24
THREADS = 256


@dataclass(frozen=True)
class Step:
    """One step of one value for one kernel, and the launch's Duration in nanoseconds before and after it."""

    kernel: str
    value: str
    before: float
    after: float
    nanoseconds_before: float
    nanoseconds_after: float

    @property
    def change(self) -> float:
        """How much longer the launch takes after the step, as a share."""
        return self.nanoseconds_after / self.nanoseconds_before - 1

    @property
    def limit(self) -> float:
        """The largest change, as a share; of a grid the largest fall."""
        if self.value == GRID:
            return FALL
        if self.value == CLOCK and self.kernel == "copy":
            return KEEPS
        return RISE_OF_SIZE if self.value in SIZES else RISE

    @property
    def excess(self) -> float:
        """By how much the change is beyond its limit; 0 or less where it is within."""
        if self.value == CLOCK and self.kernel == "copy":
            return abs(self.change) - self.limit
        return (-self.change if self.value == GRID else self.change) - self.limit


def durations(job: tuple[str, str, int, str]) -> list[tuple[float, float]]:
    """(value, Duration in nanoseconds) of a kernel at each step of a value of a chip."""
    kernel, value, steps, chip = job
    arch = gpuemu.load_arch("sm_90").with_overrides({"chip": chip})
    if value == GRID:
        rounds = (
            np.geomspace(GRIDS[kernel] / 4, GRIDS[kernel] * 4, steps) // arch.chips[chip].sms * arch.chips[chip].sms
        )
        grids = np.unique(rounds[:, None].astype(int) + np.arange(3)).tolist()  # a CTA more than all SMs have alike
        return [(grid, _estimates(kernel, grid, chip)(arch)) for grid in grids]
    now = getattr(arch.chips[chip], value)
    estimate = _estimates(kernel, GRIDS[kernel], chip)
    found = []
    for share in np.geomspace(LEAST, MOST, steps).tolist():
        new = type(now)(now * share)
        found.append((float(new), estimate(arch.with_overrides({f"chips.{chip}.{value}": new}))))
    return found


@lru_cache(maxsize=1)
def _estimates(kernel: str, grid: int, chip: str) -> Callable[[Architecture], float]:
    """A function that returns the Duration of the launch on chips with the SMs of this one."""
    arch = gpuemu.load_arch("sm_90").with_overrides({"chip": chip})
    a, b = np.zeros(ELEMENTS, np.float32), np.zeros(ELEMENTS, np.float32)
    elements = ELEMENTS // 4 if kernel == "copy" else ELEMENTS
    trace = gpuemu.trace_kernel(str(SOURCE), kernel, grid, THREADS, args=[a, b, elements], arch=arch, timed_only=True)
    program = lower(trace, arch)
    log = execute(program, arch)

    def estimate(changed: Architecture) -> float:
        return simulate_launch(trace, changed, program, log).elapsed * 1000 / changed.chips[changed.chip].clock_mhz

    return estimate


def scan(
    kernels: Sequence[str], values: Sequence[str], steps: int, chip: str = "H200", jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[Step]:  # fmt: skip
    """All steps of these values for these kernels, in that order."""
    todo = [(kernel, value, steps, chip) for kernel in kernels for value in values]
    found: dict[tuple[str, str, int, str], list[tuple[float, float]]] = {}
    if jobs == 1:
        for job in todo:
            found[job] = durations(job)
    else:
        with executor(jobs) as pool:
            running = {pool.submit(durations, job): job for job in todo}
            for future in as_completed(running):
                found[running[future]] = future.result()
                if progress is not None:
                    progress(len(found), len(todo))
    return [
        Step(job[0], job[1], one[0], other[0], one[1], other[1])
        for job in todo
        for one, other in zip(found[job], found[job][1:], strict=False)
    ]


def violations(steps: Sequence[Step]) -> list[Step]:
    """The steps beyond their limit, the farthest first."""
    return sorted((step for step in steps if step.excess > 0), key=lambda step: -step.excess)


def table(steps: Sequence[Step]) -> list[str]:
    """A line for each violation, and the number of steps."""
    found = violations(steps)
    lines = [f"{'kernel':12} {'value':28} {'from':>10} {'to':>10} {'Duration':>9} {'limit':>7}"]
    for step in found:
        moved = f"{step.before:10,.5g} {step.after:10,.5g} {step.change:+9.1%} {step.limit:7.0%}"
        lines.append(f"{step.kernel:12} {step.value:28} {moved}")
    worst = max((step.excess for step in found), default=0.0)
    summary = f"{len(found)} of {len(steps)} steps are beyond their limit, by {worst:.1%} at most"
    return [*lines, summary] if found else [summary]


def main(options: argparse.Namespace) -> int:
    """Print the steps beyond their limit; returns 1 if there are any."""
    kernels = [options.kernel] if options.kernel else list(GRIDS)
    values = [options.value] if options.value else VALUES
    with progress_bar() as progress:
        found = scan(kernels, values, options.steps, options.chip, options.jobs or 2, progress)
    print("\n".join(table(found)))
    return 1 if violations(found) else 0
