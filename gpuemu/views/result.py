"""The result of a run. Each of its properties is computed when it is first used."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np

from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError
from gpuemu.base.strict_yaml import path_text
from gpuemu.base.whole_files import write_whole
from gpuemu.chip.estimate import ALONE, TOO_FEW, LaunchEstimate
from gpuemu.engine.log import Log
from gpuemu.program.program import Program
from gpuemu.trace.model import Trace
from gpuemu.views import answer, source, timeline
from gpuemu.views.accesses import Pattern, shared_patterns
from gpuemu.views.bounds import Bound, bounds
from gpuemu.views.clocks import SavedClocks, of_clocks
from gpuemu.views.copies import copy_counts
from gpuemu.views.counters import PRODUCT_WAVEFRONTS, RowCounts, memory_counters, profiler_counters, shared_table
from gpuemu.views.data_banks import bank_counters
from gpuemu.views.footprint import Footprint, footprint
from gpuemu.views.global_memory import (
    GlobalCounts,
    GlobalRow,
    L1Counts,
    dram_sectors,
    global_table,
    l1_counts,
    missed_sectors,
    new_sectors,
    sectors_reduced_in_bulk,
)
from gpuemu.views.grid import GridCounts, grid_counts
from gpuemu.views.notebook import summary
from gpuemu.views.notes import guesses, notes
from gpuemu.views.occupancy import OccupancyCounts, SchedulerCounts, occupancy_counts, scheduler_counts
from gpuemu.views.pipeline import Pipeline, pipeline
from gpuemu.views.stalls import warp_stalls
from gpuemu.views.sure.estimate import Again, Progress, Sure, estimate
from gpuemu.views.sure.glance import about, at_a_glance


@dataclass(frozen=True)
class WarpResult:
    """The run of one warp. Cycles count from the launch of the first CTA. `stalls` add up to end minus start."""

    cta: int
    warp: int
    sub_core: int
    start_cycle: int
    end_cycle: int
    instructions: int
    stalls: Mapping[str, int]
    clock_reads: tuple[int, ...]


class Causes(Protocol):
    """The part of `gpuemu.why`'s answer that a report shows."""

    def findings(self) -> list[dict[str, Any]]:
        """The cost of each cause, one record per finding."""


Of = Literal["instructions", "lines", "warps", "issues", "accesses"]
"""The kinds of records."""


@dataclass(frozen=True, repr=False)
class Result:
    """A run: the program, the engine's log, and the figures that follow from them."""

    trace: Trace
    arch: Architecture
    program: Program
    log: Log
    on_the_chip: Callable[[], LaunchEstimate] = field(repr=False, compare=False)
    """Computes the estimate of the launch on all SMs."""
    again: Again = field(repr=False, compare=False)
    """Computes the cycles with other values of the hardware."""
    page: Callable[..., str] = field(repr=False, compare=False)
    """Makes the report (`views.report.page.as_html`)."""
    clocks: SavedClocks | None = None
    """The second execution of a kernel that reads the clock; None if there was none."""

    def __repr__(self) -> str:
        conflicts = sum(counts.bank_conflicts for counts in self.shared_memory.values())
        issued = len(self.program.path)
        told = "".join(f"; {note}" for note in guesses(self.trace.guessed))
        counted = f"{issued} warp instructions, {conflicts} bank conflicts"
        return f"<Result {self._title}: {self.cycles} cycles, {counted}{told}>"

    @property
    def _title(self) -> str:
        return f"{self.trace.name} on {self.arch.name}"

    def _repr_html_(self) -> str:
        issued = len(self.program.path)
        return summary(
            f"{self._title}: {self.verdict}",
            self.cycles,
            issued,
            self.shared_memory,
            self.stalls,
            self.bounds,
            self.notes,
        )

    def to_html(
        self, path: str | os.PathLike[str], *, why: Causes | None = None, sources: Mapping[str, str] | None = None,
        beside: Result | None = None,
    ) -> None:  # fmt: skip
        """Write the HTML report, one file that fetches nothing.

        `why`: the answer of `gpuemu.why` for the same run, which adds the cost of each cause. `sources`: the text of
        source files by the names in the code, in addition to the text that the trace keeps. `beside`: another run to
        compare with. Raises GpuemuError.
        """
        texts = {name: source.lines_of(text) for name, text in (sources or {}).items()}
        file = path_text(path, "to_html()", "expected the path of a file")
        write_whole(Path(file), self.page(self, texts, why.findings() if why is not None else (), beside=beside))

    @cached_property
    def limit(self) -> str:
        """The limit of the launch if the chip limits it, and the limit of the SM, in words."""
        of_sm = answer.limit(self.program, self.cycles, self.bounds, self.stalls)
        whole = self.grid.whole
        if whole is None or whole.limited_by in (ALONE, TOO_FEW):
            return of_sm
        return f"Limited by {whole.limited_by}. One SM alone is {of_sm[0].lower()}{of_sm[1:]}"

    @property
    def verdict(self) -> str:
        """The limit, with the bank conflicts if they limit the SM."""
        return answer.with_conflicts(self.limit, self.bounds, self.shared_memory)

    def records(self, of: Of = "instructions") -> list[dict[str, Any]]:
        """Flat records under the profiler's names, which pandas.DataFrame and polars.DataFrame accept.

        `of`: "instructions" or "lines" for the rows of the source page; "warps"; "issues" for a row per issued
        instruction; "accesses" for the distinct accesses to shared memory. Raises GpuemuError for another word.
        """
        if of == "warps":
            return [_flat(warp) for warp in self.warps]
        if of == "issues":
            return list(timeline.records(self.program, self.log, self.arch))
        if of == "accesses":
            return [_of_access(pattern, self.program) for pattern in self.accesses]
        rows = source.instructions(self.program, self.log)
        if of == "lines":
            rows = source.lines(rows, self.program, source.texts_in(self.trace))
        elif of != "instructions":
            raise GpuemuError.one("records()", None, "of", repr(of), f"expected one of {', '.join(get_args(Of))}")
        return [dict(row.as_record()) for row in rows]

    @cached_property
    def accesses(self) -> tuple[Pattern, ...]:
        """The distinct accesses to shared memory, by instruction."""
        return tuple(shared_patterns(self.trace, self.program, self.arch))

    @property
    def cycles(self) -> int:
        """SM Active Cycles: from the launch to the end of the last warp, with its last store."""
        return self.log.cycles

    @property
    def printed(self) -> str:
        """The text that the kernel printed while gpuemu executed it; "" for a trace from a file."""
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
    def shared_memory(self) -> Mapping[str, RowCounts]:
        """The profiler's shared-memory table."""
        return shared_table(self.program, self.log, self.arch)

    @cached_property
    def global_memory(self) -> Mapping[str, GlobalCounts]:
        """Requests and sectors of global and local memory."""
        return global_table(self.program)

    @cached_property
    def l1(self) -> L1Counts:
        """The sectors that L1 had, and the sectors from and to memories beyond it."""
        return l1_counts(self.program, self.log)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """The omissions, guesses and assumptions of the run, in sentences."""
        return (*of_clocks(self.trace, self.clocks), *notes(self.trace, self.program, self.arch, self.footprint))

    @cached_property
    def pipeline(self) -> Pipeline:
        """Copies, mbarriers and products of warpgroups."""
        return pipeline(self.program, self.log, self.arch)

    @cached_property
    def footprint(self) -> Footprint:
        """The data that the launch touches, and the size of L2."""
        return footprint(self.trace, self.program, self.arch)

    @cached_property
    def grid(self) -> GridCounts:
        """The distribution of the launch over the chip, and its estimated time."""
        return grid_counts(self.trace, self.program, self.arch, self.on_the_chip)

    def sure(self, progress: Progress | None = None) -> Sure:
        """The range of the cycles if values of confidence C and D change within their ranges, with a run for each end.

        `progress(runs done, runs)` is called now and then.
        """
        return estimate(self.trace.name, self.arch, self.program, self.cycles, self.again, progress)

    @cached_property
    def sureness(self) -> str:
        """The uncertainty of the cycles, in one line and without a run; "" if it is small."""
        return at_a_glance(self.arch, about(self.arch, self.program, self.stalls, self.bounds, self.cycles))

    @cached_property
    def scheduler(self) -> SchedulerCounts:
        """The counts of active, eligible and issued warps."""
        return scheduler_counts(self.program, self.log)

    @cached_property
    def occupancy(self) -> OccupancyCounts:
        """The theoretical and the achieved occupancy."""
        return occupancy_counts(self.program, self.log, self.arch)

    @cached_property
    def counters(self) -> Mapping[str, int]:
        """The profiler's counters by their names."""
        missed = missed_sectors(self.program, self.log)
        beyond = memory_counters(
            self.global_memory, self.l1, missed,
            dram_sectors(self.trace, self.program, self.arch), new_sectors(self.program, self.arch),
            sectors_reduced_in_bulk(self.program),
        )  # fmt: skip
        found = profiler_counters(self.program, self.log, self.shared_memory) | beyond
        into_l1 = (
            missed[GlobalRow.LOAD] + copy_counts(self.program, self.log)[0].beyond
            + self.global_memory[GlobalRow.ATOMIC].sectors
        )  # fmt: skip
        products = found.get(PRODUCT_WAVEFRONTS, 0)
        return found | bank_counters(self.program, self.arch, into_l1, products)

    @cached_property
    def bounds(self) -> tuple[Bound, ...]:
        """The cycles that each resource alone would need, the tightest bound first."""
        return tuple(bounds(self.program, self.log, self.arch, self._stalls))

    @property
    def limited_by(self) -> str:
        """The limit of the whole launch: a resource of the chip, or the SM's resource with the tightest bound."""
        whole = self.grid.whole
        if whole is not None and whole.limited_by != ALONE:
            return whole.limited_by
        return self.bounds[0].resource if self.bounds else ""

    @cached_property
    def stalls(self) -> Mapping[str, int]:
        """Cycles by stall reason, over all warps."""
        return {reason: sum(w[reason] for w in self._stalls) for reason in self._stalls[0]}

    @cached_property
    def _stalls(self) -> list[dict[str, int]]:
        return warp_stalls(self.program, self.log)


def _flat(warp: WarpResult) -> dict[str, Any]:
    """A warp's record, with stalls under the source page's names, but without clock reads: their number differs."""
    return {
        "CTA": warp.cta,
        "Warp": warp.warp,
        "Sub-core": warp.sub_core,
        "Start": warp.start_cycle,
        "End": warp.end_cycle,
        "Instructions Executed": warp.instructions,
        **dict(zip(source.stall_columns().values(), warp.stalls.values(), strict=True)),
    }


def _of_access(pattern: Pattern, program: Program) -> dict[str, Any]:
    instruction, access = program.code[pattern.instruction], pattern.access
    return {
        "Place": f"{instruction.offset:04x}",
        "Source": str(instruction),
        "Executed": pattern.times,
        "First Byte": pattern.base,
        "Wavefronts": access.wavefronts,
        "Ideal": access.ideal_wavefronts,
        "Excess": access.excess_wavefronts,
        "Active Lanes": access.active_mask.bit_count(),
    }
