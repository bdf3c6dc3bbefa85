"""S2R of SR_TID and SR_LANEID: through the load/store unit, with the data stage to itself, at a load's cost.

The figures are those of an H200: warp 0 loads, another warp reads its SR_TID some cycles before or behind.
"""

from __future__ import annotations

import pytest
from probes import builder, emit, issues, machine
from stage import DataStage

import gpuemu

READ, WRITE = False, True
COUNTER = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"


def stage(**overrides) -> DataStage:
    return DataStage(machine(**overrides))


@pytest.mark.parametrize(
    ("behind", "starts", "lost"), [(0, 11, 1), (1, 11, 1), (2, 13, 1), (4, 15, 1), (5, 15, 1), (6, 17, 0), (7, 17, 0)]
)
def test_it_costs_a_load_of_another_sub_core_the_wavefront_in_its_second_cycle(behind, starts, lost):
    """A load of 4 wavefronts at 10, 12, 14, 16: it begins between two of them, and the second of these is lost."""
    data_stage = stage()
    assert data_stage.serve(0, 10, 4, READ, load=True) == 10
    assert data_stage.serve_lane_register(1, 10 + behind) == starts
    assert data_stage.lost == lost


@pytest.mark.parametrize(("arrival", "starts", "lost"), [(10, 13, 1), (11, 13, 1), (12, 12, 0)])
def test_a_load_that_comes_with_it_or_in_its_second_cycle_is_sent_in_vain(arrival, starts, lost):
    """The arbiter keeps it out of the first cycle (10), not of the second (11)."""
    data_stage = stage()
    assert data_stage.serve_lane_register(1, 10) == 10
    assert data_stage.serve(0, arrival, 1, READ, load=True) == starts
    assert data_stage.lost == lost


def test_each_of_several_in_a_row_keeps_the_stage_to_itself():
    """H200: four warps with an S2R and an LDS behind it lose two or three wavefronts, not one."""
    data_stage = stage()
    assert [data_stage.serve_lane_register(warp, 10) for warp in (1, 2)] == [10, 12]
    assert data_stage.serve(0, 11, 1, READ, load=True) == 15
    assert data_stage.lost == 2


@pytest.mark.parametrize(("loads", "waits"), [(4, 0), (5, 18), (6, 82)])
def test_it_waits_for_a_place_in_the_window_as_a_load_does(loads, waits):
    """H200: behind four loads of 32 wavefronts of another warp at once, behind each further one 64 cycles later."""
    trace = builder(2)
    with trace.only(warps=0):
        for _ in range(loads):
            emit(trace, "LDS R4, [R0] | W0 S2", "128*lane")
    with trace.only(warps=1):
        for _ in range(5):
            emit(trace, "NOP | S10")
        emit(trace, "S2R R4, SR_TID.X | W0 S2")
        emit(trace, "NOP | B0 S2")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    assert issues(result, 1)[6] - issues(result, 1)[5] == 23 + waits


def test_those_that_wait_take_the_places_of_the_pool():
    """H200: the eighteenth of each of four warps waits for its place in the queue, then one leaves every 8 cycles."""
    result = gpuemu.run(lane_register_kernel(4, 22, stall=2).build(), machine())
    assert [issues(result, 0)[n] for n in range(15, 21)] == [30, 32, 37, 45, 53, 61]


def test_only_wavefronts_of_loads_are_counted_as_lost():
    data_stage = stage()
    data_stage.serve(0, 10, 4, WRITE)
    data_stage.serve_lane_register(1, 11)
    data_stage.serve(2, 12, 1, READ)
    assert data_stage.lost == 0


def test_what_follows_a_load_that_lost_a_wavefront_comes_later():
    data_stage = stage()
    data_stage.serve(0, 10, 4, READ, load=True)
    data_stage.serve_lane_register(1, 11)
    data_stage.serve(2, 13, 8, READ, load=True)
    assert data_stage.serve(3, 13, 1, READ, load=True) == 20


def lane_register_kernel(warps: int, count: int, register: str = "SR_TID.X", stall: int = 1):
    trace = builder(warps)
    for i in range(count):
        emit(trace, f"S2R R{2 * i}, {register} | W0 S{stall}")
    emit(trace, "NOP | B0 S1")
    emit(trace, "EXIT | S1")
    return trace


@pytest.mark.parametrize(("warps", "count", "last"), [(1, 1, 23), (1, 4, 29), (2, 4, 37), (4, 4, 53), (4, 8, 85)])
def test_the_sm_reads_one_every_two_cycles(warps, count, last):
    result = gpuemu.run(lane_register_kernel(warps, count).build(), machine())
    assert max(issues(result, w)[count] for w in range(warps)) == last


def test_one_that_is_the_same_in_all_lanes_comes_from_elsewhere():
    result = gpuemu.run(lane_register_kernel(4, 8, "SR_CTAID.X").build(), machine())
    assert [issues(result, w)[8] for w in range(4)] == [81, 83, 85, 87]  # the address divergence unit, 2 cycles each


def two_warps(distance: int):
    """Warp 0 loads 4 wavefronts; warp 1 reads its SR_TID `distance` cycles later."""
    trace = builder(2)
    with trace.only(warps=0):
        emit(trace, "NOP | S15")
        emit(trace, "LDS R4, [R0] | W0 S1", "16*lane")
    with trace.only(warps=1):
        emit(trace, f"NOP | S{15 + distance}" if distance <= 0 else "NOP | S15")
        if distance > 0:
            emit(trace, f"NOP | S{distance}")
        emit(trace, "S2R R4, SR_TID.X | W0 S1")
    emit(trace, "EXIT | B0 S1")
    return trace


@pytest.mark.parametrize(("distance", "lost"), [(-3, 0), (-1, 0), (0, 1), (1, 1), (6, 1), (7, 0), (8, 0)])
def test_the_profiler_counts_the_lost_wavefront_apart_from_the_access_pattern(distance, lost):
    result = gpuemu.run(two_warps(distance).build(), machine())
    assert result.counters[COUNTER] == 4 + lost
    assert result.counters["sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"] == 4
    assert result.counters["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"] == 3


def test_a_warp_loses_nothing_by_its_own():
    trace = builder(1)
    for _ in range(4):
        emit(trace, "LDS.128 R4, [R0] | W0 S1", "16*lane")
        emit(trace, "S2R R8, SR_TID.X | W1 S1")
    emit(trace, "EXIT | B01 S1")
    arch = machine()
    assert gpuemu.run(trace.build(), arch).log.lost.sum() == 0


def test_its_result_does_not_wait_for_a_global_load_before_it():
    trace = builder(1)
    emit(trace, "LDG.E R4, [R2.64] | W0 S1", "4*lane")
    emit(trace, "S2R R8, SR_TID.X | W1 S2")
    emit(trace, "NOP | B1 S1")
    emit(trace, "EXIT | B0 S1")
    result = gpuemu.run(trace.build(), machine())
    assert issues(result, 0)[2] < 40
