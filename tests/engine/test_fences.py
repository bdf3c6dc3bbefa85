"""The opening of a barrier as a fence at the data stage: what waits for what, and from when on it goes on."""

from __future__ import annotations

import pytest
from probes import builder, emit, issues, machine, starts
from stage import DataStage

import gpuemu

READ, WRITE = False, True
EVEN, ODD = 1, 2
"""The ways of sub-cores 0 and 2, and of 1 and 3."""


def stage(**overrides) -> DataStage:
    return DataStage(machine(**overrides))


def behind_five_wavefronts(data_stage: DataStage, fence: int, ways: int, there: int, load: bool = False) -> int:
    """When a request begins that comes from sub-core 1; one of sub-core 0 passes at 10, 12, 14, 16, 18."""
    data_stage.comes(0, 10, 5, READ)
    data_stage.fence(fence, ways)
    return data_stage.serve(1, there, 1, not load, load)


def test_what_comes_with_a_fence_or_behind_it_begins_4_cycles_behind_the_last_wavefront_before_it():
    assert behind_five_wavefronts(stage(), 14, EVEN, 13) == 13
    assert behind_five_wavefronts(stage(), 14, EVEN, 14) == 18 + 4
    assert behind_five_wavefronts(stage(), 14, EVEN, 21) == 18 + 4
    assert behind_five_wavefronts(stage(), 14, EVEN, 23) == 23


@pytest.mark.parametrize(("value", "begins"), [(2, 20), (5, 23), (9, 27), (0, 15)])
def test_how_far_behind_is_a_value(value, begins):
    assert behind_five_wavefronts(stage(barrier__drain_cycles=value), 14, EVEN, 15) == begins


def test_a_fence_that_finds_the_slot_free_holds_nothing_but_a_load_that_comes_with_it():
    """H200: LDS takes 24 cycles instead of 23 in the cycle in which the barrier opens, STS as ever."""
    assert behind_five_wavefronts(stage(), 20, EVEN, 20) == 22
    assert behind_five_wavefronts(stage(), 21, EVEN, 21) == 21
    assert behind_five_wavefronts(stage(), 21, EVEN, 21, load=True) == 21 + 1
    assert behind_five_wavefronts(stage(), 21, EVEN, 22, load=True) == 22
    assert behind_five_wavefronts(stage(barrier__load_delay_cycles=7), 21, EVEN, 21, load=True) == 21 + 7


def test_it_waits_for_what_came_on_its_own_ways_alone():
    assert behind_five_wavefronts(stage(), 14, ODD, 15) == 15
    assert behind_five_wavefronts(stage(), 14, EVEN | ODD, 15) == 22


def test_how_many_ways_there_are_is_a_value():
    data_stage = stage(barrier__fence_ways=4)
    data_stage.comes(0, 10, 5, READ)
    data_stage.fence(14, 1 << 2)
    assert data_stage.serve(2, 15, 1, WRITE) == 15


def test_it_holds_what_comes_behind_it_on_any_way():
    data_stage = stage()
    data_stage.comes(0, 10, 5, READ)
    data_stage.fence(14, EVEN)
    held = [data_stage.comes(slot, 15 + slot, 1, READ) for slot in (1, 2, 3)]
    assert [data_stage.begins(f) for f in held] == [22, 23, 24]


def test_what_waits_in_the_window_goes_before_what_is_behind_the_fence():
    """Two pass, the third waits for a slot until 20; the fence comes at 12."""
    data_stage = stage()
    requests = [data_stage.comes(slot, 10, 5, READ) for slot in (0, 4, 8)]
    data_stage.fence(12, EVEN)
    requests.append(data_stage.comes(1, 13, 1, READ))
    assert [data_stage.begins(f) for f in requests] == [10, 11, 20, 28 + 4]


def test_one_on_the_other_way_that_came_before_goes_on_waiting_for_a_slot_and_not_for_the_fence():
    data_stage = stage()
    requests = [data_stage.comes(slot, 10, cycles, READ) for slot, cycles in ((0, 5), (4, 9), (1, 2))]
    data_stage.fence(12, EVEN)
    requests.append(data_stage.comes(2, 13, 1, READ))
    assert [data_stage.begins(f) for f in requests] == [10, 11, 20, 27 + 4]


def test_there_is_no_fence_if_nothing_came_since_the_last():
    data_stage = stage()
    data_stage.comes(0, 10, 5, READ)
    data_stage.fence(12, ODD)
    data_stage.fence(13, EVEN)
    assert data_stage.serve(1, 15, 1, READ) == 15


def test_each_of_several_fences_holds_what_is_behind_it():
    data_stage = stage()
    requests = [data_stage.comes(0, 10, 2, READ)]
    for slot in (1, 2, 3):
        data_stage.fence(10 + slot, EVEN | ODD)
        requests.append(data_stage.comes(slot, 10 + slot, 2, READ))
    assert [data_stage.begins(f) for f in requests] == [10, 16, 22, 28]


@pytest.mark.parametrize(
    ("fence", "cta", "third", "fourth"), [(12, 0, 21, 22), (20, 0, 21, 22), (21, 0, 20, 23), (12, 1, 20, 21)]
)
def test_the_first_of_its_cta_to_find_a_slot_once_it_has_come_loses_a_turn(fence, cta, third, fourth):
    """Two pass until 20 and 21; the third finds the first one's slot and goes through the other, the fourth has none."""
    data_stage = stage()
    requests = [data_stage.comes(slot, 10, 5, READ) for slot in (0, 4, 8, 12)]
    data_stage.fence(fence, EVEN, cta)
    data_stage.comes(1, 21, 1, READ)
    assert [data_stage.begins(f) for f in requests] == [10, 11, third, fourth]


def test_it_loses_the_two_cycles_of_a_turn_where_the_other_slot_is_taken():
    data_stage = stage()
    requests = [data_stage.comes(slot, 10, cycles, READ) for slot, cycles in ((0, 5), (4, 9), (8, 5))]
    data_stage.fence(12, EVEN, cta=0)
    assert [data_stage.begins(f) for f in requests] == [10, 11, 22]


def behind_a_barrier(line: str, stall: int, **overrides) -> tuple[int, int]:
    """When the barrier of a lone warp that has stored opens, and when a load behind it begins to pass."""
    trace = builder()
    for each in ("STS [R0], R4 | S15", f"BAR.SYNC 0x0 | S{stall}", f"{line} | W0 S2", "EXIT | B0 S5"):
        emit(trace, each)
    result = gpuemu.run(trace.build(), machine(**overrides))
    return issues(result)[1] + 14, starts(result)[-1]


@pytest.mark.parametrize(("stall", "later"), [(6, 7 + 1), (14, 7 + 1), (15, 8)])
def test_it_comes_with_what_is_issued_in_the_cycle_of_the_opening(stall, later):
    opens, begins = behind_a_barrier("LDS R4, [R0]", stall)
    assert begins - opens == later


@pytest.mark.parametrize(("ways", "cycles"), [(1, 149), (2, 93), (4, 86)])
def test_ctas_of_one_warp_wait_for_those_on_their_way(ways, cycles):
    """Eight CTAs with a load and a store of 4 wavefronts between barriers, 64 wavefronts a round."""
    trace = builder(1, grid=(8, 1, 1), static_shared_bytes=1024)
    with trace.repeat(30):
        for line in ("BAR.SYNC 0x0 | S6", "LDS R4, [R0] | W0 S2", "IADD3 R1, R4, R4, RZ | B0 S6", "BAR.SYNC 0x0 | S6"):
            emit(trace, line, lanes="16*lane")
        emit(trace, "STS [R0], R1 | R0 S6", lanes="16*lane")
        emit(trace, "NOP | B0 S10")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(barrier__fence_ways=ways))
    assert (issues(result, 0)[6 * 28] - issues(result, 0)[6 * 10]) / 18 == cycles
