"""The data stage: slots of the ports, the paths of the sub-cores, and what they do to whole accesses."""

from __future__ import annotations

from itertools import pairwise

import pytest
from probes import builder, completions, emit, issues, machine, run, starts
from stage import DataStage

import gpuemu
from gpuemu.engine.units.kinds import GLOBAL, SHARED

READ, WRITE = False, True


def stage(**overrides) -> DataStage:
    return DataStage(machine(**overrides))


def test_a_sub_core_alone_drains_a_wavefront_every_two_cycles():
    data_stage = stage()
    assert data_stage.serve(0, 10, 5, READ) == 10
    assert data_stage.serve(0, 10, 1, READ) == 20


def test_two_warps_of_a_sub_core_drain_a_wavefront_every_cycle():
    """H200: 32-way loads of two warps of one sub-core take as long as those of one."""
    trace = builder(5)
    for warp in (0, 4):
        with trace.only(warps=warp):
            for _ in range(4):
                emit(trace, "LDS R4, [R0] | W0 S2", "128*lane")
    emit(trace, "EXIT | B0 S5")
    result = gpuemu.run(trace.build(), machine())
    one, other = (starts(result, w) for w in (0, 4))
    assert [b - a for a, b in pairwise(one)] == [64] * 3
    # The other is younger and comes first; the one has the cycles that it leaves.
    assert [a - b for a, b in zip(one, other, strict=True)] == [3] * 4


def test_two_sub_cores_share_a_port_and_the_third_waits_until_one_is_done():
    data_stage = stage()
    assert data_stage.serve(0, 10, 5, READ) == 10
    assert data_stage.serve(1, 10, 8, READ) == 11
    assert data_stage.serve(2, 11, 1, READ) == 20
    assert data_stage.serve(3, 12, 1, READ) == 22


def test_a_request_after_an_idle_time_starts_when_it_comes():
    data_stage = stage()
    data_stage.serve(0, 10, 5, READ)
    assert data_stage.serve(0, 100, 1, READ) == 100


def test_a_warp_has_a_path_to_global_memory_beside_that_to_shared_memory():
    for first in (SHARED, GLOBAL):
        for second, begins in ((first, 20), (SHARED + GLOBAL - first, 11)):
            data_stage = stage()
            data_stage.comes(0, 10, 5, READ, kind=first)
            assert data_stage.begins(data_stage.comes(0, 10, 1, READ, kind=second)) == begins


def test_unified_ports_are_shared_by_loads_and_stores():
    data_stage = stage()
    data_stage.serve(0, 10, 5, READ)
    data_stage.serve(1, 10, 5, WRITE)
    assert data_stage.serve(2, 10, 1, READ) == 20
    assert data_stage.busy_cycles == [6, 5]


def test_separate_ports_are_not():
    data_stage = stage(shared_memory__ports__topology="separate")
    assert [data_stage.serve(s, 10, 5, READ) for s in (0, 1)] == [10, 11]
    assert [data_stage.serve(s, 10, 5, WRITE) for s in (0, 1)] == [10, 11]
    assert [data_stage.serve(2, 10, 5, kind) for kind in (READ, WRITE)] == [20, 20]


def test_with_separate_ports_a_sub_core_reads_and_writes_at_once():
    data_stage = stage(shared_memory__ports__topology="separate")
    assert [data_stage.serve(0, 10, 5, READ), data_stage.serve(0, 10, 5, WRITE)] == [10, 10]
    assert [stage().serve(0, 10, 5, kind) for kind in (READ, WRITE)] == [10, 10]
    shared = stage()
    assert [shared.serve(0, 10, 5, READ), shared.serve(0, 10, 5, WRITE)] == [10, 20]


@pytest.mark.parametrize(("read", "write"), [(2, 1), (1, 2), (3, 3)])
def test_each_port_serves_two_sub_cores_at_a_time(read, write):
    data_stage = stage(
        sm__sub_cores=8,
        mio__window_entries=99,
        shared_memory__ports__topology="separate",
        shared_memory__ports__read=read,
        shared_memory__ports__write=write,
    )
    for kind, ports in ((READ, read), (WRITE, write)):
        starts = [data_stage.serve(s, 0, 4, kind) for s in range(2 * ports + 1)]
        assert starts == [0] * ports + [1] * ports + [8]


def test_more_unified_ports_serve_more_sub_cores():
    data_stage = stage(shared_memory__ports__unified=2)
    assert [data_stage.serve(s, 0, 4, READ) for s in range(4)] == [0, 0, 1, 1]


@pytest.mark.parametrize("pace", [1, 2, 4])
def test_the_pace_of_a_sub_core_is_a_value_and_a_port_still_passes_one_wavefront_a_cycle(pace):
    data_stage = stage(shared_memory__cycles_per_wavefront_per_warp=pace, sm__sub_cores=8, mio__window_entries=99)
    starts = [data_stage.serve(s, 0, 3, READ) for s in range(pace + 1)]
    assert starts == [*range(pace), 3 * pace]


def bursts(op: str, lanes: str, n: int, at: int) -> int:
    """Cycles to the data of an LDS issued `at` cycles behind the first of n `op` of another sub-core, one every 2."""
    trace = builder(2)
    with trace.only(warps=0):
        for _ in range(n):
            emit(trace, f"{op} | S2", lanes)
    with trace.only(warps=1):
        for wait in [*([10] * (at // 10)), at % 10]:
            emit(trace, f"NOP | S{wait}")
        emit(trace, "LDS R4, [R0] | S2", "4*lane")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    return completions(result, 1)[0] - issues(result, 1)[-2]


@pytest.mark.parametrize(
    ("op", "lanes", "at", "waits"),
    [
        ("LDS R4, [R0]", "64*lane", 34, {2: 24, 5: 24, 6: 56, 7: 88, 8: 120, 14: 312}),
        ("LDS R4, [R0]", "128*lane", 34, {4: 24, 5: 56, 6: 120, 8: 248}),
        ("LDS R4, [R0]", "16*lane", 34, {4: 23, 8: 24, 9: 32, 10: 40, 12: 56}),
        ("STS [R0], R4", "64*lane", 46, {5: 23, 6: 47, 7: 79, 9: 143, 11: 207}),
    ],
)
def test_five_requests_of_one_warp_at_the_data_stage_keep_out_a_load_of_another(op, lanes, at, waits):
    """H200: it waits until the (n-4)th of the n before it has passed; one passes, and four wait in the window."""
    assert {n: bursts(op, lanes, n, at) for n in waits} == waits


def test_the_entries_of_the_window_and_when_they_fall_free_are_values():
    few = stage(mio__window_entries=1, mio__window_release_cycles=7)
    assert [few.serve(s, 0, 1, READ) for s in range(3)] == [0, 7, 14]


def test_four_streams_take_turns_by_who_was_served_longest_ago():
    """H200: four LDSM of 16 wavefronts each, one every 4 cycles, warp 3 six cycles late."""
    trace = builder(4)
    with trace.only(warps=3):
        emit(trace, "NOP | S6")
    for _ in range(4):
        emit(trace, "LDSM.16.M88.4 R4, [R0] | S4", "64*lane")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    order = sorted((start, warp) for warp in range(4) for start in starts(result, warp))
    assert [warp for _, warp in order] == [0, 1, 2, 0, 1, 3, 2, 0, 1, 3, 2, 0, 1, 3, 2, 3]


def test_four_sub_cores_that_store_sixteen_wavefronts_each_advance_in_pairs():
    """H200: 32 cycles a pair."""
    result = run(["STS [R0], R4 | S1", "EXIT | S5"], warps=4, lanes="64*lane")
    first = [starts(result, w)[0] for w in range(4)]
    assert first[:2] == [10, 11]  # 7 in the queue, 2 for the second register, 1 for data
    assert [late - early for early, late in zip(first[:2], first[2:], strict=True)] == [32, 32]


PORT_ACCESSES = 128
"""Of each warp: so many that the time in which not every warp has some left counts little."""


def port_cycles(**overrides) -> tuple[int, int]:
    """Cycles of 8 warps with 32-way conflicts: all loads; half of them loads and half stores, on any sub-core."""
    found = []
    for stores in ((), (1, 3, 4, 6)):
        trace = builder(8)
        with trace.only(warps=[w for w in range(8) if w not in stores]), trace.repeat(PORT_ACCESSES):
            emit(trace, "LDS R4, [R0] | S1", "128*lane")
        if stores:
            with trace.only(warps=list(stores)), trace.repeat(PORT_ACCESSES):
                emit(trace, "STS [R0], R4 | S1", "128*lane")
        emit(trace, "EXIT | S5")
        result = gpuemu.run(trace.build(), machine(**overrides))
        found.append(max(completions(result, w)[-1] for w in range(result.program.warps)))
    return found[0], found[1]


def test_loads_and_stores_of_different_warps_take_turns_at_a_unified_port():
    """H200: 32,768 wavefronts take 33.1k cycles as loads and 33.9k half and half."""
    wavefronts = 8 * PORT_ACCESSES * 32
    loads, mixed = port_cycles()
    assert wavefronts <= loads <= 1.03 * wavefronts
    assert wavefronts <= mixed <= 1.035 * wavefronts


def test_at_separate_ports_they_pass_side_by_side():
    wavefronts = 8 * PORT_ACCESSES * 32
    loads, mixed = port_cycles(shared_memory__ports__topology="separate")
    assert wavefronts <= loads <= 1.03 * wavefronts
    assert wavefronts / 2 <= mixed <= 1.03 * wavefronts / 2


def test_lanes_that_are_all_off_still_hold_the_data_stage_for_a_cycle_and_touch_no_bank():
    trace = builder()
    emit(trace, "@P0 LDS R4, [R0] | W0 S2", active=0)
    emit(trace, "IADD3 R5, R4, R4, RZ | B0 S5")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    assert issues(result, 0)[:2] == [0, 23]
    assert (result.log.read_cycles, result.log.write_cycles) == (1, 0)
    assert result.counters["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"] == 0
    assert result.counters["sm__sass_inst_executed_op_shared_ld.sum"] == 0  # the profiler leaves such ones out


def test_sixteen_banks_make_two_wavefronts_of_one():
    # Two groups of 16 lanes, as follows from 16 banks: two cycles a wavefront, and one for the further group.
    code = ["LDS R4, [R0]", "IADD3 R5, R4, R4, RZ", "EXIT"]
    assert issues(run(code, machine(shared_memory__banks=16)), 0)[:2] == [0, 26]
    # One group of 32, given: two wavefronts all the same, and no further group.
    given = machine(shared_memory__banks=16, shared_memory__lanes_per_group__bits_32=32)
    assert issues(run(code, given), 0)[:2] == [0, 25]


@pytest.mark.parametrize(("rows", "cycles"), [(8, 29), (16, 25), (32, 23), (4, 37)])
def test_the_rows_of_a_phase_are_a_value(rows, cycles):
    arch = machine(shared_memory__matrix_rows_per_phase=rows, shared_memory__banks=128)
    result = run(["LDSM.16.M88.4 R4, [R0]", "IADD3 R9, R7, R7, RZ", "EXIT"], arch, lanes="16*lane")
    assert issues(result, 0)[:2] == [0, cycles]


def loads_of_four_warps(op: str, lanes: str, arch=None) -> list[int]:
    """When each of four warps, one on each sub-core, has what it loads in the same cycle."""
    result = run([f"{op} | W0 S2", "NOP | B0 S2", "EXIT | S5"], arch, warps=4, lanes=lanes)
    return [issues(result, warp)[1] for warp in range(4)]


@pytest.mark.parametrize(
    ("op", "lanes", "cycles"),
    [
        ("LDS R4, [R0]", "4*lane", [23, 24, 25, 26]),
        ("LDS.64 R4, [R0]", "8*lane", [26, 28, 30, 32]),
        ("LDS.128 R4, [R0]", "16*lane", [32, 36, 40, 44]),
        ("LDS R4, [R0]", "16*lane", [29, 30, 37, 38]),
    ],
)
def test_the_sm_returns_one_register_of_a_load_a_cycle(op, lanes, cycles):
    """H200: as many cycles apart as a lane of the load has registers, however their wavefronts pass."""
    assert loads_of_four_warps(op, lanes) == cycles


@pytest.mark.parametrize(
    ("name", "cycles"), [("returned_registers_per_cycle", [32, 33, 40, 41]), ("ports__unified", [32, 33, 36, 37])]
)
def test_how_many_registers_come_back_is_a_value_and_each_port_has_its_own_way(name, cycles):
    arch = machine(**{f"shared_memory__{name}": 2})
    assert loads_of_four_warps("LDS.128 R4, [R0]", "16*lane", arch) == cycles
