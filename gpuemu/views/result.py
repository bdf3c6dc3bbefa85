"""The result of a run: what people ask of it, each answer found when it is asked for first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gpuemu.arch import Architecture
from gpuemu.engine.log import Log
from gpuemu.isa.opcodes import Row
from gpuemu.program.program import Program
from gpuemu.trace.model import Trace
from gpuemu.views.bounds import Bound, bounds
from gpuemu.views.counters import RowCounts, memory_counters, profiler_counters, shared_table
from gpuemu.views.global_memory import GlobalCounts, GlobalRow, L1Counts, global_table, l1_counts
from gpuemu.views.occupancy import OccupancyCounts, SchedulerCounts, occupancy_counts, scheduler_counts
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
    """What a run was like: the program that ran, the log of what happened, and what people want to know of it."""

    trace: Trace
    arch: Architecture
    program: Program = field(repr=False)
    log: Log = field(repr=False)

    @property
    def cycles(self) -> int:
        """From the first launch to the end of the last warp."""
        return self.log.cycles

    @property
    def printed(self) -> str:
        """What the kernel's printf printed while its machine code was executed; "" for a trace that was read."""
        return self.trace.printed

    @cached_property
    def warps(self) -> tuple[WarpResult, ...]:
        """The warps, in launch order."""
        program, log = self.program, self.log
        reads = np.array([program.code[op.index].reads_clock for op in program.ops])[program.path]
        return tuple(
            WarpResult(
                cta=int(program.warp_cta[warp]),
                warp=int(program.warp_number[warp]),
                sub_core=int(log.warp_sub_core[warp]),
                start_cycle=int(log.warp_start[warp]),
                end_cycle=int(log.warp_end[warp]),
                instructions=int(program.first_issue[warp + 1] - program.first_issue[warp]),
                stalls=stalls,
                clock_reads=tuple(log.issue[place][reads[place]].tolist()),
            )
            for warp, stalls in enumerate(self._stalls)
            for place in [program.issues_of(warp)]
        )

    @cached_property
    def shared_memory(self) -> Mapping[Row, RowCounts]:
        """The profiler's shared-memory table."""
        return shared_table(self.program, self.log, self.arch)

    @cached_property
    def global_memory(self) -> Mapping[GlobalRow, GlobalCounts]:
        """Requests and sectors of global and local memory."""
        return global_table(self.program)

    @cached_property
    def l1(self) -> L1Counts:
        """What L1 had of what loads asked for, and what went beyond."""
        return l1_counts(self.program, self.log)

    @cached_property
    def scheduler(self) -> SchedulerCounts:
        """Active, eligible and issued warps."""
        return scheduler_counts(self.program, self.log)

    @cached_property
    def occupancy(self) -> OccupancyCounts:
        """How full the SM could be, and was."""
        return occupancy_counts(self.program, self.log, self.arch)

    @cached_property
    def counters(self) -> Mapping[str, int]:
        """The profiler's counters by their names."""
        beyond = memory_counters(self.global_memory, self.l1)
        return profiler_counters(self.program, self.log, self.shared_memory) | beyond

    @cached_property
    def bounds(self) -> tuple[Bound, ...]:
        """For each resource the cycles it alone would take, the tightest first."""
        return tuple(bounds(self.program, self.log, self.arch, self._stalls))

    @cached_property
    def stalls(self) -> Mapping[str, int]:
        """Cycles by stall reason, over all warps."""
        return {reason: sum(w[reason] for w in self._stalls) for reason in self._stalls[0]}

    @cached_property
    def _stalls(self) -> list[dict[str, int]]:
        return warp_stalls(self.program, self.log)
