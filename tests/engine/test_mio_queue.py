"""The queue in front of the load/store unit: how much it holds, how fast it drains, who waits."""

from __future__ import annotations

import pytest
from probes import builder, emit, gaps, issues, machine, run

import gpuemu


def loads(sub_cores: int, name: str, count: int = 14) -> list[list[int]]:
    """Issue cycles of independent loads with stall count 1, one warp on each of so many sub-cores."""
    trace = builder(sub_cores, arch=name)
    for _ in range(count):
        emit(trace, "LDS R4, [R0] | S1")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(name))
    return [issues(result, warp)[:count] for warp in range(sub_cores)]


# HUERTA, table 1, with the first load in cycle 2: the cycle of the sixth on each sub-core, and from then on
# the cycles from one load to the next.
@pytest.mark.parametrize(
    ("sixth", "step"),
    [([13], 4), ([13, 15], 4), ([13, 15, 17], 6), ([13, 15, 17, 19], 8)],
    ids=["1 sub-core", "2 sub-cores", "3 sub-cores", "4 sub-cores"],
)
def test_on_sm_89_loads_leave_as_published_however_many_sub_cores_compete(sixth, step):
    for cycles, sixth_of_this in zip(loads(len(sixth), "sm_89"), sixth, strict=True):
        assert cycles[:5] == [0, 1, 2, 3, 4]
        assert cycles[5] + 2 == sixth_of_this
        assert set(gaps(cycles[5:])) == {step}


@pytest.mark.parametrize("entries", [1, 2, 5, 8])
def test_the_load_after_a_full_queue_issues_when_the_oldest_is_dispatched_and_not_a_cycle_earlier(entries):
    result = run(["LDS R4, [R0] | S1"] * (entries + 3) + ["EXIT | S5"], machine(mio__queue_entries=entries))
    cycles, dispatches = issues(result), result.execution.warps[0].dispatch_log
    assert cycles[:entries] == list(range(entries))
    assert cycles[entries : entries + 3] == list(dispatches[:3])
    assert dispatches[0] == machine().mio.queue_latency_cycles


def test_a_full_queue_holds_back_memory_instructions_alone():
    trace = builder(5)
    with trace.only(warps=4):
        for _ in range(9):
            emit(trace, "LDS R4, [R0] | S1")
    with trace.only(warps=0):
        for stall in (1, 1, 15):
            emit(trace, f"FFMA R1, R0, R0, R0 | S{stall}")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    assert issues(result, 4)[:9] == [0, 1, 2, 3, 4, 5, 6, 7, 11]
    assert issues(result, 0)[:3] == [8, 9, 10]  # while the younger warp waits for the queue
    assert result.warps[4].stalls["mio_throttle"] == 3


@pytest.mark.parametrize(("op", "interval"), [("STS", 4), ("STS.64", 6), ("STS.128", 10)])
def test_a_sub_core_sends_a_register_every_second_cycle(op, interval):
    """H200: stores of 32, 64, 128 bits from one warp leave every 4, 6, 10 cycles."""
    result = run([f"{op} [R0], R4 | S1"] * 30 + ["EXIT | S5"], lanes="16*lane")
    assert set(gaps(result.execution.warps[0].dispatch_log)) == {interval}
    assert set(gaps(issues(result)[8:30])) == {interval}


def test_the_minimum_interval_holds_where_sending_is_faster():
    result = run(["LDS R4, [R0] | S1"] * 4 + ["EXIT | S5"], machine(mio__minimum_dispatch_interval_cycles=7))
    assert list(result.execution.warps[0].dispatch_log) == [11, 18, 25, 32]


def test_the_sm_takes_one_request_per_interval_and_the_sub_cores_take_turns():
    arch = machine(mio__request_interval_cycles=3)
    result = run(["LDS R4, [R0] | S1"] * 2 + ["EXIT | S5"], arch, warps=4)
    dispatches = [list(result.execution.warps[warp].dispatch_log) for warp in range(4)]
    assert dispatches == [[11, 23], [14, 26], [17, 29], [20, 32]]


def test_a_request_waits_for_an_entry_of_the_pool_until_a_data_stage_is_done():
    """Two entries, held for the 64 cycles of a 32-way conflict each, on sub-cores of their own."""
    arch = machine(mio__pool_entries=2)
    result = run(["LDS R4, [R0] | S1", "EXIT | S5"], arch, warps=3, lanes="128*lane")
    dispatches = [result.execution.warps[warp].dispatch_log[0] for warp in range(3)]
    assert dispatches == [11, 12, 11 + 64]


def test_a_request_behind_another_of_its_sub_core_does_not_keep_other_sub_cores_waiting():
    trace = builder(2)
    with trace.only(warps=0):
        emit(trace, "STS.128 [R0], R4 | S1", "16*lane")
        emit(trace, "STS.128 [R0], R4 | S1", "16*lane")
    with trace.only(warps=1):
        emit(trace, "IADD3 R9, R9, R9, RZ | S3")
        emit(trace, "LDS R4, [R0] | S1")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    assert list(result.execution.warps[0].dispatch_log) == [11, 21]
    assert list(result.execution.warps[1].dispatch_log) == [14]
