"""The emulated GPU of a Triton program: it executes launches, times them, and keeps their records."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuemu.arch import Architecture
from gpuemu.trace.lines import texts_of
from gpuemu.triton.launch import Launch

if TYPE_CHECKING:
    from gpuemu.sass.launch_config import LaunchConfig

COLD = {"global_memory.first_touch": "dram"}
"""The caches at the start of a benchmark's launches: Triton flushes them."""
BUDGET = 1_000_000_000


class Event:
    """A point in a device's emulated time, with the interface of `torch.cuda.Event`."""

    def __init__(self, device: Device, enable_timing: bool = False, **_: Any):
        self.at = 0.0
        self._device = device

    def record(self, stream: Any = None) -> None:
        self.at = self._device.nanoseconds

    def wait(self, stream: Any = None) -> None: ...

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Event) -> float:
        """The milliseconds from here to `end`."""
        return (end.at - self.at) / 1e6


class Device:
    """An emulated GPU and its launches.

    `nanoseconds` is its clock: the sum of the durations of its launches.
    """

    keeps_buffers = False
    """Whether a launch's tensors outlive the launch."""

    def __init__(self, arch: Architecture, timed: bool, checked: bool, keep: int):
        self.arch = arch
        self.timed = timed
        self.checked = checked
        self.launches: list[Launch] = []
        self.nanoseconds = 0.0
        self.benchmarking = False
        self._keep = keep

    @property
    def name(self) -> str:
        """The name of this kind of device, under which Triton keeps compiled code."""
        return f"{self.arch.code_name} {self.arch.chip}"

    @cached_property
    def capability(self) -> tuple[int, int]:
        """The compute capability in torch's form: (8, 9)."""
        major, minor = self.arch.compute_capability.split(".")
        return int(major), int(minor)

    @cached_property
    def _cold(self) -> Architecture:
        return self.arch.with_overrides(COLD)

    @cached_property
    def properties(self) -> dict[str, int]:
        """The properties of a GPU in Triton's form. The product of memory clock and bus width is the bandwidth of
        DRAM.
        """
        chip, arch = self.arch.chips[self.arch.chip], self.arch
        rate = chip.dram_bytes_per_cycle or arch.global_memory.bytes_per_cycle * chip.sms
        return {
            "max_shared_mem": arch.shared_memory.capacity_bytes - arch.shared_memory.reserved_bytes_per_cta,
            "max_num_regs": 65536,
            "multiprocessor_count": chip.sms,
            "warpSize": 32,
            "sm_clock_rate": chip.clock_mhz * 1000,
            "mem_clock_rate": chip.clock_mhz * 1000,
            "mem_bus_width": int(rate * 4),
        }

    def launch(self, config: LaunchConfig, registers: int) -> Launch:
        """Execute a kernel, and time it unless the device only executes. Raises GpuemuError."""
        from gpuemu.chip.tracing import execute_launch
        from gpuemu.emulate import run
        from gpuemu.sass.launch_config import Listeners

        found: tuple[Any, ...] = ()
        if self.checked:
            found = self._check(config)
        arch = self._cold if self.benchmarking else self.arch
        timed = self.timed or self.benchmarking
        launched = replace(
            config, arch=arch, budget=BUDGET, timed_only=self.benchmarking, ctas=None if timed else (), zero_shared=True
        )
        trace = execute_launch(launched, Listeners(printer=lambda text: print(text, end="")))
        done = Launch.of(config, registers, self.benchmarking, found)
        if timed:
            texts = texts_of(trace, [Path(path) for path in trace.source_paths.values()])
            result = run(replace(trace, source_text=texts), arch, clocks=True)
            done.cycles = result.cycles
            done.nanoseconds = float(result.grid.nanoseconds or 0)
            done.limited_by = result.limited_by
            done.kept = result
            self.nanoseconds += done.nanoseconds
        self.launches.append(done)
        if len(self.launches) > self._keep:
            self.launches[-1 - self._keep].kept = None
        return done

    def _check(self, config: LaunchConfig) -> tuple[Any, ...]:
        """The findings of all tools in a launch, which executes on copies of its arrays."""
        import copy

        import gpuemu

        report = gpuemu.check(
            config.code, config.kernel, config.grid, config.block, config.dynamic_shared_bytes,
            copy.deepcopy(list(config.args)), arch=self.arch, budget=BUDGET, zero_shared=True,
        )  # fmt: skip
        return tuple(report.findings)

    def benchmark(self, call: Callable[[], Any]) -> float:
        """The milliseconds of a call's launches, with caches flushed. Only the timed CTAs execute.

        NaN if it launches nothing, because its other work has no emulated time.
        """
        before, self.benchmarking, started = self.benchmarking, True, self.nanoseconds
        launched = len(self.launches)
        try:
            call()
        finally:
            self.benchmarking = before
        return (self.nanoseconds - started) / 1e6 if len(self.launches) > launched else math.nan
