"""Running a trace: lower, execute, observe. `run` is what the public names and the command line call."""

from __future__ import annotations

from collections.abc import Callable

from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.engine import Machine, StuckError, execute
from gpuemu.program.lowering import lower
from gpuemu.program.program import Program
from gpuemu.trace.model import Trace
from gpuemu.views.result import Result


def run(trace: Trace, arch: Architecture, *, watch: Callable[[Callable[[], int]], None] | None = None) -> Result:
    """Replay `trace` on one SM of `arch`.

    `watch` is called once, with a function that tells how many warp instructions have been issued so far; another
    thread may call it while this one runs.

    Raises GpuemuError if the trace cannot run there: a CTA too large, an operation without timing, a
    misaligned access, a barrier that warps wait at for ever.
    """
    return replay(trace, arch, lower(trace, arch), watch)


def replay(
    trace: Trace,
    arch: Architecture,
    program: Program,
    watch: Callable[[Callable[[], int]], None] | None = None,
) -> Result:
    """Replay what `lower` made of `trace` for `arch`, or for one that differs from it in nothing lowering reads.

    `watch` is as in `run`. Raises GpuemuError if warps wait at a barrier for ever.
    """
    try:
        log = execute(program, Machine.of(arch), watch)
    except StuckError as stuck:
        raise GpuemuError(_stuck_problem(trace, *warp) for warp in stuck.warps[:8]) from None
    return Result(trace, arch, program, log)


def _stuck_problem(trace: Trace, cta: int, warp: int, index: int, arrivals: int) -> Problem:
    instruction = trace.code[index]
    return Problem(
        trace.file, instruction.line, f"code at {instruction.offset:#06x}",
        f"warp {warp} of CTA {cta} waiting at {instruction} for ever, with {arrivals} arrived",
        "every warp that the barrier counts must reach it",
    )  # fmt: skip
