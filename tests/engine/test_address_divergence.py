"""The unit for constants and registers that do not differ by lane: one for the SM, its queues, its turns."""

from __future__ import annotations

import pytest
from probes import issues, machine, run

END = "EXIT | S5"
CONSTANT = "LDC R4, c[0x0][0x210]"


def done(lines: list[str], warps: int = 1, arch=None) -> list[int]:
    """When the instruction behind the lines, which waits for counter 0, issues in each warp."""
    result = run([*lines, "NOP | B0 S2", END], arch, warps=warps)
    return [issues(result, warp)[len(lines)] for warp in range(warps)]


@pytest.mark.parametrize(
    ("line", "latency"),
    [
        (CONSTANT, 25),
        ("LDC.64 R4, c[0x0][0x210]", 25),
        ("S2UR UR4, SR_CgaCtaId", 35),
        ("S2R R4, SR_CgaCtaId", 25),
        ("REDUX.SUM UR4, R8", 38),
        ("MATCH.ANY R4, R8", 28),
    ],
)
def test_one_comes_after_its_latency_and_the_same_of_other_warps_two_cycles_later_each(line, latency):
    """H200: 2, 4 and 8 warps that issue it in the same cycle."""
    assert done([f"{line} | W0 S2"]) == [latency]
    assert done([f"{line} | W0 S2"], warps=4) == [latency, latency + 2, latency + 4, latency + 6]


def test_a_result_is_not_ready_a_cycle_too_soon():
    for stall, cycle in ((28, 29), (29, 29), (30, 30)):
        lines = [f"{CONSTANT} | W0 S1", f"NOP | S{stall // 2}", f"NOP | S{stall - stall // 2 - 1}"]
        assert done(lines, warps=3)[2] == cycle


def test_different_instructions_share_the_unit():
    """H200: four warps, LDC and S2UR one behind the other: the S2UR 8 cycles later than alone."""
    lines = [f"{CONSTANT} | W1 S1", "S2UR UR4, SR_CgaCtaId | W0 S2"]
    assert done(lines) == [37]
    assert done(lines, warps=4) == [43 + 2 * warp for warp in range(4)]


@pytest.mark.parametrize(("line", "latency"), [("LDS R4, [R0]", 23), ("S2R R4, SR_TID.X", 23)])
def test_memory_instructions_and_lane_numbers_do_not_wait_for_it(line, latency):
    assert done([*[f"{CONSTANT} | W1 S1"] * 3, f"{line} | W0 S2"]) == [3 + latency]
    assert done([f"{line} | W1 S1", f"{CONSTANT} | W0 S2"]) == [1 + 25]


def test_the_sub_core_served_longest_ago_goes_first():
    """The second constants of the warps come in the order of the first ones, all behind those."""
    lines = [f"{CONSTANT} | W1 S1", f"{CONSTANT} | W0 S2"]
    assert done(lines, warps=4) == [33, 35, 37, 39]


def test_a_fifth_waits_for_room_in_the_queue_of_its_sub_core():
    """H200: LDC of a warp leave the queue 8 cycles after their issue, four at a time."""
    result = run([f"{CONSTANT} | W0 S1"] * 12 + [END])
    assert issues(result)[:12] == [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19]
    result = run([f"{CONSTANT} | W0 S1"] * 6 + [END], machine(address_divergence__queue_entries=2))
    assert issues(result)[:6] == [0, 1, 8, 9, 16, 17]
    result = run([f"{CONSTANT} | W0 S1"] * 6 + [END], machine(address_divergence__queue_latency_cycles=10))
    assert issues(result)[:6] == [0, 1, 2, 3, 11, 12]


def test_one_waits_for_room_before_the_unit_and_keeps_its_place_in_the_queue():
    """H200: 24 LDC of each of four warps, at first one sent a cycle, from the eleventh on one every 2 cycles."""
    lines = [f"{CONSTANT} | W0 S2"] * 8 + [END]
    assert [issues(run(lines, warps=4), warp)[4:8] for warp in range(4)] == [
        [8, 12, 16, 23], [9, 13, 17, 25], [10, 14, 19, 27], [11, 15, 21, 29],
    ]  # fmt: skip
    small = run(lines, machine(address_divergence__pool_entries=1), warps=4)
    assert [issues(small, warp)[4:6] for warp in range(4)] == [[8, 15], [9, 17], [11, 19], [13, 21]]


@pytest.mark.parametrize("interval", [1, 3])
def test_its_interval_is_a_value(interval):
    arch = machine(address_divergence__interval_cycles=interval)
    assert done([f"{CONSTANT} | W0 S2"], warps=4, arch=arch) == [25 + interval * warp for warp in range(4)]


def test_a_reduction_keeps_the_way_of_its_sub_core_for_its_interval():
    """H200: REDUX of one warp every 4 cycles, of four warps every 8 each."""
    lines = ["REDUX.SUM UR4, R8 | W0 S1"] * 3
    assert done(lines) == [38 + 4 * 2]
    assert done(lines, warps=4) == [38 + 8 * 2 + 2 * warp for warp in range(4)]


def test_without_control_words_the_scoreboard_waits_for_it():
    lines = [CONSTANT, "IADD3 R5, R4, R4, RZ", "EXIT"]
    assert [issues(run(lines, warps=2), warp)[1] for warp in range(2)] == [25, 27]


def test_a_full_queue_is_math_pipe_throttle():
    stalls = run([f"{CONSTANT} | W0 S1"] * 5 + [END]).warps[0].stalls
    assert stalls["math_pipe_throttle"] == 4


INDEXED = "LDC R4, c[0x0][R8]"


def released(line: str, arch=None) -> int:
    """When the instruction behind the line, which waits for its sources to be read, issues."""
    return issues(run([f"{line} | R0 W1 S2", "NOP | B0 S2", END], arch))[1]


@pytest.mark.parametrize("line", [INDEXED, "LDC.64 R4, c[0x3][R8+0x10]", "LDC.U8 R4, c[0x0][R8]"])
def test_an_address_register_makes_a_constant_late_and_is_kept_until_it_comes(line):
    """H200: 28 cycles for both, where an address without a register takes 25 and counts as read after 9."""
    assert done([f"{line} | W0 S2"]) == [28]
    assert released(line) == 28
    assert released(CONSTANT) == 9
    assert done(["LDC R4, c[0x0][RZ] | W0 S2"]) == [25]


@pytest.mark.parametrize("line", ["REDUX.SUM UR4, R8", "MATCH.ANY R4, R8"])
def test_the_source_of_what_is_sent_with_a_register_is_released_a_cycle_later(line):
    """H200: loops of REDUX by one warp and by one warp of each sub-core, which write the source anew, are to the cycle."""
    assert released(line) == 10
    assert released(line, machine(mio__cycles_per_source_register=5)) == 13
    slow = machine(operations__reduction__issue_interval_cycles=9, operations__match__issue_interval_cycles=9)
    assert released(line, slow) == 10


def test_when_a_source_is_released_is_a_value():
    assert released(CONSTANT, machine(address_divergence__source_release_cycles=4)) == 12


def test_the_values_of_indexed_constants_are_the_architecture_s():
    arch = machine(operations__indexed_constant_load__latency_cycles=40)
    assert (done([f"{INDEXED} | W0 S2"], arch=arch), released(INDEXED, arch)) == ([40], 40)
    slow = machine(operations__indexed_constant_load__issue_interval_cycles=6)
    assert done([f"{INDEXED} | W0 S2"] * 3, arch=slow) == [28 + 2 * 6]
    assert (done([f"{INDEXED} | W0 S2"], arch=machine("sm_86")), released(INDEXED, machine("sm_86"))) == ([29], 29)


def test_indexed_constants_of_a_sub_core_come_every_4_cycles():
    """H200: 1 to 10 of one warp."""
    for count in (2, 5, 10):
        assert done([f"{INDEXED} | W0 S2"] * count) == [28 + 4 * (count - 1)]
    assert issues(run([f"{INDEXED} | W0 S1"] * 8 + [END]))[:8] == [0, 1, 2, 3, 11, 15, 19, 23]


@pytest.mark.parametrize(("pairs", "cycle"), [(1, 30), (2, 35), (3, 41)])
def test_constants_with_and_without_a_register_come_in_order(pairs, cycle):
    """H200: pairs of both, one behind the other, whichever is first."""
    for first, second in ((CONSTANT, INDEXED), (INDEXED, CONSTANT)):
        assert done([f"{first} | W0 S2", f"{second} | W0 S2"] * pairs) == [cycle]
