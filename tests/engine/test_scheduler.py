"""The sub-cores: which warp issues, what a branch costs, and that work is done by event and not by cycle."""

from __future__ import annotations

import pytest
from probes import builder, emit, gaps, issues, machine, run

import gpuemu
from gpuemu.engine import Machine
from gpuemu.engine.sm import StreamingMultiprocessor
from gpuemu.program import lower

NEXT = "FFMA R1, R0, R0, R0"


REST = "NOP | S15 Y"
"""So long stall counts only with a yield: whoever rested gives way to others until it issues again."""


def order(policy: str, line: str, times: int = 3, start_late: tuple[int, ...] = (), rested: bool = False) -> list[int]:
    """Which of three warps of a sub-core issues in each cycle, if they `rested` behind that.

    Those in `start_late` stall in their first.
    """
    trace = builder(12)
    for warp in (0, 4, 8):
        with trace.only(warps=warp):
            if rested:
                emit(trace, REST)
            if warp in start_late:
                emit(trace, f"{NEXT} | S4")
            for _ in range(times):
                emit(trace, line)
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(issue__policy=policy))
    who = {c: w // 4 for w in (0, 4, 8) for c in issues(result, w)[rested:-1]}
    return [who.get(c, -1) for c in range(min(who), max(who) + 1)]


def test_greedy_then_youngest_stays_with_a_warp_as_long_as_it_can_go():
    assert order("greedy_then_youngest", f"{NEXT} | S1") == [2, 2, 2, -1, 1, 1, 1, -1, 0, 0, 0]


def test_greedy_then_youngest_takes_the_youngest_when_the_last_cannot_go():
    assert order("greedy_then_youngest", f"{NEXT} | S2") == [2, 1, 2, 1, 2, 1, -1, 0, -1, 0, -1, 0]


def test_greedy_stays_with_an_older_warp_though_a_younger_is_ready_again():
    assert order("greedy_then_youngest", f"{NEXT} | S1", 5, start_late=(8,))[:8] == [2, 1, 1, 1, 1, 1, -1, 2]


FAIR = "greedy_then_fair"


def test_greedy_then_fair_is_what_an_h200_does():
    assert machine().issue.policy == FAIR


def test_greedy_then_fair_stays_with_a_warp_as_long_as_it_can_go():
    assert order(FAIR, f"{NEXT} | S1") == [0, 0, 0, -1, 1, 1, 1, -1, 2, 2, 2]


def test_greedy_then_fair_keeps_to_two_warps_that_fill_the_time_until_they_end():
    """H200: clock reads with a stall count of 4 from four warps; two of them alternate, the others start behind them.

    The others rested.
    """
    assert order(FAIR, f"{NEXT} | S2", 8, rested=True) == [0, 1] * 8 + [-1, 2] * 8


def test_of_three_that_did_not_rest_two_alternate_until_the_third_is_far_enough_behind():
    """H200, NOPs with a stall count of 2: the same two for 5, 7, 8 or 9 cycles, now and then for 1 or 2."""
    assert order(FAIR, f"{NEXT} | S2", 14)[:29] == [0, 1] * 3 + [2, 1] * 3 + [2, 0] * 4 + [2] + [0, 1] * 3 + [0, 1]


def test_greedy_then_fair_stays_with_a_warp_though_one_that_waited_longer_is_ready_again():
    late = order(FAIR, f"{NEXT} | S1", 5, start_late=(8,))
    assert late == [0] * 5 + [-1] + [1] * 5 + [-1, 2, -1, -1, -1] + [2] * 5


@pytest.mark.parametrize(("stall", "turns"), [(1, [0, 4] * 5), (6, [0] * 6 + [4] * 5)])
def test_a_warp_that_waits_for_its_pipe_gives_way_like_one_that_yielded(stall, turns):
    """H200: HMMA with something between by two warps alternate; with stall counts as long as the interval they stay."""
    mma = "HMMA.16816.F32 R32, R0, R4, R32"
    lines = [f"{mma} | S{stall}", f"{NEXT} | S1"] if stall == 1 else [f"{mma} | S6"]
    result = run([REST, *lines * 6, "EXIT | S5"], warps=5)
    issued = sorted(
        (cycle, warp) for warp in (0, 4) for cycle in issues(result, warp)[1 : 1 + 6 * len(lines) : len(lines)]
    )
    assert [warp for _, warp in issued][: len(turns)] == turns


def test_a_warp_that_yields_has_had_its_turn():
    assert order(FAIR, f"{NEXT} | S1 Y") == [0, 1, 2] * 3
    late = order(FAIR, f"{NEXT} | S1 Y", 5, start_late=(8,))
    assert late == [0, 1, 2, 0, 1, 0, 2, 0, 1, 2, 1, 2, 1, 2, -1, 2, 0]


def turn(first: int, **settings: int) -> int:
    """How many instructions of its own a warp issues behind one that issued `first` and yields, before that goes on.

    It yields with each, on a pipe that takes one every two cycles; so either could go.
    """
    trace = builder(5)
    lop3 = "LOP3.LUT R14, R2, RZ, R15, 0xaa, !PT"
    for warp in (0, 4):
        with trace.only(warps=warp):
            emit(trace, "NOP | S15 Y" if warp else "NOP | S3")
            for n in range(first if warp == 0 else 24):
                emit(trace, f"{lop3} | S2 Y" if warp or n == first - 1 else f"{lop3} | S2")
            emit(trace, f"{lop3} | S2")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(issue__policy=FAIR, **settings))
    goes_on = issues(result, 0)[first + 1]
    return sum(issues(result, 0)[first] < cycle < goes_on for cycle in issues(result, 4)[1:])


def test_of_two_that_yield_the_one_that_issued_less_lately_goes_first():
    """H200, of clock reads: 8 behind 13 to 17, 9 behind 18 to 20, 10 behind 21 to 29, 11 behind 30 and more."""
    assert [turn(first) for first in (13, 18, 25, 35)] == [8, 9, 9, 10]


def test_how_fast_a_share_fades_is_a_value():
    assert [turn(18, issue__share_cycles=cycles) for cycles in (1, 20, 100)] == [0, 9, 16]


def test_when_an_issue_begins_to_count_is_a_value():
    assert [turn(18, issue__share_delay_cycles=cycles) for cycles in (0, 5, 10)] == [7, 9, 11]


def test_how_much_a_recent_issue_is_worth_is_a_value_and_for_how_long():
    assert [turn(18, issue__recent_issue_percent=percent) for percent in (0, 50, 400)] == [8, 9, 14]
    assert [turn(18, issue__recent_issue_cycles=cycles) for cycles in (0, 4, 40)] == [8, 9, 8]


def stores(**settings: int) -> list[int]:
    """Which of two warps of a sub-core issues each of their stores of 128 bits, sent every 10 cycles."""
    trace = builder(5)
    with trace.only(warps=[0, 4]):
        emit(trace, REST)
        for _ in range(16):
            emit(trace, "STS.128 [R0], R4 | S1", "16*lane")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(**settings))
    return [w for _, w in sorted((c, w) for w in (0, 4) for c in issues(result, w)[1:17])]


def test_memory_instructions_stay_together_while_the_queue_has_room_and_take_turns_behind_a_full_one():
    """H200: ten in a row, one that is sent and nine entries; then the warps alternate."""
    order_of_stores = stores()
    assert order_of_stores[:10] == [0] * 10
    assert order_of_stores[10:21] == [0, *[4, 0] * 5]


def test_how_long_a_warp_is_preferred_for_memory_instructions_is_a_value():
    """Entries fall free 7 cycles after the first issue, then every 10: who is preferred for so long keeps the queue."""
    assert stores(issue__memory_greedy_cycles=9)[:21] == [0] * 11 + [4, 0] * 5
    assert stores(issue__memory_greedy_cycles=10)[:16] == [0] * 16


def test_how_long_a_warp_waits_before_others_go_before_it_is_a_value():
    """Each waits for its entry 9 cycles or more: who has not waited long enough for that keeps its place in front."""
    assert stores(issue__pipe_wait_cycles=2)[:16] == [0] * 11 + [4, 0] * 2 + [4]
    assert stores(issue__pipe_wait_cycles=1000)[:16] == [0] * 16


def test_loose_round_robin_takes_the_warp_whose_last_issue_is_longest_ago():
    assert order("loose_round_robin", f"{NEXT} | S1") == [0, 1, 2] * 3
    assert order("loose_round_robin", f"{NEXT} | S1", start_late=(0,)) == [0, 1, 2, 1, 0, 2, 1, 0, 2, -1, 0]


def test_oldest_first_takes_the_oldest_that_is_ready():
    assert order("oldest_first", f"{NEXT} | S1", start_late=(0,))[:8] == [0, 1, 1, 1, 0, 0, 0, -1]
    assert order("oldest_first", f"{NEXT} | S2")[:6] == [0, 1, 0, 1, 0, 1]


def test_a_warp_that_yields_leaves_the_next_cycle_to_others():
    assert order("greedy_then_youngest", f"{NEXT} | S1 Y")[:6] == [2, 1, 2, 1, 2, 1]


def test_or_leaves_it_empty():
    """HUERTA: a bubble if no other warp is ready."""
    assert issues(run([f"{NEXT} | S1 Y", f"{NEXT} | S3 Y", "EXIT | S5"])) == [0, 2, 5]


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


def sub_cores(lines: list[str], warps: int) -> StreamingMultiprocessor:
    trace = builder(warps)
    for line in lines:
        emit(trace, line)
    arch = machine()
    sm = StreamingMultiprocessor(lower(trace.build(), arch), Machine.of(arch))
    sm.run()
    return sm


def test_a_sub_core_without_warps_is_never_woken():
    sm = sub_cores(["LDS R4, [R0] | W0 S2", f"{NEXT} | B0 S4"] * 20 + ["EXIT | S5"], warps=2)
    assert [s.wakes > 0 for s in sm.sub_cores] == [True, True, False, False]
    assert [s.wakes for s in sm.sub_cores][2:] == [0, 0]


def test_events_do_not_grow_with_the_cycles_that_warps_stall():
    def events(name: str, value: int, lines: list[str], **launch) -> int:
        return run(lines, machine().with_overrides({name: value}), warps=4, **launch).execution.events

    load = ["LDG.E R4, [R0.64] | W0 S2", f"{NEXT} | B0 S4"] * 10 + ["EXIT | S5"]
    chain = ["FFMA R1, R1, R1, R1"] * 50 + ["EXIT"]
    barrier = [f"{NEXT} | S4", "BAR.SYNC 0x0 | S1"] * 10 + ["EXIT | S5"]
    for name, lines in (
        ("global_memory.latency_cycles", load),
        ("operations.ffma.latency_cycles", chain),
        ("barrier.latency_cycles", barrier),
    ):
        assert events(name, 50, lines) >= events(name, 5000, lines), name
    grid = {"grid": (9, 1, 1)}
    chain_of_ctas = events("sm.cta_launch_cycles", 10, chain, **grid)
    assert chain_of_ctas >= events("sm.cta_launch_cycles", 50_000, chain, **grid)


def test_straight_code_takes_one_event_a_sub_core_however_long_it_is():
    for count in (10, 10_000):
        assert run([f"{NEXT} | S2"] * count + ["EXIT | S5"], warps=4).execution.events == 4


def test_waiting_ctas_do_not_make_a_sub_core_stop_at_every_instruction():
    """An SM full of CTAs, and as many waiting: few events, though any of them may end the next moment."""
    result = run([f"{NEXT} | S2"] * 2000 + ["EXIT | S5"], machine(sm__max_ctas=2), warps=4, grid=(4, 1, 1))
    assert result.execution.events < 400


@pytest.mark.parametrize(("rest", "expected"), [(True, [0, 4] * 4 + [8, 12] * 4), (False, [0, 4, 8, 12] * 4)])
def test_warps_that_have_begun_go_before_those_that_rested(rest, expected):
    """H200: of four warps in a loop of 32 FFMA two take turns at every branch until they end, then the others.

    Which rested before. In loops of 12 to 20 clock reads all four take turns (H200) once they have begun.
    """
    trace = builder(13)
    if rest:
        emit(trace, REST)
    with trace.repeat(4):
        for _ in range(32):
            emit(trace, "FFMA R1, R0, R0, RZ | S1")
        emit(trace, f"@P0 BRA {16 * rest:#x} | S5")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    turns = sorted((start, warp) for warp in (0, 4, 8, 12) for start in issues(result, warp)[rest:-1:33])
    assert [warp for _, warp in turns] == expected


def test_a_warp_that_yielded_is_no_longer_last_once_it_has_branched():
    """H200: four warps of LOP3 that yield after six and at the end: behind its branch each goes before who yielded.

    The clock reads behind the branches came 68, 76, 84 and 90 cycles after the first warp's first.
    """
    trace = builder(13)
    lop3 = "LOP3.LUT R14, R2, RZ, R15, 0xaa, !PT"
    for line in ("CS2R.32 R24, SR_CLOCKLO | S1", "UIADD3 UR4, UR4, 0x1, URZ | S1"):
        emit(trace, line)
    for stall in ("S2", "S2", "S2", "S2", "S2", "S2 Y", "S2", "S2", "S3 Y"):
        emit(trace, f"{lop3} | {stall}")
    for line in ("@P0 BRA 0x0 | S5", "CS2R.32 R25, SR_CLOCKLO | S2", "EXIT | S5"):
        emit(trace, line)
    result = gpuemu.run(trace.build(), machine())
    reads = [result.warps[warp].clock_reads for warp in (0, 4, 8, 12)]
    assert sorted(last - min(first for first, _ in reads) for _, last in reads) == [68, 76, 84, 90]
