"""The queue in front of the load/store unit: how much it holds, how fast it drains, who waits."""

from __future__ import annotations

import pytest
from probes import builder, completions, dispatches, emit, gaps, issues, machine, run, starts

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


@pytest.mark.parametrize("entries", [1, 2, 5, 6])
def test_the_load_after_a_full_queue_issues_when_the_oldest_is_dispatched_and_not_a_cycle_earlier(entries):
    result = run(["LDS R4, [R0] | S1"] * (entries + 3) + ["EXIT | S5"], machine(mio__queue_entries=entries))
    cycles, left = issues(result), dispatches(result)
    assert cycles[:entries] == list(range(entries))
    assert cycles[entries : entries + 3] == left[:3]
    assert left[0] == machine().mio.queue_latency_cycles


def test_a_full_queue_holds_back_memory_instructions_alone():
    """H200: nine entries, the first falls free 7 cycles after its issue, the next 10 later (five registers each)."""
    trace = builder(5)
    with trace.only(warps=4):
        for _ in range(11):
            emit(trace, "STS.128 [R0], R4 | S1", "16*lane")
    with trace.only(warps=0):
        for stall in (1, 1, 15):
            emit(trace, f"FFMA R1, RZ, RZ, RZ | S{stall}")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(issue__policy="greedy_then_youngest"))
    assert issues(result, 4)[:11] == [*range(10), 17]
    assert issues(result, 0)[:3] == [10, 11, 12]  # while the younger warp waits for the queue
    assert result.warps[4].stalls["mio_throttle"] == 7


@pytest.mark.parametrize(
    ("op", "lanes", "interval"), [("STS", "4*lane", 4), ("STS.64", "8*lane", 6), ("STS.128", "16*lane", 10)]
)
def test_a_sub_core_sends_a_register_every_second_cycle(op, lanes, interval):
    """H200: stores of 32, 64, 128 bits from one warp leave every 4, 6, 10 cycles."""
    result = run([f"{op} [R0], R4 | S1"] * 30 + ["EXIT | S5"], lanes=lanes)
    assert set(gaps(dispatches(result, 0))) == {interval}
    assert set(gaps(issues(result)[12:30])) == {interval}


@pytest.mark.parametrize(("op", "lanes"), [("STS", "4*lane"), ("STS.64", "8*lane"), ("STS.128", "16*lane")])
def test_nine_wait_behind_the_one_that_is_sent_and_the_tenth_is_held_back(op, lanes):
    """H200: the entry of each falls free when it is dispatched, 7 cycles after the first issue and then one by one."""
    result = run([f"{op} [R0], R4 | S1"] * 30 + ["EXIT | S5"], lanes=lanes)
    cycles, left = issues(result), dispatches(result)
    assert left[0] == 7
    assert cycles[:10] == list(range(10))
    assert cycles[10:30] == left[1:21]


@pytest.mark.parametrize("later", [1, 2, 3, 4, 6, 12])
def test_a_store_behind_a_load_is_dispatched_behind_it_however_late_it_reads_its_registers(later):
    """The place beyond the queue is free when the load has been dispatched, and no two are in one cycle."""
    lines = ["LDS R4, [R0] | S1", "STS [R0], R4 | S1"] * 4
    result = run([*lines, "EXIT | S5"], machine(mio__data_read_cycles=later, mio__queue_entries=3))
    left = dispatches(result)
    assert len(set(left)) == len(left) == 8
    assert later != 2 or left == [7, 10, 16, 17, 22, 25, 31, 32]


def test_the_minimum_interval_holds_where_sending_is_faster():
    result = run(["LDS R4, [R0] | S1"] * 4 + ["EXIT | S5"], machine(mio__minimum_dispatch_interval_cycles=7))
    assert dispatches(result, 0) == [7, 14, 21, 28]


def test_the_sm_takes_one_request_per_interval_and_the_sub_cores_take_turns():
    arch = machine(mio__request_interval_cycles=3)
    result = run(["LDS R4, [R0] | S1"] * 2 + ["EXIT | S5"], arch, warps=4)
    assert [dispatches(result, warp) for warp in range(4)] == [[7, 19], [10, 22], [13, 25], [16, 28]]


def test_a_request_waits_for_an_entry_of_the_pool():
    """One entry, held for 5 cycles behind the moment at which the request comes to the data stage's window."""
    arch = machine(mio__pool_entries=1, mio__pool_release_cycles=5)
    result = run(["LDS R4, [R0] | S1", "EXIT | S5"], arch, warps=3)
    assert [dispatches(result, warp)[0] for warp in range(3)] == [7, 12, 17]


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
    assert dispatches(result, 0) == [7, 17]
    assert dispatches(result, 1) == [10]


@pytest.mark.parametrize(("sub_cores", "in_flight"), [(1, 21), (2, 23), (3, 24), (4, 25)])
def test_so_many_loads_are_behind_the_queues_when_none_is_done(sub_cores, in_flight):
    """H200: loads of 32 wavefronts; each queue holds another nine. What comes then waits for the first to be done."""
    result = run(["LDS R4, [R0] | S2"] * 40 + ["EXIT | S5"], warps=sub_cores, lanes="128*lane")
    logs = [issues(result, warp) for warp in range(sub_cores)]
    assert sum(cycle < 80 for log in logs for cycle in log) == in_flight + 9 * sub_cores
    assert min(cycle for log in logs for cycle in log if cycle >= 80) == 85


@pytest.mark.parametrize(
    ("op", "lanes", "steps"),
    [("STS", "4*lane", [4, 4, 4, 4]), ("STS.64", "8*lane", [6, 6, 7, 8]), ("STS.128", "16*lane", [10, 10, None, 16])],
)
def test_the_sub_cores_share_a_path_for_the_data_of_stores(op, lanes, steps):
    """H200: a register a cycle for all of them; STS.128 of three sub-cores leave 11 and 13 cycles behind each other."""
    for sub_cores, step in enumerate(steps, 1):
        result = run([f"{op} [R0], R4 | S2"] * 30 + ["EXIT | S5"], warps=sub_cores, lanes=lanes)
        for warp in range(sub_cores):
            found = set(gaps(dispatches(result, warp)[15:]))
            assert found == ({step} if step else {11, 13})


@pytest.mark.parametrize(
    ("line", "lanes", "start"),
    [("LDS R4, [R0]", "4*lane", 7), ("LDS.128 R4, [R0]", "16*lane", 7), ("SHFL.IDX R4, R0, 0x0, 0x1f", "0", 8),
     ("SHFL.IDX R4, R0, R1, 0x1f", "0", 10), ("ATOMS.ADD R4, [R0], R2", "4*lane", 10), ("STS [R0], R4", "4*lane", 10),
     ("STS.64 [R0], R4", "8*lane", 12), ("STS.128 [R0], R4", "16*lane", 16)],
)  # fmt: skip
def test_it_reaches_the_data_stage_2_cycles_later_for_each_further_register_and_1_for_data(line, lanes, start):
    """H200: a load comes there 7 cycles after its issue, what has data behind its address one cycle later."""
    result = run([f"{line} | S1", "EXIT | S5"], lanes=lanes)
    assert (dispatches(result)[0], starts(result)[0]) == (7, start)


@pytest.mark.parametrize(
    ("line", "latency"),
    [("SHFL.IDX R4, R0, 0x0, 0x1f", 24), ("SHFL.IDX R4, R0, R1, 0x1f", 26), ("ATOMS.ADD R4, [R0], R2", 26),
     ("LDS R4, [R0]", 23)],
)  # fmt: skip
def test_a_result_comes_after_its_latency(line, latency):
    """H200: a shuffle of one register 24 cycles, of two 26, an atomic of two 26, a load 23."""
    assert issues(run([f"{line} | W0 S2", "FADD R5, R4, R4 | B0 S4", "EXIT | S5"]))[1] == latency


def test_results_of_a_sub_core_come_back_in_order_and_one_a_cycle():
    """H200: behind an LDS.128, whose four groups come back 3 cycles later, an LDS has its data a cycle later yet."""
    trace = builder(2)
    with trace.only(warps=0):
        emit(trace, "LDS.128 R4, [R0] | S1", "16*lane")
        emit(trace, "LDS R8, [R0] | S1")
    with trace.only(warps=1):
        emit(trace, "NOP | S1")
        emit(trace, "LDS R8, [R0] | S1")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    assert completions(result, 0) == [32, 33]
    assert completions(result, 1) == [24]
