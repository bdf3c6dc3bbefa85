"""The figures of a run under the profiler's names, for the whole grid as in the profiler.

gpuemu times the CTAs of one SM. Counts are scaled from the timed CTAs to the grid. Cycles are those of the SM with the
most CTAs, times its rounds. Elapsed cycles and DRAM traffic are those of the whole launch (`GridCounts`).
"""

from __future__ import annotations

from gpuemu.views.grid import GridCounts
from gpuemu.views.result import Result
from gpuemu.views.source import COLUMNS, SourceRow, instructions

CYCLES = "sm__cycles_active.max"
LABELS = {
    "Executed Instructions": "smsp__inst_executed.sum",
    "SM Active Cycles": "sm__cycles_active.avg",
    "Registers Per Thread": "launch__registers_per_thread",
    "Static Shared Memory Per Block": "launch__shared_mem_per_block_static",
    "Dynamic Shared Memory Per Block": "launch__shared_mem_per_block_dynamic",
    "Grid Size": "launch__grid_size",
    "Block Size": "launch__block_size",
    "Threads": "launch__thread_count",
    "Block Limit SM": "launch__occupancy_limit_blocks",
    "Block Limit Registers": "launch__occupancy_limit_registers",
    "Block Limit Warps": "launch__occupancy_limit_warps",
    "Theoretical Active Warps per SM": "sm__maximum_warps_avg_per_active_cycle",
    "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
    "Achieved Active Warps Per SM": "sm__warps_active.avg.per_cycle_active",
    "Achieved Occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "Executed Ipc Active": "sm__inst_executed.avg.per_cycle_active",
    "Active Warps Per Scheduler": "smsp__warps_active.avg.per_cycle_active",
    "Eligible Warps Per Scheduler": "smsp__warps_eligible.avg.per_cycle_active",
    "Issued Warp Per Scheduler": "smsp__issue_active.avg.per_cycle_active",
    "Warp Cycles Per Issued Instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
}
"""The metrics of the details page."""

_LIMITS = {"blocks": "CTAs", "registers": "registers", "warps": "warps"}
"""The profiler's limits of occupancy and gpuemu's. The one of shared memory follows the driver's split with L1."""

_OF_AN_SM = ("l1tex__", "sm__")
"""Units of which an SM has one. The profiler averages their counters over the SMs."""

SOURCE_COLUMNS = {
    field: COLUMNS[field]
    for field in (
        "executed", "thread_executed", "wavefronts", "ideal_wavefronts", "excess_wavefronts",
        "sectors", "ideal_sectors", "excess_sectors",
    )
}  # fmt: skip
"""The columns of the source page that are counts."""


def scale(grid: GridCounts) -> float:
    """The number of CTAs in the grid per timed CTA."""
    return grid.ctas / grid.timed_ctas


def emulated(result: Result) -> dict[str, float]:
    """Every figure of a run that the profiler may have, by its name."""
    grid, launch = result.grid, result.trace.launch
    factor = scale(grid)
    found: dict[str, float] = {name: count * factor for name, count in result.counters.items() if name != CYCLES}
    found |= {f"{name[:-4]}.avg": n / grid.sms for name, n in found.items() if name.startswith(_OF_AN_SM)}
    cycles = result.cycles * max(1, -(-grid.most_ctas // grid.timed_ctas))
    instructions_issued = len(result.program.path)
    found |= {} if grid.whole is None else grid.whole.counters
    found |= {
        CYCLES: cycles,
        "smsp__cycles_active.max": cycles,
        "sm__cycles_active.avg": cycles * grid.ctas / (grid.sms * grid.most_ctas),
        "sm__inst_executed.sum": instructions_issued * factor,
        "sm__inst_executed.avg.per_cycle_active": instructions_issued / result.cycles,
        "launch__registers_per_thread": launch.registers_per_thread,
        "launch__shared_mem_per_block_static": launch.static_shared_bytes,
        "launch__shared_mem_per_block_dynamic": launch.dynamic_shared_bytes,
        "launch__grid_size": launch.ctas,
        "launch__block_size": launch.threads_per_cta,
        "launch__thread_count": launch.ctas * launch.threads_per_cta,
    }
    limits = result.program.residency_limits
    found |= {f"launch__occupancy_limit_{name}": limits[ours] for name, ours in _LIMITS.items() if ours in limits}
    occupancy, scheduler = result.occupancy, result.scheduler
    found |= {
        "sm__maximum_warps_avg_per_active_cycle": occupancy.theoretical_warps,
        "sm__maximum_warps_per_active_cycle_pct": 100 * occupancy.theoretical,
        "sm__warps_active.avg.per_cycle_active": occupancy.achieved_warps,
        "sm__warps_active.avg.pct_of_peak_sustained_active": 100 * occupancy.achieved,
        "smsp__warps_active.avg.per_cycle_active": scheduler.per_cycle(scheduler.active_warps),
        "smsp__warps_eligible.avg.per_cycle_active": scheduler.per_cycle(scheduler.eligible_warps),
        "smsp__issue_active.avg.per_cycle_active": scheduler.per_cycle(scheduler.issued),
    }
    if instructions_issued:
        whole = sum(result.stalls.values())
        found["smsp__average_warp_latency_per_inst_issued.ratio"] = whole / instructions_issued
        for reason, waited in result.stalls.items():
            name = f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
            found[name] = waited / instructions_issued
    return found


def emulated_rows(result: Result) -> list[SourceRow]:
    """The rows of the source page, for the timed CTAs."""
    return instructions(result.program, result.log)
