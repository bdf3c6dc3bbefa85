"""Executes the launches of a program and times them. Only this module calls the executor and the emulator."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.chip.plan import SampledGrid
from gpuemu.chip.sampling import lacks_long_ctas
from gpuemu.chip.tracing import execute_launch
from gpuemu.emulate import run
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.launch_config import LaunchConfig, Listeners
from gpuemu.sass.machine.memory.storage import Device
from gpuemu.trace.lines import texts_of
from gpuemu.trace.model import Trace
from gpuemu.trace.residency import residency
from gpuemu.views.result import Result

BUDGET = 10_000_000_000
"""The warp instructions of a CTA after which gpuemu considers the kernel endless."""

MOST_RECORDED = 5_000_000
"""Warp instructions of the CTAs to time: a record of more needs gigabytes, and minutes to simulate."""
PART_RECORDED = 125_000
"""Warp instructions of these CTAs to record if they have more. The rest has the same pace."""
MOST_SAMPLED = 200_000_000
"""Warp instructions of the first CTA of a sample. gpuemu gives up a sample with more."""
_PLAN = SampledGrid(is_brief=True, most=MOST_RECORDED, part=PART_RECORDED)

Sizes = tuple[int, int, int]


@dataclass(frozen=True)
class Job:
    """A launch that is ready to execute. `arguments` has the bytes of each parameter."""

    cubin: Cubin
    kernel: str
    grid: Sizes
    block: Sizes
    cluster: Sizes | None
    dynamic_shared_bytes: int
    arguments: tuple[bytes, ...]
    stack_bytes: int
    sections: dict[str, NDArray[np.uint8]] = field(repr=False, default_factory=dict)

    @property
    def source_name(self) -> str:
        return self.cubin.kernel(self.kernel).source_name

    @property
    def ctas(self) -> int:
        return math.prod(self.grid)

    @property
    def prints(self) -> bool:
        """Whether its module has printf."""
        return "vprintf" in self.cubin.undefined_functions

    def config(self, arch: Architecture, arrays: dict[int, NDArray[np.uint8]], timed_only: bool) -> LaunchConfig:
        """The launch with the device's memory."""
        return LaunchConfig(
            self.cubin, self.kernel, self.grid, self.block, self.cluster, self.dynamic_shared_bytes, self.arguments,
            arch=arch, timed_only=timed_only, budget=BUDGET, stack_bytes=self.stack_bytes, zero_shared=True,
            device=Device(arrays, self.sections),
        )  # fmt: skip


@dataclass(frozen=True)
class Timing:
    """The duration of a launch. `elapsed_cycles` is the profiler's sm__cycles_elapsed.max."""

    elapsed_cycles: int
    nanoseconds: float
    limited_by: str
    result: Result | None = field(repr=False)
    """The simulation; None for a scaled time."""

    def scaled(self, factor: float) -> Timing:
        """The time of a launch that executes `factor` times the instructions."""
        cycles = round(self.elapsed_cycles * factor)
        return Timing(cycles, self.nanoseconds * factor, self.limited_by, None)


@dataclass
class Heard:
    """Receives the text of printf, the progress of an execution, and the addresses of the arrays that it reads."""

    progress: Callable[[int, int], None] | None = None
    printed: list[str] = field(default_factory=list)
    instructions: Callable[[], int] = lambda: 0
    read: frozenset[int] = frozenset()

    def watch(self, count: Callable[[], int]) -> None:
        self.instructions = count

    def reads(self, starts: frozenset[int]) -> None:
        self.read = starts


def execute(
    job: Job, arch: Architecture, arrays: dict[int, NDArray[np.uint8]], heard: Heard, *, record: bool, timed_only: bool,
    work: NDArray[np.float64] | None = None,
) -> Trace:  # fmt: skip
    """Execute a launch in the program's memory. Raises GpuemuError.

    `record`: record the trace that timing needs. `timed_only`: execute only the CTAs that timing needs. If these are
    too long to record, the trace has parts of them, or no warps if that would leave waits without an end. `work`: the
    warp instructions of each CTA, if they are known.
    """
    config = job.config(arch, arrays, timed_only)
    if not record:
        config = replace(config, ctas=())
    listeners = Listeners(heard.printed.append, heard.progress, heard.watch, reads=heard.reads)
    return execute_launch(config, listeners, replace(_PLAN, work=work))


def work_without_records(trace: Trace, arch: Architecture) -> NDArray[np.float64] | None:
    """The warp instructions of each CTA, if all have executed but none of the long ones was recorded. Else None."""
    work = None if trace.sample is None or trace.sample.heaviest else trace.sample.work
    if work is None or not trace.warps:
        return None
    places = arch.chips[arch.chip].sms * min(residency(trace, arch).values())
    return work if lacks_long_ctas(work, sorted({warp.cta for warp in trace.warps}), places) else None


def time(trace: Trace, arch: Architecture) -> Timing:
    """Simulate the launch of a trace on the chip, and return its duration. Raises GpuemuError."""
    texts = texts_of(trace, [Path(path) for path in trace.source_paths.values()])
    result = run(replace(trace, source_text=texts), arch)
    whole: Any = result.grid.whole
    assert whole is not None
    return Timing(whole.elapsed, whole.elapsed * 1000 / arch.chips[arch.chip].clock_mhz, result.limited_by, result)
