"""Running a trace: lower, execute, observe. `run` is what the public names and the command line call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.engine import Execution, Machine, StuckError, execute
from gpuemu.isa.opcodes import Row
from gpuemu.program.lowering import Program, lower
from gpuemu.trace.model import Trace
from gpuemu.views.bounds import Bound, bounds
from gpuemu.views.counters import RowCounts, profiler_counters, shared_table
from gpuemu.views.stalls import warp_stalls


@dataclass(frozen=True)
class WarpResult:
    """One warp's run; cycles count from the launch of the first CTA. `stalls` add up to end minus start."""

    cta: int
    warp: int
    sub_core: int
    start_cycle: int
    end_cycle: int
    instructions: int
    stalls: Mapping[str, int]
    clock_reads: tuple[int, ...]


@dataclass(frozen=True)
class Result:
    """What a run was like. `cycles` from the first launch to the end of the last warp."""

    trace: Trace
    arch: Architecture
    cycles: int
    execution: Execution = field(repr=False)

    @property
    def printed(self) -> str:
        """What the kernel's printf printed while its machine code was executed; "" for a trace that was read."""
        return self.trace.printed

    @cached_property
    def warps(self) -> tuple[WarpResult, ...]:
        """The warps, in launch order."""
        return tuple(
            WarpResult(
                cta=warp.program.cta,
                warp=warp.program.warp,
                sub_core=warp.sub_core.index,
                start_cycle=warp.start_cycle,
                end_cycle=self.execution.ends[warp.age],
                instructions=len(warp.path),
                stalls=stalls,
                clock_reads=tuple(
                    cycle
                    for op, cycle in zip(warp.path, warp.issue_log, strict=True)
                    if op.index in self._clock_readers
                ),
            )
            for warp, stalls in zip(self.execution.warps, self._stalls, strict=True)
        )

    @cached_property
    def shared_memory(self) -> Mapping[Row, RowCounts]:
        """The profiler's shared-memory table."""
        return shared_table(self.execution)

    @cached_property
    def counters(self) -> Mapping[str, int]:
        """The profiler's counters by their names."""
        return profiler_counters(self.execution, dict(self.shared_memory))

    @cached_property
    def bounds(self) -> tuple[Bound, ...]:
        """For each resource the cycles it alone would take, the tightest first."""
        return tuple(bounds(self.execution, self._stalls))

    @cached_property
    def stalls(self) -> Mapping[str, int]:
        """Cycles by stall reason, over all warps."""
        return {reason: sum(w[reason] for w in self._stalls) for reason in self._stalls[0]}

    @cached_property
    def _stalls(self) -> list[dict[str, int]]:
        return warp_stalls(self.execution)

    @cached_property
    def _clock_readers(self) -> frozenset[int]:
        return frozenset(i for i, instruction in enumerate(self.trace.code) if instruction.reads_clock)


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
        execution = execute(program, Machine.of(arch), watch)
    except StuckError as stuck:
        raise GpuemuError(_stuck_problem(trace, *warp) for warp in stuck.warps[:8]) from None
    return Result(trace, arch, execution.cycles, execution)


def _stuck_problem(trace: Trace, cta: int, warp: int, index: int, arrivals: int) -> Problem:
    instruction = trace.code[index]
    return Problem(
        trace.file, instruction.line, f"code at {instruction.offset:#06x}",
        f"warp {warp} of CTA {cta} waiting at {instruction} for ever, with {arrivals} arrived",
        "every warp that the barrier counts must reach it",
    )  # fmt: skip
