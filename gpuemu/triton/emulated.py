"""The emulated GPU of a Triton program: it executes launches, times them, and keeps what they were like."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuemu.arch import Architecture
from gpuemu.emulate import run
from gpuemu.trace.lines import texts_of
from gpuemu.triton.launch import Launch

if TYPE_CHECKING:
    from gpuemu.sass.launch_config import LaunchConfig

COLD = {"global_memory.first_touch": "dram"}
"""What a benchmark's launches find in the caches: Triton flushes them."""
BUDGET = 1_000_000_000


class Event:
    """A point in a device's emulated time, as `torch.cuda.Event` is one of a GPU's."""

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
        """Milliseconds from here to `end`."""
        return (end.at - self.at) / 1e6


class Device:
    """An emulated GPU, and the launches that it has had.

    `nanoseconds` is its clock: what all its launches took, one behind the other.
    """

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
        """Tells this kind of device from others: what Triton keeps compiled code by."""
        return f"{self.arch.code_name} {self.arch.chip}"

    @cached_property
    def capability(self) -> tuple[int, int]:
        """The compute capability as torch has it: (8, 9)."""
        major, minor = self.arch.compute_capability.split(".")
        return int(major), int(minor)

    @cached_property
    def _cold(self) -> Architecture:
        return self.arch.with_overrides(COLD)

    @cached_property
    def properties(self) -> dict[str, int]:
        """What Triton's driver tells of a GPU. Memory clock and bus are such that their product is the rate of DRAM."""
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
        """Milliseconds that the launches of a call take, with caches flushed; only what is timed executes.

        NaN where it launches nothing: what else it does has no emulated time.
        """
        before, self.benchmarking, started = self.benchmarking, True, self.nanoseconds
        launched = len(self.launches)
        try:
            call()
        finally:
            self.benchmarking = before
        return (self.nanoseconds - started) / 1e6 if len(self.launches) > launched else math.nan
