"""One description of a kernel launch, which every entry point builds once and passes on.

The command line, `trace_kernel`, `check`, `rank`, the judge and the Triton driver differ in where a launch comes from.
They all end in `gpuemu.chip.tracing.execute_launch(LaunchConfig(...), Listeners(...))`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuemu.arch import Architecture
    from gpuemu.sass.image.cubin import Cubin
    from gpuemu.sass.machine.memory import Device
    from gpuemu.sass.machine.observer import Observer

Sizes = tuple[int, int, int]
"""In x, y and z."""
DEFAULT_BUDGET = 100_000_000
"""Warp instructions that one CTA may execute before gpuemu reports an endless loop."""
DEFAULT_STACK_BYTES = 1024
"""Stack of a thread where the assembler asks for less: the driver's default (cudaLimitStackSize)."""


@dataclass(frozen=True)
class LaunchConfig:
    """A kernel, its launch, the hardware, and which CTAs to execute and record.

    `code`: path of a .cu, .ptx or .cubin, the bytes of a cubin, or a Cubin. `kernel` may be None where there is one.
    `grid` and `cluster` count CTAs, `block` counts threads; `cluster` is for kernels that do not fix their own
    (cudaLaunchAttributeClusterDimension). `args` are in the kernel's order: NumPy arrays are device buffers, updated in
    place; ints and floats get the parameter's type; NumPy and ctypes scalars have their own; a tuple is a structure.

    `arch` has the hardware with its chip and caches; a name such as "sm_90a" only says what a .cu is compiled for.
    `options` go to the compiler of a .cu.

    `ctas` are recorded; None takes those that the busiest SM runs at once, and samples others. `timed_only` executes
    no CTA besides, so that their results are missing from the arrays.

    `budget` is in warp instructions per CTA. `stack_bytes` per thread hold calls and recursion. `zero_shared`: reads of
    unwritten shared memory find zeros instead of being an error. `device` holds what earlier launches left. `noise`
    seeds random bits for unwritten registers and shared memory, which are zeros otherwise.
    """

    code: str | os.PathLike[str] | bytes | Cubin
    kernel: str | None = None
    grid: Sizes = (1, 1, 1)
    block: Sizes = (32, 1, 1)
    cluster: Sizes | None = None
    dynamic_shared_bytes: int = 0
    args: Sequence[Any] = ()
    arch: Architecture | str | None = None
    options: Sequence[str] = ()
    ctas: Sequence[int] | None = None
    timed_only: bool = False
    budget: int = DEFAULT_BUDGET
    stack_bytes: int = DEFAULT_STACK_BYTES
    zero_shared: bool = False
    device: Device | None = None
    noise: int | None = None


@dataclass(frozen=True)
class Listeners:
    """Functions and objects that hear about an execution while it goes on.

    `printer` gets the text that printf prints. `progress` gets the number of CTAs done and of all. `watch` is called
    once with a function that returns the warp instructions executed so far, on any thread. `observer` hears every
    access; if it forgives, a kernel's fault ends the launch without an error.
    """

    printer: Callable[[str], None] | None = None
    progress: Callable[[int, int], None] | None = None
    watch: Callable[[Callable[[], int]], None] | None = None
    observer: Observer | None = None


SILENT = Listeners()
"""Nobody listens."""
