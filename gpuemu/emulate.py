"""Running a trace: lower, execute, observe. `run` is what the public names and the command line call."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from gpuemu.arch import Architecture, as_architecture, load_arch
from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.chip.launch import estimate_launch
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
    """Replay `trace` on one SM of `arch`; each is the thing itself, its name, or its path.

    Without `arch` it is what the trace's code was compiled for.

    `engine`: "simpy"; "compiled", which is many times faster and takes Numba; or "auto", which takes compiled code
    where that is ready and the run is long enough. The result is the same.

    `observer` is told what happens (`gpuemu.engine.Observer`).

    `clocks`: if the trace is that of a kernel that has read the clock, execute the kernel again with the cycles of the
    replay as clock values. It starts with the original contents of the arrays that `trace_kernel` was given, and
    leaves its results in them. `Result.clocks` says how it went. Without `clocks` saved clock values are counts of
    instructions.

    Raises GpuemuError if the trace cannot run there: a CTA too large, an operation without timing, a
    misaligned access, a barrier that warps wait at for ever, values of which an effect would come before its cause.
    """
    hardware = None if arch is None else as_architecture(arch, where="run()")
    loaded = as_trace(trace, None if hardware is None else hardware.name, where="run()")
    hardware = hardware or load_arch(loaded.arch)
    result = replay(loaded, hardware, lower(loaded, hardware), engine, observer)
    return with_clocks(result) if clocks else result


def with_clocks(result: Result, progress: Callable[[int, int], None] | None = None) -> Result:
    """Execute the kernel again with the clock values of the replay, if it has read the clock: see `run`.

    `progress(CTAs done, CTAs)` is called now and then. Raises GpuemuError.
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
    """Replay what `lower` made of `trace` for `arch`, or for one that differs from it in nothing lowering reads.

    `engine` and `observer` are as in `run`. Raises GpuemuError if warps wait at a barrier for ever.
    """
    try:
        log = execute(program, arch, engine, observer)
    except StuckError as stuck:
        raise GpuemuError(_stuck_problem(trace, *warp) for warp in stuck.warps[:8]) from None
    on_the_chip = partial(estimate_launch, trace, arch, program, log, engine)
    return Result(trace, arch, program, log, on_the_chip, partial(_again, trace, arch, program, engine), as_html)


def _again(trace: Trace, arch: Architecture, program: Program, engine: str, values: Mapping[str, Any]) -> int:
    """The cycles with some values of the hardware replaced. Raises GpuemuError if it cannot run so."""
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
