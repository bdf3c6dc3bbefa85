"""The sub-cores: what a branch costs, where warps live, and that work is done by event and not by cycle."""

from __future__ import annotations

import pytest
from probes import builder, emit, gaps, issues, machine, run

import gpuemu
from gpuemu.engine.allocate import allocate
from gpuemu.engine.records import NEVER
from gpuemu.engine.units.cycle import act
from gpuemu.program.lowering import lower

NEXT = "FFMA R1, R0, R0, R0"


def test_warp_w_lives_on_sub_core_w_mod_4():
    result = run(["EXIT"], warps=10)
    assert [w.sub_core for w in result.warps] == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert [w.sub_core for w in run(["EXIT"], machine(sm__sub_cores=3), warps=5).warps] == [0, 1, 2, 0, 1]


def test_a_sub_core_issues_one_instruction_a_cycle_and_four_issue_four():
    result = run([NEXT] * 20 + ["EXIT"], machine(operations__ffma__latency_cycles=1), warps=8)
    cycles = [c for w in range(8) for c in issues(result, w)[:-1]]
    assert max(cycles.count(c) for c in cycles) == 4
    assert max(cycles) <= 2 * 20 + 2


@pytest.mark.parametrize("cost", [10, 30])
def test_a_taken_branch_costs_its_cycles_and_one_that_is_not_taken_its_stall_count(cost):
    trace = builder()
    with trace.repeat(3):
        emit(trace, f"{NEXT} | S2")
        emit(trace, "@P0 BRA 0x0 | S5")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(issue__taken_branch_cycles=cost))
    assert gaps(issues(result)) == [2, cost, 2, cost, 2, 5]
    assert result.warps[0].stalls["branch_resolving"] == 2 * (cost - 5)


@pytest.mark.parametrize(("stall", "cost", "takes"), [(5, 13, 13), (5, 30, 30), (15, 13, 15)])
def test_where_paths_come_together_the_next_instruction_waits_as_behind_a_branch(stall, cost, takes):
    """H200: 13 cycles behind BSYNC, whether the warp falls into it or branches there."""
    lines = ["BSSY B0, 0x30 | S4", f"{NEXT} | S2", f"BSYNC B0 | S{stall}", f"{NEXT} | S2", "EXIT | S5"]
    assert gaps(issues(run(lines, machine(issue__convergence_cycles=cost)))) == [4, 2, takes, 2]


@pytest.mark.parametrize(("slot", "late"), [(0, 0), (4, 0), (5, 0), (6, 1), (7, 2), (8, 0), (14, 1), (15, 2)])
def test_the_line_behind_the_one_of_a_branch_target_comes_three_cycles_later(slot, late):
    """H200: a loop that begins in the last or the last but one of the eight instructions of a line is slower."""
    trace = builder()
    for _ in range(slot):
        emit(trace, "NOP | S1")
    with trace.repeat(3):
        for _ in range(4):
            emit(trace, "NOP | S1")
        emit(trace, f"@P0 BRA {16 * slot:#x} | S5")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    assert gaps(issues(result)[slot::5]) == [14, 14 + late, 4 + late + 5]
    assert result.warps[0].stalls["no_instruction"] == 2 * late


def test_a_line_that_has_been_waited_for_long_enough_costs_nothing():
    trace = builder()
    for _ in range(7):
        emit(trace, "NOP | S1")
    with trace.repeat(3):
        emit(trace, "NOP | S3")
        emit(trace, "@P0 BRA 0x70 | S5")
    emit(trace, "EXIT | S5")
    assert gaps(issues(gpuemu.run(trace.build(), machine()))[7::2]) == [13, 13, 8]


def test_a_branch_forward_over_code_is_taken_as_well():
    """H200: 10 cycles."""
    trace = builder(2)
    emit(trace, "@P0 BRA 0x20 | S5")
    with trace.only(warps=1):
        emit(trace, f"{NEXT} | S1")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    assert [issues(result, warp) for warp in (0, 1)] == [[0, 10], [0, 5, 6]]


def test_a_stall_count_longer_than_a_branch_holds():
    trace = builder()
    with trace.repeat(2):
        emit(trace, "@P0 BRA 0x0 | S15")
    emit(trace, "EXIT | S5")
    assert issues(gpuemu.run(trace.build(), machine())) == [0, 15, 30]


def test_a_branch_holds_although_what_the_target_waits_for_is_decided_later_and_earlier_over():
    """H200: the sources of the load are read 8 cycles after it, 3 before the branch is through."""
    trace = builder()
    with trace.repeat(2):
        emit(trace, "IADD3 R0, R0, R0, RZ | B0 S1")
        emit(trace, "LDS R4, [R0] | R0 S1")
        emit(trace, "@P0 BRA 0x0 | S1")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    assert issues(result)[:4] == [0, 1, 2, 2 + 10]
    assert result.warps[0].stalls["branch_resolving"] == 9


def test_a_warp_counts_as_not_selected_from_when_it_can_go_until_it_does():
    """Two warps of a sub-core; the older's first three come while the younger goes on."""
    trace = builder(5)
    with trace.only(warps=[0, 4]):
        for _ in range(3):
            emit(trace, f"{NEXT} | S1")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    assert issues(result, 4) == [0, 1, 2, 3]
    assert [result.warps[warp].stalls["not_selected"] for warp in (0, 4)] == [4, 0]


def test_behind_a_barrier_it_counts_from_the_opening():
    """Two warps can go at 16; the older waits for the younger's two, as it did for its first."""
    trace = builder(5)
    with trace.only(warps=[0, 4]):
        emit(trace, "BAR.SYNC 0x1, 0x40 | S6")
        emit(trace, "NOP | S1")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    assert [issues(result, warp) for warp in (0, 4)] == [[1, 18, 19], [0, 16, 17]]
    stalls = [result.warps[warp].stalls for warp in (0, 4)]
    assert [one["barrier"] for one in stalls] == [16 - 6 - 1, 16 - 6]
    assert [one["not_selected"] for one in stalls] == [1 + 2, 0]


def test_a_sub_core_without_warps_is_never_woken():
    trace = builder(2)
    for line in ["LDS R4, [R0] | W0 S2", f"{NEXT} | B0 S4"] * 20 + ["EXIT | S5"]:
        emit(trace, line)
    state = allocate(lower(trace.build(), machine()), machine(), compiled=False)
    woken = set()
    while (now := min(state.wish)) < NEVER:
        for phase in range(len(state.wish)):
            if state.wish[phase] == now:
                woken.add(phase)
                act(state, phase, now)
    first = state.phase[0].sub_core
    assert woken & {*range(first, first + 4)} == {first, first + 1}
