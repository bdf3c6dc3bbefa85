"""Scheduler statistics and occupancy, counted by hand and for random kernels."""

from __future__ import annotations

import numpy as np
import pytest
from engine.probes import builder, emit, kernels, machine, machines, run
from hypothesis import HealthCheck, given, settings

import gpuemu
from gpuemu.views.json_result import as_data
from gpuemu.views.text import report


def test_one_warp_is_alone_on_its_scheduler_and_idle_schedulers_do_not_count():
    result = run(["FFMA R1, R0, R0, R0 | S9", "EXIT | S1"])
    counts = result.scheduler
    assert result.cycles == 10
    assert (counts.cycles, counts.active_warps, counts.eligible_warps, counts.issued) == (10, 10, 2, 2)
    assert counts.per_cycle(counts.active_warps) == 1.0


def test_two_warps_that_can_both_issue_are_eligible_in_every_cycle():
    """Eight warps on four schedulers, ten instructions of which each takes a cycle: one of the two always waits."""
    result = run(["FFMA R1, R0, R0, R0 | S1"] * 9 + ["EXIT | S1"], warps=8)
    counts = result.scheduler
    waited = result.stalls["not_selected"]
    assert counts.issued == 80
    assert counts.eligible_warps == 80 + waited
    assert waited > 0
    assert counts.per_cycle(counts.issued) == 80 / counts.cycles > 0.9


def test_occupancy_is_what_fits_and_what_was_there():
    trace = builder(4, grid=(3, 1, 1))
    for _ in range(10):
        emit(trace, "FFMA R1, R0, R0, R0 | S4")
    emit(trace, "EXIT | S1")
    result = gpuemu.run(trace.build(), machine(sm__max_ctas=1))
    occupancy = result.occupancy
    assert (occupancy.max_warps, occupancy.theoretical_warps) == (64, 4)
    assert occupancy.theoretical == 4 / 64
    assert occupancy.active_warps == sum(w.end_cycle - w.start_cycle for w in result.warps)
    # Between two CTAs there is nobody for as long as a launch takes.
    launches = 2 * machine().sm.cta_launch_cycles
    assert occupancy.cycles == result.cycles - launches
    assert occupancy.achieved_warps == pytest.approx(4.0)


@pytest.mark.slow
@settings(
    max_examples=40, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(kernels(), machines())
def test_the_numbers_of_random_kernels_are_those_counted_cycle_by_cycle(trace, arch):
    result = gpuemu.run(trace, arch)
    log, counts, occupancy = result.log, result.scheduler, result.occupancy
    there = np.zeros((arch.sm.sub_cores, result.cycles), dtype=np.int64)
    for warp in result.warps:
        there[warp.sub_core, warp.start_cycle : warp.end_cycle] += 1
    assert counts.cycles == np.count_nonzero(there)
    assert counts.active_warps == there.sum() == sum(result.stalls.values()) == occupancy.active_warps
    assert occupancy.cycles == np.count_nonzero(there.any(axis=0))
    assert counts.issued == len(log.issue)
    assert counts.issued <= counts.eligible_warps <= counts.active_warps
    assert occupancy.achieved <= 1


def test_the_report_and_the_data_have_them():
    result = gpuemu.run("v2_shared_memory", "sm_89")
    lines = [" ".join(line.split()) for _, line in report(result, 100, everything=True)]
    told = "Theoretical Occupancy 50.0% (24 of 48 warps, limited by blocks per SM). Achieved Occupancy 2.1%."
    assert told in lines
    lived = result.warps[0].end_cycle - result.warps[0].start_cycle
    assert result.cycles > lived > 500  # the launch comes before it
    assert f"Issued Warp Per Scheduler {37 / lived:.2f}" in lines
    assert f"No Eligible {1 - 37 / lived:.1%}" in lines
    data = as_data(result)
    assert data["occupancy"] == {"max_warps": 48, "theoretical_warps": 24, "cycles": lived, "active_warps": lived}
    assert data["scheduler"] == {"cycles": lived, "active_warps": lived, "eligible_warps": 37, "issued": 37}
