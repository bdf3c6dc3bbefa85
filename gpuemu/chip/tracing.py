"""Launches on a chip: the executor of machine code, with a plan of how the chip deals out the grid."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gpuemu.arch import Architecture, as_architecture
from gpuemu.chip.plan import SampledGrid
from gpuemu.sass import launch
from gpuemu.sass.grid_plan import GridPlan
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.launch_config import DEFAULT_BUDGET, DEFAULT_STACK_BYTES, SILENT, LaunchConfig, Listeners
from gpuemu.sass.machine.lanes import WARP
from gpuemu.sass.machine.memory.storage import Device
from gpuemu.sass.machine.recording.observer import Observer
from gpuemu.trace.launch_limits import Extent, extent
from gpuemu.trace.model import Trace

_CHIP = re.compile(r"sm_\d+[af]?")
_SAMPLED = SampledGrid()


def trace_kernel(
    path: str | os.PathLike[str] | Cubin, kernel: str | None = None, grid: Extent = 1, block: Extent = WARP,
    dynamic_shared_bytes: int = 0, args: Sequence[Any] = (), *,
    arch: str | os.PathLike[str] | Architecture | None = None, options: Sequence[str] = (),
    ctas: Iterable[int] | None = None, budget: int = DEFAULT_BUDGET, stack_bytes: int = DEFAULT_STACK_BYTES,
    zero_shared: bool = False, timed_only: bool = False, printer: Callable[[str], None] | None = None,
    progress: Callable[[int, int], None] | None = None, watch: Callable[[Callable[[], int]], None] | None = None,
    observer: Observer | None = None, cluster: Extent | None = None, device: Device | None = None,
    noise: int | None = None,
) -> Trace:  # fmt: skip
    """Execute a kernel of a .cu or .cubin file (or of a Cubin already read) and return the trace of its CTAs.

    `grid` in CTAs, `block` in threads, each a number or up to three. An array in `args` is a device buffer and is
    updated in place. `arch` is an Architecture, its name or its path. `LaunchConfig` describes these and the other
    parameters, `Listeners` describes `printer`, `progress`, `watch` and `observer`. The text of printf is also in the
    trace's `printed`.

    Raises GpuemuError for arguments that do not fit, an unknown instruction, an integer argument where nothing says
    whether the parameter is a float, and any fault of the kernel, with its instruction, warp, lane and source line.
    """
    where = "trace_kernel()"
    if arch is not None and not (isinstance(arch, str) and _CHIP.fullmatch(arch)):
        arch = as_architecture(arch, where=where)
    config = LaunchConfig(
        path, kernel, extent("grid", grid, where), extent("block", block, where),
        None if cluster is None else extent("cluster", cluster, where), dynamic_shared_bytes, args, arch, options,
        None if ctas is None else sorted(set(ctas)), timed_only, budget, stack_bytes, zero_shared, device, noise,
    )  # fmt: skip
    return execute_launch(config, Listeners(printer, progress, watch, observer))


def execute_launch(config: LaunchConfig, listeners: Listeners = SILENT, plan: GridPlan = _SAMPLED) -> Trace:
    """Execute a launch and return the trace of the CTAs that `config` names, or else of those that the plan chooses.

    Raises what `trace_kernel` does.
    """
    return launch.execute_launch(config, listeners, plan)
