"""One description of a kernel launch, which every entry point builds once and passes on.

The command line, `trace_kernel`, `check`, `rank`, the judge and the Triton driver obtain launches in different ways.
They all call `gpuemu.chip.tracing.execute_launch(LaunchConfig(...), Listeners(...))`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuemu.arch import Architecture
    from gpuemu.sass.image.cubin import Cubin
    from gpuemu.sass.machine.memory.storage import Device
    from gpuemu.sass.machine.recording.observer import Observer
    from gpuemu.sass.tools.disassembly import DecodedFunction

Sizes = tuple[int, int, int]
"""Sizes in x, y and z."""
DEFAULT_BUDGET = 100_000_000
"""Warp instructions that one CTA may execute before gpuemu reports an endless loop."""
DEFAULT_STACK_BYTES = 1024
"""Minimum stack of a thread: the driver's default (cudaLimitStackSize), unless the assembler requests more."""


@dataclass(frozen=True)
class LaunchConfig:
    """A kernel, its launch, the hardware, and the CTAs to execute and record.

    `code`: path of a .cu, .ptx or .cubin, the bytes of a cubin, a Cubin, or a decoded kernel. `kernel` may be None if
    there is only one. `grid` and `cluster` count CTAs, and `block` counts threads. `cluster` is for kernels that do not
    fix their own size (cudaLaunchAttributeClusterDimension). `args` are in the kernel's order. NumPy arrays are device
    buffers, updated in place. Python ints and floats get the parameter's type, while NumPy and ctypes scalars have
    their own. A tuple is a structure.

    `arch` is the hardware with its chip and caches; a name such as "sm_90a" only selects the target of a .cu. `options`
    are passed to the compiler of a .cu.

    `ctas`: the CTAs to record. None records the CTAs that the busiest SM runs at once, and samples others. `timed_only`
    executes no other CTAs, so their results are missing from the arrays.

    `budget` is in warp instructions per CTA. `stack_bytes` per thread hold calls and recursion. `zero_shared`: reads of
    unwritten shared memory return zeros instead of causing an error. `device` contains the data of earlier launches.
    `noise` seeds random bits for unwritten registers and shared memory, which are otherwise zeros.
    """

    code: str | os.PathLike[str] | bytes | Cubin | DecodedFunction
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
    """Functions and objects that receive events during an execution.

    `printer` receives the text that printf prints. `progress` receives the number of finished CTAs and of all CTAs.
    `watch` is called once with a function that returns the warp instructions executed so far, on any thread. `observer`
    receives every access. If it forgives faults, a kernel's fault ends the launch without an error. `reads` is called
    once after the last CTA, with the start addresses of the buffers that the launch has read.
    """

    printer: Callable[[str], None] | None = None
    progress: Callable[[int, int], None] | None = None
    watch: Callable[[Callable[[], int]], None] | None = None
    observer: Observer | None = None
    reads: Callable[[frozenset[int]], None] | None = None


SILENT = Listeners()
"""Listeners that ignore all events."""
