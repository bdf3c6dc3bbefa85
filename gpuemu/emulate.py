"""Run a trace: lower it, execute it and observe it. The command line and the public `run` call this module."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from gpuemu.arch import Architecture, as_architecture, load_arch
from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.chip.launch import simulate_launch
from gpuemu.engine import Observer, StuckError, execute
from gpuemu.program.lowering import REPLAY_ONLY, lower
from gpuemu.program.program import Program
from gpuemu.trace.files import as_trace
from gpuemu.trace.model import Trace
from gpuemu.views.clocks import clock_values, compared
from gpuemu.views.report.page import as_html
from gpuemu.views.result import Result


def run(
    trace: Trace | str | os.PathLike[str],
    arch: Architecture | str | os.PathLike[str] | None = None,
    *,
    engine: str = "auto",
    observer: Observer | None = None,
    clocks: bool = False,
) -> Result:
    """Replay `trace` on one SM of `arch`. Both may be objects, names or paths.

    Without `arch`, gpuemu uses the architecture that the trace's code was compiled for.

    `engine`: "simpy", "compiled" or "auto". Compiled code is many times faster and needs Numba. "auto" uses it if it is
    ready and the run is long enough. The result is the same.

    `observer` is called for every event (`gpuemu.engine.Observer`).

    `clocks`: if the trace's kernel has read the clock, execute it again with the cycles of the replay as clock values.
    The kernel starts with the original contents of the arrays that `trace_kernel` received, and leaves its results in
    them. `Result.clocks` reports the outcome. Without `clocks`, saved clock values are counts of instructions.

    Raises GpuemuError if the trace cannot run there. A CTA may be too large, an operation may have no timing, an access
    may be misaligned, or warps may wait at a barrier forever. Some hardware values would let an effect precede its
    cause.
    """
    hardware = None if arch is None else as_architecture(arch, where="run()")
    loaded = as_trace(trace, None if hardware is None else hardware.name, where="run()")
    hardware = hardware or load_arch(loaded.arch)
    result = replay(loaded, hardware, lower(loaded, hardware), engine, observer)
    return with_clocks(result) if clocks else result


def with_clocks(result: Result, progress: Callable[[int, int], None] | None = None) -> Result:
    """Execute the kernel again with the clock values of the replay, if it has read the clock: see `run`.

    `progress(CTAs done, CTAs)` is called from time to time. Raises GpuemuError.
    """
    trace = result.trace
    if trace.again is None:
        return result
    second = trace.again(clock_values(result.program, result.log, result.arch), progress)
    return replace(result, trace=replace(trace, printed=second.printed), clocks=compared(trace, second))


def replay(
    trace: Trace,
    arch: Architecture,
    program: Program,
    engine: str = "auto",
    observer: Observer | None = None,
) -> Result:
    """Replay the program that `lower` made from `trace`, for `arch` or a variant for which it would make the same.

    `engine` and `observer` are as in `run`. Raises GpuemuError if warps wait at a barrier forever.
    """
    try:
        log = execute(program, arch, engine, observer)
    except StuckError as stuck:
        raise GpuemuError(_stuck_problem(trace, *warp) for warp in stuck.warps[:8]) from None
    on_the_chip = partial(simulate_launch, trace, arch, program, log, engine)
    return Result(trace, arch, program, log, on_the_chip, partial(_again, trace, arch, program, engine), as_html)


def _again(trace: Trace, arch: Architecture, program: Program, engine: str, values: Mapping[str, Any]) -> int:
    """Return the cycles with some hardware values replaced. Raises GpuemuError if the trace cannot run with them."""
    changed = arch.with_overrides(values, where="sure()")
    if not all(name.startswith(REPLAY_ONLY) for name in values):
        program = lower(trace, changed)
    return execute(program, changed, engine).cycles


def _stuck_problem(trace: Trace, cta: int, warp: int, index: int, arrivals: int) -> Problem:
    instruction = trace.code[index]
    return Problem(
        trace.file, instruction.line, f"code at {instruction.offset:#06x}",
        f"warp {warp} of CTA {cta} waits forever at {instruction}, with {arrivals} arrived",
        "Every warp that the barrier counts must reach it",
    )  # fmt: skip
