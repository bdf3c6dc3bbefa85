"""Which of the warps of a sub-core issues, of those that can: the policies, and who an H200 lets go first."""

from __future__ import annotations

import csv
from itertools import groupby, pairwise
from pathlib import Path

import pytest
from probes import builder, emit, issues, machine, run

import gpuemu

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
    assert order("greedy_then_youngest", f"{NEXT} | S2") == [2, 1, 2, 1, 2, 1, -1, -1, 0, -1, 0, -1, 0]


def test_greedy_stays_with_an_older_warp_though_a_younger_is_ready_again():
    assert order("greedy_then_youngest", f"{NEXT} | S1", 5, start_late=(8,))[:8] == [2, 1, 1, 1, 1, 1, -1, 2]


FAIR = "greedy_then_fair"
MMA = "HMMA.16816.F32 R32, R0, R4, R32"


def test_greedy_then_fair_is_what_an_h200_does():
    assert machine().issue.policy == FAIR


def test_greedy_then_fair_stays_with_a_warp_as_long_as_it_can_go_and_begins_with_the_youngest():
    assert order(FAIR, f"{NEXT} | S1") == [2, 2, 2, -1, 1, 1, 1, -1, 0, 0, 0]


def test_greedy_then_fair_keeps_to_two_warps_that_fill_the_time_until_they_end():
    """H200: clock reads with a stall count of 4 from four warps; two of them alternate, the others start behind them.

    All of them rested.
    """
    assert order(FAIR, f"{NEXT} | S2", 8, rested=True) == [2, 1] * 8 + [-1, -1, 0] + [-1, 0] * 7


def test_greedy_then_fair_stays_with_a_warp_though_one_that_waited_longer_is_ready_again():
    late = order(FAIR, f"{NEXT} | S1", 5, start_late=(8,))
    assert late == [2] + [1] * 5 + [-1] + [0] * 5 + [-1] + [2] * 5


@pytest.mark.parametrize("lines", [[f"{MMA} | S1", f"{NEXT} | S1"], [f"{MMA} | S6"]])
def test_a_warp_with_mma_that_has_begun_goes_before_one_that_rested(lines):
    """H200: two warps with HMMA.16816 and a clock read in turn, stall counts 1 or 6: one is done before the other begins."""
    result = run([REST, *lines * 6, "EXIT | S5"], warps=5)
    first, second = (issues(result, warp)[1 : 1 + 6 * len(lines) : len(lines)] for warp in (4, 0))
    assert first[-1] < second[0]


@pytest.mark.parametrize(("least", "turns"), [(1, [4, 0] * 3), (9, [4] * 4 + [0] * 2)])
def test_a_warp_that_waits_for_the_tensor_core_is_not_preferred(least, turns):
    lines = [*[f"{MMA} | S1"] * 4, "EXIT | S5"]
    result = run(lines, machine(issue__tensor_wait_cycles=least), warps=5)
    issued = sorted((cycle, warp) for warp in (0, 4) for cycle in issues(result, warp)[:4])
    assert [warp for _, warp in issued][:6] == turns


IMAD_WIDE = "IMAD.WIDE.U32 R16, R24, R25, R26 | S1"
MUFU = [f"MUFU.RCP R{n}, R24 | S1" for n in (16, 17, 18)]


@pytest.mark.parametrize(
    ("begin", "apart", "stall", "stays"),
    [([f"{MMA} | S1"], 7, 2, True), ([f"{MMA} | S1"], 7, 3, False), ([f"{MMA} | S1"], 8, 3, True),
     ([f"{MMA} | S1"], 8, 4, False), ([f"{MMA} | S1"], 10, 5, True), ([f"{MMA} | S1"], 10, 6, False),
     (MUFU, 10, 2, True), (MUFU, 10, 5, False), (MUFU[:1], 10, 5, True), ([IMAD_WIDE], 6, 6, True)],
)  # fmt: skip
def test_the_tensor_core_and_the_special_function_unit_are_looked_at_behind_the_last_issue(begin, apart, stall, stays):
    """H100: two warps can issue in the same cycle; one issued last, with that stall count, the other more rarely.

    From the last of `begin` to the next like it a warp has so many cycles to count, and others have no use for the unit.
    """
    rest = [] if stall == apart else ["NOP | S1"] * (apart - 1 - stall) + [f"NOP | S{stall}"]
    if stall == apart:
        begin = [*begin[:-1], begin[-1].replace("S1", f"S{stall}")]
    lines = [*["NOP | S1"] * 8, "NOP | S7", *begin, *rest, begin[0].replace("S1", "S9"), "EXIT | S5"]

    def last(*others: str) -> tuple[int, int]:
        trace = builder(5)
        for warp, own in ((0, lines), (4, [*others, "EXIT | S5"])):
            with trace.only(warps=warp):
                for line in own:
                    emit(trace, line)
        with trace.only(warps=[1, 2, 3]):
            emit(trace, "EXIT | S5")
        result = gpuemu.run(trace.build(), machine())
        return issues(result, 0)[-2], issues(result, 4)[len(others) - 1]

    together = last("NOP | S11", "NOP | S4")[0]
    pause = together - 15
    pauses = [11] * (pause // 11) + [pause % 11] * (pause % 11 > 0)
    mine, theirs = last("NOP | S11", "NOP | S4", *[f"NOP | S{count}" for count in pauses], "NOP | S1")
    first, second = (mine, theirs) if stays else (theirs, mine)
    assert first == together < second


@pytest.mark.parametrize(
    ("pauses", "rests", "stall", "goes_before"),
    [
        ((11,), (4,), 2, 0),
        ((4, 7), (4,), 2, 6),
        ((11,), (4, 10), 2, 4),
        ((11,), (4, 10, 7), 2, 3),
        ((11,), (4, 10), 1, 0),
    ],
    ids=["nobody_right_behind", "another_right_behind", "tensor_core_busy", "busy_later", "busy_and_no_stall_count"],
)
def test_a_warp_that_waits_for_a_counter_where_nobody_issues_behind_it_gives_way(pauses, rests, stall, goes_before):
    """H100: an mma that waits for a load comes behind all of another warp's, which it else would get in between.

    If its stall count is not 1, only if nobody issues right behind its load and the tensor core is free then.
    `goes_before`: so many of nine.
    """
    trace = builder(5)
    chain = [f"HMMA.16816.F32 R{16 + 4 * (n % 3)}, R32, R36, RZ | S6" for n in range(9)]
    lines = {
        0: [*(f"NOP | S{pause}" for pause in pauses), *chain],
        4: [
            *(f"NOP | S{rest}" for rest in rests),
            f"LDS R48, [R0] | W0 S{stall}",
            "HMMA.16816.F32 R28, R32, R36, RZ | B0 S6",
        ],
    }
    for warp, own in lines.items():
        with trace.only(warps=warp):
            for line in own:
                emit(trace, line)
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    waiting = issues(result, 4)[-2]
    assert issues(result, 4)[-3] == sum(rests)
    assert sum(cycle > waiting for cycle in issues(result, 0)[len(pauses) : -1]) == goes_before


def test_a_warp_that_yields_has_had_its_turn():
    assert order(FAIR, f"{NEXT} | S1 Y") == [2, 1, 0] * 3
    late = order(FAIR, f"{NEXT} | S1 Y", 5, start_late=(8,))
    assert late == [2, 1, 0, 1, 2, 1, 0, 2, 0, 2, 0, 2, 0, 2, 1, -1, 1]


@pytest.mark.parametrize(("line", "goes_first"), [("NOP | S10", 0), ("@P0 BRA 0xa0 | S5", 4)])
def test_a_warp_that_branches_gives_way_to_one_with_fewer_issues(line, goes_first):
    """Both are ready 10 cycles behind its last issue; a warp that waits for its stall count goes on."""
    trace = builder(5)
    for warp, lines in ((0, [*["NOP | S1"] * 6, "NOP | S2", line]), (4, ["NOP | S8", "NOP | S11"])):
        with trace.only(warps=warp):
            for each in lines:
                emit(trace, each)
    with trace.only(warps=[0, 4]):
        emit(trace, "NOP | S1")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    assert (issues(result, 0)[7], issues(result, 4)[1]) == (9, 8)
    assert (issues(result, goes_first)[-2], issues(result, 4 - goes_first)[-2]) == (19, 21)


def period(turns: list[int]) -> int | None:
    """After how many turns they repeat themselves, once the warps have fallen into step."""
    steady = turns[len(turns) // 2 :]
    half = len(steady) // 2
    return next((n for n in range(1, half) if steady[n : n + half] == steady[:half]), None)


def lengths(turns: list[int]) -> list[int]:
    """How many turns in a row each warp has."""
    return [len(list(same)) for _, same in groupby(turns)]


def turns_of(warps: int, line: str, times: int, *values: str, **settings: int) -> list[int]:
    """Which of the warps of a sub-core issues its next, in order, for as long as all of them have one left."""
    trace = builder(4 * warps - 3)
    with trace.only(warps=list(range(0, 4 * warps, 4))):
        for _ in range(times):
            emit(trace, line, *values)
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(issue__policy=FAIR, **settings))
    own = {warp: issues(result, 4 * warp)[:times] for warp in range(warps)}
    last = min(cycles[-1] for cycles in own.values())
    return [warp for cycle, warp in sorted((c, w) for w, cycles in own.items() for c in cycles) if cycle <= last]


def test_of_three_warps_two_alternate_and_the_third_comes_in_an_order_of_120_cycles():
    """H200, NOPs with a stall count of 2: it comes in for the one that issued more lately."""
    turns = turns_of(3, "NOP | S2", 400)
    assert period(turns) == 120
    assert turns[:28] == [2, 1] * 3 + [0, 1] * 2 + [0, 2] * 5 + [1, 2, 1, 2, 1] + [0, 1, 0]


def test_two_warps_that_yield_take_turns_in_an_order_of_98_cycles():
    """H200, clock reads, one every two cycles: 4 5 5 3 5 5 5 in a row, then 17 single ones."""
    turns = turns_of(2, "CS2R.32 R24, SR_CLOCKLO | S2 Y", 400)
    assert 2 * period(turns) == 98
    steady = lengths(turns[400:500])
    begin = next(i for i in range(1, 40) if steady[i : i + 7] == [4, 5, 5, 3, 5, 5, 5])
    assert steady[begin + 7 : begin + 25] == [1] * 17 + [4]


@pytest.mark.parametrize(("warps", "round_of"), [(2, 17), (3, 25), (4, 33)])
def test_behind_a_full_queue_the_youngest_goes_twice_every_eighth_round(warps, round_of):
    """H200: loads of 4 wavefronts, each with one other instruction behind it, by 2 to 4 warps of each sub-core."""
    trace = builder(4 * warps)
    for _ in range(90):
        emit(trace, "LDS.128 R4, [R0] | S4", "16*lane")
        emit(trace, "NOP | S2")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    own = {warp: issues(result, 4 * warp)[0:180:2] for warp in range(warps)}
    turns = [w for c, w in sorted((c, w) for w, cycles in own.items() for c in cycles) if c <= own[warps - 1][-1]]
    steady = turns[20:]
    twice = [i for i, (a, b) in enumerate(pairwise(steady)) if a == b]
    assert len(twice) > 4
    assert {b - a for a, b in pairwise(twice)} == {round_of}
    assert {steady[i] for i in twice} == {warps - 1}


@pytest.mark.parametrize(
    ("settings", "orders"), [({"bits": 3}, (35, 18)), ({"delay_cycles": 4}, (72, 32)), ({"delay_cycles": 6}, (24, 98))]
)
def test_how_far_is_counted_and_when_an_issue_begins_to_count_are_values(settings, orders):
    """None of these has both orders of the H200."""
    (name, value), *_ = settings.items()
    changed = {f"issue__issue_count_{name}": value}
    nops = period(turns_of(3, "NOP | S2", 500, **changed))
    reads = 2 * period(turns_of(2, "CS2R.32 R24, SR_CLOCKLO | S2 Y", 500, **changed))
    assert (nops, reads) == orders


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


def test_memory_instructions_stay_together_while_the_queue_has_room_and_the_other_then_makes_up_for_it():
    """Ten in a row, one that is sent and nine entries; the other issues as many, and then they take turns.

    H200, with one of them a clock read: eleven in a row, then eight of the other but for one, then in turn.
    """
    order_of_stores = stores()
    assert order_of_stores[:10] == [4] * 10
    assert order_of_stores[10:20] == [0] * 10
    assert order_of_stores[20:28] == [4, 0] * 4


def test_how_long_a_warp_waits_before_others_go_before_it_is_a_value():
    """Each waits for its entry 9 cycles or more: who has not waited long enough for that keeps its place in front."""
    assert stores(issue__pipe_wait_cycles=2)[10:20] == [0] * 10
    assert stores(issue__pipe_wait_cycles=1000)[:16] == [4] * 16


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
    lines = [f"{NEXT} | S1 Y", f"{NEXT} | S3 Y", "EXIT | S5"]
    assert issues(run(lines)) == [0, 2, 5]
    assert issues(run(lines, machine(issue__yield_cycles=4))) == [0, 4, 8]
    assert issues(run(lines, machine(issue__yield_cycles=1))) == [0, 1, 4]


def test_warps_that_have_begun_go_before_those_that_rested():
    """H200: of four warps in a loop of 32 FFMA two take turns at every branch until they end, then the others."""
    trace = builder(13)
    emit(trace, REST)
    with trace.repeat(4):
        for _ in range(32):
            emit(trace, "FFMA R1, R0, R0, RZ | S1")
        emit(trace, "@P0 BRA 0x10 | S5")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    turns = sorted((start, warp) for warp in (0, 4, 8, 12) for start in issues(result, warp)[1:-1:33])
    assert [warp for _, warp in turns] == [12, 8] * 4 + [4, 0] * 4


def test_a_warp_that_yielded_is_no_longer_last_once_it_has_branched():
    """H200: four warps of LOP3 that yield after six and at the end: behind its branch each goes before who yielded.

    The four begin 14 cycles apart, and the clock reads behind the branches come 69, 76, 88 and 95 after the first's first.
    """
    trace = builder(13)
    lop3 = "LOP3.LUT R14, R2, RZ, R15, 0xaa, !PT"
    for line in ("CS2R.32 R24, SR_CLOCKLO | S1", "UIADD3 UR4, UR4, 0x1, URZ | S1"):
        emit(trace, line)
    for stall in ("S2", "S2", "S2", "S2", "S2", "S2 Y", "S2", "S2", "S3 Y"):
        emit(trace, f"{lop3} | {stall}")
    for line in ("@P0 BRA 0x0 | S5", "NOP | S1", "CS2R.32 R25, SR_CLOCKLO | S2", "EXIT | S5"):
        emit(trace, line)
    result = gpuemu.run(trace.build(), machine())
    reads = [result.warps[warp].clock_reads for warp in (0, 4, 8, 12)]
    assert sorted(last - min(first for first, _ in reads) for _, last in reads) == [69, 76, 88, 95]


def test_who_is_first_is_counted_when_it_is_chosen_and_not_ahead_of_a_barrier_that_opens_before():
    """Two warps rest until 20, two wait at a barrier that opens at 18, where their issues do not count yet.

    The sub-core looks ahead to 20 before it knows of the opening; the younger of the two at the barrier goes first.
    """
    trace = builder(13)
    barrier = "BAR.SYNC 0x1, 0x60 | S1"
    for warps, line in (
        ([8, 12], barrier),
        ([0], "NOP | S14 Y"),
        ([4], "NOP | S15 Y"),
        ([1], "NOP | S1"),
        ([1], barrier),
        ([0, 4, 8, 12], "NOP | S1"),
    ):
        with trace.only(warps=warps):
            emit(trace, line)
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(issue__issue_count_delay_cycles=19))
    assert [issues(result, warp)[2] for warp in (8, 12)] == [19, 18]


def of_ctas(ctas: int, warps: int, lines: list[str], **values: int) -> list[list[int]]:
    """The cycles in which the first warp of each CTA issues."""
    trace = builder(warps, grid=(ctas, 1, 1), static_shared_bytes=0)
    for line in lines:
        emit(trace, line)
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(**values))
    return [issues(result, cta * warps) for cta in range(ctas)]


def test_greedy_then_fair_lets_warps_of_an_older_cta_go_first():
    """H200: a chain of FFMA in CTAs of 16 warps takes all turns, so the second CTA begins when the first has ended."""
    chain = [f"{NEXT} | S4"] * 40
    (alone,) = of_ctas(1, 16, chain)
    first, second = of_ctas(2, 16, chain)
    assert first[-1] == alone[-1]
    assert second[3] > first[39]


def test_but_a_warp_of_an_older_cta_that_yielded_goes_behind():
    first, second = of_ctas(2, 4, [f"{NEXT} | S1 Y"] * 3)
    assert [c - first[0] for c in first[:3]] == [0, 2, 4]
    assert [c - first[0] for c in second[:3]] == [1, 3, 5]


LINES = {"fma": "FFMA R3, R3, R2, R2 | S4 Y", "lop": "LOP3.LUT R1, R1, R0, R2, 0x96, !PT | S4 Y"}
CTAS = Path(__file__).resolve().parents[2] / "tools" / "chip" / "h200" / "ctas.csv"


def measured(kernel: str, warps: int, resident: int) -> list[int]:
    """When the first CTAs of an H200's SM end, from the start of the first one."""
    with CTAS.open(encoding="utf-8") as file:
        found = [
            (int(row["cta"]), int(row["end"]))
            for row in csv.DictReader(file)
            if (row["kernel"], int(row["warps"]), int(row["resident"])) == (kernel, warps, resident)
            and int(row["ctas"]) < 9
        ]
    return [end for _, end in sorted(found)[:resident]]


@pytest.mark.slow
@pytest.mark.parametrize("resident", [3, 4])
@pytest.mark.parametrize("warps", [8, 16])
@pytest.mark.parametrize("kernel", list(LINES))
def test_ctas_of_an_sm_end_one_after_another_as_measured(kernel, warps, resident):
    trace = builder(warps, grid=(resident, 1, 1), static_shared_bytes=0)
    emit(trace, "S2R R0, SR_TID.X | W0 S1")
    emit(trace, "BAR.SYNC 0x0 | B0 S5")
    for number in range(12):
        emit(trace, "CS2R.32 R5, SR_CLOCKLO | S7 Y")
        if number == 0:
            emit(trace, "LDC R2, c[0x0][0x218] | W1 S1")
            emit(trace, f"{LINES[kernel]} B1")
        for _ in range(16 - (number == 0)):
            emit(trace, LINES[kernel])
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), gpuemu.load_arch("sm_90"))
    starts = [min(issues(result, cta * warps + w)[2] for w in range(warps)) for cta in range(resident)]
    ends = [max(issues(result, cta * warps + w)[-18] for w in range(warps)) - min(starts) for cta in range(resident)]
    assert sorted(ends) == pytest.approx(sorted(measured(kernel, warps, resident)), rel=0.2)
