"""The barrier unit: who is waited for, when it opens, and what happens when it cannot."""

from __future__ import annotations

import pytest
from probes import builder, emit, gaps, issues, machine, run

import gpuemu
from gpuemu import GpuemuError

SUM = "IADD3 R1, R0, R0, RZ"


@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16])
def test_a_loop_over_barriers_takes_12_cycles_and_2_a_warp(warps):
    """H200: 14, 16, 20, 28, 44 cycles from BAR.SYNC to BAR.SYNC for 1, 2, 4, 8, 16 warps."""
    result = run(["BAR.SYNC 0x0 | S1"] * 61 + ["EXIT | S5"], warps=warps)
    for warp in range(warps):
        cycles = issues(result, warp)
        assert cycles[60] - cycles[20] == 40 * (12 + 2 * warps)


def late(cycles: int, **overrides) -> gpuemu.Result:
    """Warp 1 comes to the barrier so many cycles after warp 0."""
    trace = builder(2)
    with trace.only(warps=1):
        for _ in range(cycles // 10):
            emit(trace, f"{SUM} | S10")
    emit(trace, "BAR.SYNC 0x0 | S1")
    emit(trace, "EXIT | S5")
    return gpuemu.run(trace.build(), machine(**overrides))


def test_the_first_to_come_waits_for_the_last():
    result = late(100)
    assert issues(result, 0) == [0, 100 + 2 + 12]
    assert issues(result, 1)[-2:] == [100, 100 + 2 + 12]
    assert result.warps[0].stalls["barrier"] == 113


def test_who_waited_goes_before_who_came_last():
    """H200: of two warps of a sub-core the first to come is the first to go on, though the last issued last."""
    trace = builder(8)
    with trace.only(warps=[4, 5, 6, 7]):
        emit(trace, f"{SUM} | S10")
    for line in ("BAR.SYNC 0x0 | S5", "NOP | S5", "EXIT | S5"):
        emit(trace, line)
    result = gpuemu.run(trace.build(), machine())
    assert [issues(result, warp)[-2] - issues(result, 0)[-2] for warp in (0, 4)] == [0, 1]


def test_its_latency_and_interval_are_values():
    assert issues(late(100, barrier__latency_cycles=20, barrier__arrival_interval_cycles=5), 0) == [0, 125]


def test_a_stall_count_longer_than_the_barrier_holds():
    assert issues(run(["BAR.SYNC 0x0 | S15", "EXIT | S5"], machine(barrier__latency_cycles=3))) == [0, 15]


def behind(line: str, stall: int, **overrides) -> int:
    """When the lone warp issues a line, so many cycles behind its barrier at the earliest."""
    return issues(run([f"BAR.SYNC 0x0 | S{stall}", f"{line} | S1", "EXIT | S5"], machine(**overrides)))[1]


HELD_BACK = ["LDS R4, [R0]", "STS [R0], R4", "NOP", "UIADD3 UR4, UR4, UR4, URZ", "BRA 0x20", "MUFU.RCP R4, R0"]


@pytest.mark.parametrize("line", HELD_BACK)
def test_what_a_barrier_holds_back_slips_through_up_to_four_cycles_behind_it(line):
    """H200: up to 4 cycles behind BAR.SYNC; then it waits until the barrier opens, at 14 for one warp."""
    assert [behind(line, stall) for stall in (1, 2, 4, 5, 6, 13, 14, 15)] == [1, 2, 4, 14, 14, 14, 14, 15]


def test_when_a_barrier_blocks_is_a_value():
    assert [behind("NOP", stall, barrier__blocks_after_cycles=8) for stall in (6, 7, 8)] == [6, 7, 14]


@pytest.mark.parametrize(
    "line",
    [SUM, "FFMA R1, R0, R0, R0", "IMAD R1, R0, R0, R0", "HFMA2 R1, R0, R0, R0", "DFMA R8, R10, R10, R10",
     "HMMA.16816.F32 R32, R0, R4, R32", "CS2R R2, SR_CLOCKLO"],
)  # fmt: skip
def test_arithmetic_of_fixed_latency_never_waits_for_a_barrier(line):
    """H200: the tensor core's and CS2R as well."""
    assert [behind(line, stall) for stall in (1, 4, 5, 9, 13)] == [1, 4, 5, 9, 13]


def test_what_arithmetic_passes_it_with_does_not_open_it_for_the_rest():
    result = run([*["BAR.SYNC 0x0 | S1"], *[f"{SUM} | S2"] * 5, "LDS R4, [R0] | S1", "EXIT | S5"])
    assert issues(result) == [0, 1, 3, 5, 7, 9, 14, 15]


LDS, LDSM = "LDS R4, [R0]", "LDSM.16.M88.4 R4, [R0]"
LATER = [(LDS, 6, 24), (LDS, 15, 23), (LDS, 4, 23), (LDSM, 6, 30), (LDSM, 15, 29), ("LDS R4, [UR4]", 6, 23),
         ("SHFL.BFLY PT, R4, R0, 0x1, 0x1f", 6, 24)]  # fmt: skip


@pytest.mark.parametrize(("load", "stall", "takes"), LATER)
def test_a_shared_memory_load_that_a_barrier_has_held_back_comes_a_cycle_later(load, stall, takes):
    """H200: LDS 24 cycles instead of 23 in the cycle in which the barrier opens; SHFL as ever."""
    lines = ["STS [R0], R4 | S15", f"BAR.SYNC 0x0 | S{stall}", f"{load} | W0 S2", f"{SUM} | B0 S4", "EXIT | S5"]
    cycles = issues(run(lines, lanes="16*lane" if load == LDSM else "4*lane"))
    assert cycles[2] - cycles[1] == (14 if stall == 6 else stall)
    assert cycles[3] - cycles[2] == takes


def test_but_not_behind_a_barrier_before_which_it_sent_nothing_to_memory():
    lines = ["STS [R0], R4 | S15", "BAR.SYNC 0x0 | S6", "BAR.SYNC 0x0 | S6", f"{LDS} | W0 S2", f"{SUM} | B0 S4"]
    cycles = issues(run([*lines, "EXIT | S5"], lanes="4*lane"))
    assert cycles[4] - cycles[3] == 23


@pytest.mark.parametrize("line", ["BAR.SYNC 0x0", "EXIT"])
def test_a_barrier_and_an_exit_never_slip_through(line):
    assert [behind(line, stall) for stall in (1, 4, 5)] == [14, 14, 14]


@pytest.mark.parametrize("line", ["BAR.SYNC 0x0", "EXIT"])
@pytest.mark.parametrize("slips", [SUM, "NOP"])
def test_nor_behind_another_instruction_that_does(line, slips):
    result = run(["BAR.SYNC 0x0 | S1", f"{slips} | S1", f"{line} | S1", "EXIT | S5"])
    assert issues(result)[:3] == [0, 1, 14]


@pytest.mark.parametrize("warps", [2, 4])
def test_arithmetic_between_two_barriers_does_not_let_a_warp_into_the_second_before_the_first_opens(warps):
    result = run(["BAR.SYNC 0x0 | S1", f"{SUM} | S2", "BAR.SYNC 0x0 | S1", "EXIT | S5"], warps=warps)
    assert [issues(result, warp)[2:] for warp in range(warps)] == [[12 + 2 * warps, 2 * (12 + 2 * warps)]] * warps


@pytest.mark.parametrize("warps", [1, 2, 4])
def test_a_barrier_with_arithmetic_behind_takes_no_longer_than_one_without(warps):
    """The arithmetic is done while the barrier is closed."""
    result = run([*["BAR.SYNC 0x0 | S6", f"{SUM} | S5"] * 10, "EXIT | S5"], warps=warps)
    assert set(gaps(issues(result)[:20:2])) == {12 + 2 * warps}


@pytest.mark.parametrize("kept_busy", [100, 2000])
def test_a_warp_that_ends_is_waited_for_no_longer(kept_busy):
    """Whether the others come to the barrier before it ends or after."""
    trace = builder(3)
    with trace.only(warps=2):
        for _ in range(kept_busy // 10):
            emit(trace, f"{SUM} | S10")
        emit(trace, "EXIT | S5")
    with trace.only(warps=1):
        for _ in range(100):
            emit(trace, f"{SUM} | S10")
    with trace.only(warps="0-1"):
        emit(trace, "BAR.SYNC 0x0 | S1")
        emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    opens = max(1000 + 2 + 12, kept_busy + 1 + 12)
    assert [issues(result, warp)[-1] for warp in (0, 1)] == [opens, opens]


def test_a_named_barrier_opens_for_as_many_threads_as_it_names():
    trace = builder(4)
    with trace.only(warps="2-3"):
        for _ in range(50):
            emit(trace, f"{SUM} | S10")
    emit(trace, "BAR.SYNC 0x1, 0x40 | S1")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    assert [issues(result, warp)[-1] for warp in range(4)] == [16, 16, 516, 516]


def test_barriers_of_different_numbers_are_different_barriers():
    trace = builder(4)
    for pair, barrier in (("0-1", "0x1"), ("2-3", "0x2")):
        with trace.only(warps=pair):
            emit(trace, f"BAR.SYNC {barrier}, 0x40 | S1")
    emit(trace, "EXIT | S5")
    assert [issues(gpuemu.run(trace.build(), machine()), w)[-1] for w in range(4)] == [16, 16, 20, 20]


def test_who_comes_first_to_a_barrier_that_counts_goes_first():
    """Warp 2 alone comes late to the first opening, whatever order the emulator looks at the warps in."""
    for late_warp in range(4):
        trace = builder(4)
        with trace.only(warps=late_warp):
            for _ in range(50):
                emit(trace, f"{SUM} | S10")
        with trace.only(warps=[w for w in range(4) if w != late_warp]):
            emit(trace, "BAR.SYNC 0x1, 0x60 | S1")
        with trace.only(warps=[w for w in range(4) if w != (late_warp + 1) % 4]):
            emit(trace, "BAR.SYNC 0x1, 0x60 | S1")
        emit(trace, "EXIT | S5")
        result = gpuemu.run(trace.build(), machine())
        first = {w: issues(result, w)[-2] for w in range(4) if w not in (late_warp, (late_warp + 1) % 4)}
        assert set(first.values()) == {6 + 12}
        assert issues(result, (late_warp + 1) % 4)[-1] == 6 + 12
        assert issues(result, late_warp)[-1] == 500 + 2 + 12


def test_an_arrival_without_waiting_goes_on_after_its_stall_count():
    trace = builder(2)
    with trace.only(warps=0):
        emit(trace, f"{SUM} | S15")
        emit(trace, f"{SUM} | S15")
        emit(trace, "BAR.ARV 0x1, 0x40 | S2")
    with trace.only(warps=1):
        emit(trace, "BAR.SYNC 0x1, 0x40 | S2")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    assert issues(result, 0) == [0, 15, 30, 32]
    assert issues(result, 1) == [0, 30 + 2 + 12]


def test_arrivals_that_nobody_waited_for_do_not_count_for_the_next_cta():
    """The barrier opens for warp 1 with warp 0; what warp 2 leaves there is gone when its CTA is."""
    trace = builder(3, grid=(2, 1, 1))
    with trace.only(warps=0):
        emit(trace, "BAR.ARV 0x1, 0x40 | S2")
    with trace.only(warps=1):
        emit(trace, "BAR.SYNC 0x1, 0x40 | S2")
    with trace.only(warps=2):
        for _ in range(5):
            emit(trace, f"{SUM} | S10")
        emit(trace, "BAR.ARV 0x1, 0x40 | S2")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(sm__max_ctas=1))
    first, second = ([issues(result, w) for w in ctas] for ctas in ((0, 1, 2), (3, 4, 5)))
    assert first[1] == [0, 4 + 12]
    launched = result.warps[3].start_cycle
    assert second == [[cycle + launched for cycle in warp] for warp in first]


@pytest.mark.parametrize(
    ("ctas", "warps", "round_cycles"),
    [(2, 1, 14), (4, 1, 14), (8, 1, 24), (16, 1, 48), (2, 2, 16), (4, 2, 16), (8, 2, 32), (2, 4, 20), (3, 4, 24),
     (4, 4, 32), (2, 8, 32), (2, 16, 64)],
)  # fmt: skip
def test_the_ctas_of_an_sm_share_one_barrier_unit(ctas, warps, round_cycles):
    """H200: from barrier to barrier of CTAs of so many warps, all the time; 2 cycles a warp, 3 for a lone one."""
    trace = builder(warps, grid=(ctas, 1, 1), static_shared_bytes=0)
    with trace.repeat(40):
        emit(trace, "BAR.SYNC 0x0 | S1")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    for warp in range(ctas * warps):
        cycles = issues(result, warp)
        assert cycles[38] - cycles[18] == 20 * round_cycles


def test_the_barrier_of_one_cta_is_served_behind_that_of_another():
    trace = builder(2, grid=(2, 1, 1))
    emit(trace, "BAR.SYNC 0x0 | S1")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    assert [issues(result, w) for w in range(4)] == [[0, 16]] * 2 + [[0, 20]] * 2


@pytest.mark.parametrize(("entries", "cycles"), [(1, [0, 1, 3, 5, 7]), (2, [0, 1, 2, 3, 5]), (5, [0, 1, 2, 3, 4])])
def test_an_arrival_waits_for_room_in_the_queue_of_its_sub_core(entries, cycles):
    trace = builder(17)
    with trace.only(warps=[0, 4, 8, 12, 16]):
        emit(trace, "BAR.SYNC 0x1, 0xa0 | S1")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(barrier__queue_entries=entries))
    found = sorted(issues(result, w)[0] for w in (0, 4, 8, 12, 16))
    assert [c - found[0] for c in found] == cycles
    assert (sum(warp.stalls["mio_throttle"] for warp in result.warps) > 0) == (entries < 5)


@pytest.mark.parametrize(("entries", "share"), [(3, 0.25), (64, 0.9)])
def test_the_youngest_cta_hardly_gets_a_turn_at_a_busy_barrier_unit(entries, share):
    """H200: of three CTAs of 16 warps the last does a barrier while the others do seven."""
    trace = builder(16, grid=(3, 1, 1), static_shared_bytes=0)
    with trace.repeat(40):
        emit(trace, "BAR.SYNC 0x0 | S1")
        for _ in range(4):
            emit(trace, "FFMA R1, R1, R0, R0 | S4")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(barrier__queue_entries=entries))
    first, last = issues(result, 0), issues(result, 32)
    done = sum(cycle < first[-1] for cycle in last) / len(first)
    assert done <= share if entries == 3 else done >= share


@pytest.mark.parametrize(("value", "each"), [(0, 16), (4, 21.1), (7, 24.1)])
def test_each_opening_empties_the_data_stage(value, each):
    """H200: 4 CTAs of 4 warps that store 4 wavefronts a warp between barriers need 22 cycles for each, not 16."""
    trace = builder(4, grid=(4, 1, 1), static_shared_bytes=1024)
    with trace.repeat(40):
        emit(trace, "BAR.SYNC 0x0 | S6")
        emit(trace, "STS [R0], R4 | R0 S6", lanes="16*lane")
        emit(trace, f"{SUM} | B0 S4")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(barrier__drain_cycles=value))
    cycles = issues(result, 0)
    assert (cycles[3 * 35] - cycles[3 * 15]) / 20 == pytest.approx(4 * each, rel=0.005)


@pytest.mark.parametrize(("value", "second"), [(2, 16), (3, 17), (9, 23), (0, 16)])
def test_what_a_barrier_of_one_warp_keeps_the_unit_for_is_a_value(value, second):
    trace = builder(1, grid=(2, 1, 1))
    emit(trace, "BAR.SYNC 0x0 | S1")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(barrier__single_warp_cycles=value))
    assert [issues(result, w)[1] for w in range(2)] == [14, second]


def stuck(trace: gpuemu.TraceBuilder) -> list[str]:
    with pytest.raises(GpuemuError) as caught:
        gpuemu.run(trace.build(), machine())
    return str(caught.value).splitlines()


def test_a_barrier_that_waits_for_ever_is_an_error_that_names_the_warps_and_the_line():
    trace = builder(3)
    with trace.only(warps="0-1"):
        emit(trace, "NOP")
        emit(trace, "BAR.SYNC 0x1, 0x60")
    emit(trace, "EXIT")
    assert stuck(trace) == [
        f"<builder>: code at 0x0010: warp {warp} of CTA 0 waits forever at BAR.SYNC 0x1, 0x60, with 2 "
        "arrived. Every warp that the barrier counts must reach it."
        for warp in (0, 1)
    ]


def test_no_more_than_eight_stuck_warps_are_named():
    trace = builder(16)
    emit(trace, "BAR.SYNC 0x1, 0x220")
    emit(trace, "EXIT")
    assert len(stuck(trace)) == 8


def test_waiting_ctas_do_not_hide_a_stuck_one():
    trace = builder(2, grid=(3, 1, 1))
    with trace.only(warps=0):
        emit(trace, "BAR.SYNC 0x1, 0x40")
    emit(trace, "EXIT")
    with pytest.raises(GpuemuError, match=r"warp 0 of CTA 0 waits forever at BAR\.SYNC 0x1, 0x40, with 1 arr"):
        gpuemu.run(trace.build(), machine(sm__max_ctas=1))
