"""What an instruction waits for: the counters of the control words, or a scoreboard over registers."""

from __future__ import annotations

import pytest
from probes import builder, completions, emit, gaps, issues, machine, run

import gpuemu
from gpuemu import GpuemuError

END = "EXIT | S5"


# --- control words --------------------------------------------------------------------------------------


def test_a_wait_mask_holds_until_the_result_is_there_and_not_a_cycle_longer():
    assert issues(run(["LDS R4, [R0] | W0 S2", "IADD3 R5, R4, R4, RZ | B0 S4", END])) == [0, 23, 27]


def test_a_counter_that_is_not_in_the_mask_does_not_hold():
    assert issues(run(["LDS R4, [R0] | W0 S2", "IADD3 R5, R4, R4, RZ | B1 S4", END])) == [0, 2, 6]


@pytest.mark.parametrize(("stall", "seen", "waits"), [(1, 2, False), (1, 1, True), (2, 2, True), (2, 3, False)])
def test_a_counter_is_not_seen_in_the_cycle_behind_what_raises_it(stall, seen, waits):
    """A100: what waits for it there reads stale data; one that is up already is waited for until both are there."""
    lines = [f"LDS R4, [R0] | W0 S{stall}", "IADD3 R5, R4, R4, RZ | B0 S4", END]
    arch = machine(issue__counter_seen_cycles=seen)
    assert issues(run(lines, arch))[1] == (23 if waits else stall)
    first = "LDS R6, [R0] | W0 S1"
    assert issues(run([first, *lines], arch))[2] > 20


def test_every_counter_of_the_mask_must_be_clear():
    lines = ["MUFU.RCP R4, R0 | W3 S1", "LDS R5, [R0] | W5 S1", "FFMA R6, R4, R5, R5 | B35 S4", END]
    assert issues(run(lines)) == [0, 1, 26, 30]


@pytest.mark.parametrize(
    ("first", "seen"), [("MOVM.16.MT88 R5, R0 | W0 S1", 25), ("MOVM.16.MT88 R5, R0 | W1 S1", 25), ("NOP | S1", 25)]
)
def test_a_load_that_is_there_with_another_result_of_its_counter_is_seen_as_late_as_alone(first, seen):
    """A counter's fall is a load's if the last that holds it up is one, or one of the last: both are there after 24."""
    lines = [first, "LDS R4, [R0] | W0 S1", *["NOP | S1"] * 22, "FFMA R6, R4, R5, R5 | B0 S4", END]
    assert issues(run(lines))[24] == seen


def test_a_counter_raised_twice_falls_with_the_later_of_them():
    lines = ["LDS R4, [R0] | W0 S1", "LDS R5, [R0] | W0 S1", "FFMA R6, R4, R5, R5 | B0 S4", END]
    first, second, use, _ = issues(run(lines))
    assert (first, second, use) == (0, 1, 11 + 2 + 12)


@pytest.mark.parametrize(
    ("line", "released"),
    [("LDS R4, [R0]", 8), ("LDS.128 R4, [R0]", 8), ("STS [R0], R4", 11), ("STS.64 [R0], R4", 13),
     ("STS.128 [R0], R4", 17)],
)  # fmt: skip
def test_a_read_counter_falls_when_the_sources_are_read(line, released):
    """H200: 8 cycles after a load of any width; 7 and 2 for each register after a store."""
    assert issues(run([f"{line} | R1 S2", "IADD3 R4, R0, R0, RZ | B1 S4", END], lanes="16*lane"))[:2] == [
        0,
        released,
    ]


@pytest.mark.parametrize("line", ["LDS R4, [R0]", "LDSM.16.M88 R4, [R0]", "SHFL.IDX PT, R4, R0, R1, 0x1f"])
@pytest.mark.parametrize(("stall", "before", "waits"), [(1, 1, 1), (1, 0, 1), (1, -1, 0), (2, 0, 0), (3, 0, 0)])
def test_a_load_that_is_there_in_the_first_cycle_right_behind_the_instruction_before_is_not_seen_yet(
    line, stall, before, waits
):
    """H200 (prefixes of mix_shared_031, mix_barrier_023): only with a stall count of 1; who waits is told in time.

    `before`: how many cycles before it is there the next could issue.
    """
    there = issues(run([f"{line} | W0 S2", "IADD3 R5, R4, R4, RZ | B0 S4", END], lanes="16*lane"))[1]
    fill = there - before - stall
    lines = [f"{line} | W0 S1", *["NOP | S1"] * (fill - 1), f"NOP | S{stall}", "IADD3 R5, R4, R4, RZ | B0 S4", END]
    issued = issues(run(lines, lanes="16*lane"))[fill + 1]
    assert issued == there - before + waits


@pytest.mark.parametrize(
    ("line", "use", "latency"),
    [("S2R R4, SR_TID.X", "IADD3 R5, R4, R4, RZ", 23), ("S2UR UR4, SR_CTAID.X", "UIADD3 UR5, UR4, UR4, URZ", 35),
     ("REDUX.SUM UR4, R0", "UIADD3 UR5, UR4, UR4, URZ", 38), ("MATCH.ANY R4, R0", "IADD3 R5, R4, R4, RZ", 28),
     ("MOVM.16.MT88 R4, R0", "IADD3 R5, R4, R4, RZ", 24), ("LDC R4, c[0x0][0x210]", "IADD3 R5, R4, R4, RZ", 25)],
)  # fmt: skip
@pytest.mark.parametrize("after", [-1, 0, 1])
def test_what_uses_such_a_result_waits_until_it_is_there_and_no_longer(line, use, latency, after):
    """H200, single warp. What comes at the latency or behind it does not wait, what comes a cycle earlier waits one."""
    between = latency + after - 1
    lines = [f"{line} | W0 S1", *["NOP | S1"] * between, f"{use} | B0 S4", END]
    assert issues(run(lines))[between + 1] == max(latency, between + 1)


def test_a_special_unit_raises_its_counters_for_its_latency():
    assert issues(run(["MUFU.RCP R4, R0 | W2 S1", "FFMA R6, R4, R5, R5 | B2 S4", END])) == [0, 17, 21]


def test_a_fixed_latency_instruction_that_raises_a_counter_holds_it_for_its_latency():
    """FP64 on chips with few lanes for it."""
    lines = ["DFMA R4, R2, R2, R4 | W2 S1", "DADD R6, R4, R4 | B2 S4", END]
    assert issues(run(lines, machine("sm_89")))[:2] == [0, 55]


def test_a_wait_that_is_over_costs_nothing():
    lines = ["LDS R4, [R0] | W0 S15", "FFMA R6, R5, R5, R5 | S15", "FFMA R7, R4, R5, R5 | B0 S4", END]
    assert issues(run(lines)) == [0, 15, 30, 34]


def test_a_barrier_holds_although_what_comes_after_it_waits_for_something_decided_later_and_earlier_over():
    trace = builder(16)
    emit(trace, "LDS R4, [R0] | W0 S1")
    emit(trace, "BAR.SYNC 0x0 | S1")
    emit(trace, "STS [R0], R4 | B0 S4")
    emit(trace, END)
    result = gpuemu.run(trace.build(), machine())
    opens = 7 + 2 + 12  # eight issue slots a sub-core; the last four arrivals come together
    assert all(issues(result, w)[2] >= opens for w in range(16))


# --- counting waits ---------------------------------------------------------------------------------------


def copies(keep: int, groups: int = 3) -> list[int]:
    """Issue cycles of groups of asynchronous copies and the DEPBAR that lets `keep` of them be."""
    lines = []
    for _ in range(groups):
        lines += ["LDGSTS.E.BYPASS.128 [R2], [R4.64] | S2", "LDGDEPBAR | W0 S15"]
    lines += [f"DEPBAR.LE SB0, {keep:#x} | S4", "BAR.SYNC 0x0 | S4", END]
    result = run(lines, lanes="16*lane")
    done = completions(result, 0)[1::2]
    return [issues(result)[2 * groups], *done]


@pytest.mark.parametrize("keep", [0, 1, 2])
def test_depbar_waits_until_all_but_so_many_groups_of_copies_are_there(keep):
    waited, *done = copies(keep)
    assert done == sorted(done)
    assert waited == done[2 - keep]


@pytest.mark.parametrize(("mask", "waits"), [("B1", True), ("B-", False)])
def test_depbar_waits_for_the_counters_of_its_mask_too(mask, waits):
    """Whatever groups it lets be, and whichever counter it names itself."""
    lines = ["LDGSTS.E.BYPASS.128 [R2], [R4.64] | S2", "LDGDEPBAR | W0 S2", "LDS.128 R8, [R2] | W1 S2"]
    control = f"{mask} S4" if waits else "S4"
    result = run([*lines, f"DEPBAR.LE SB0, 0x1 | {control}", END], lanes="128*lane")
    there = completions(result)[2]
    assert issues(result)[3] == (there if waits else 6)
    assert there > 20


def test_depbar_that_lets_all_of_them_be_does_not_wait():
    waited, *_ = copies(3)
    assert waited == 3 * 17


def test_without_control_words_depbar_counts_groups_and_nothing_else():
    for keep in (0, 1):
        lines = ["STG.E [R8.64], R9"]
        for _ in range(2):
            lines += ["LDGSTS.E.BYPASS.128 [R2], [R4.64]"] * 2 + ["LDGDEPBAR"]
        result = run([*lines, f"DEPBAR.LE SB0, {keep:#x}", "EXIT"], lanes="16*lane")
        commits = [completions(result, 0)[i] for i in (3, 6)]
        assert issues(result)[7] == commits[1 - keep]


def test_a_group_is_there_when_every_copy_in_it_is():
    lines = ["LDGSTS.E.BYPASS.128 [R2], [R4.64] | S2"] * 8 + [
        "LDGDEPBAR | W0 S2",
        "DEPBAR.LE SB0, 0x0 | S4",
        END,
    ]
    result = run(lines, lanes="16*lane")
    done = completions(result, 0)
    assert done[8] == max(done[:8])
    assert issues(result)[9] == done[8]


def test_groups_count_in_the_order_in_which_they_were_issued():
    """The second load is there before the first; to let one be is to let the second be."""
    lines = ["LDG.E R4, [R8.64] | W0 S2", "LDS R5, [R0] | W0 S15", "DEPBAR.LE SB0, 0x1 | S4", END]
    result = run(lines)
    assert issues(result)[2] == completions(result, 0)[0] > 500


def test_depbar_waits_for_the_counters_in_its_braces_too():
    lines = ["LDS R4, [R0] | W0 S2", "LDG.E R5, [R8.64] | W2 S2", "DEPBAR.LE SB0, 0x0, {2,1} | S4", END]
    result = run(lines)
    assert issues(result)[2] == completions(result, 0)[1] > 500


# --- the scoreboard ---------------------------------------------------------------------------------------


def test_an_instruction_waits_for_what_it_reads():
    assert issues(run(["LDS R4, [R0]", "IADD3 R5, R4, R4, RZ", "EXIT"])) == [0, 23, 24]


def test_and_for_what_it_overwrites():
    assert issues(run(["LDS R4, [R0]", "IADD3 R4, R1, R1, RZ", "EXIT"]))[:2] == [0, 23]


def test_and_for_readers_of_what_it_overwrites_until_they_have_read():
    assert issues(run(["LDS R4, [R0]", "IADD3 R0, R1, R1, RZ", "EXIT"]))[:2] == [0, 8]
    assert issues(run(["STS [R0], R4", "IADD3 R4, R1, R1, RZ", "EXIT"]))[:2] == [0, 11]


def test_and_for_a_special_unit_s_result():
    assert issues(run(["MUFU.RCP R4, R0", "FFMA R5, R4, R4, R4", "EXIT"])) == [0, 17, 18]
    assert issues(run(["MUFU.RCP R4, R0", "FFMA R4, R1, R1, R1", "EXIT"])) == [0, 17, 18]


def again(line: str, first: str, **overrides) -> int:
    """How long behind a line of a loop its first instruction issues again, the very first of the code."""
    trace = builder()
    with trace.repeat(2):
        for each in (first, line, "@P0 BRA 0x0"):
            emit(trace, each)
    emit(trace, "EXIT")
    cycles = issues(gpuemu.run(trace.build(), machine(**overrides)))
    return cycles[3] - cycles[1]


def test_the_first_instruction_of_the_code_waits_as_any_other_does():
    assert again("LDS R4, [R0]", "IADD3 R5, R4, R4, RZ") == 23
    release = {"mio__store_source_release_cycles": 30}
    assert again("STS [R0], R4", "IADD3 R4, R1, R1, RZ", **release) == 30


def test_every_reader_must_have_read_not_only_the_last():
    arch = machine(mio__store_source_release_cycles=30)
    assert issues(run(["STS [R0], R4", "LDS R5, [R0]", "IADD3 R0, R1, R1, RZ", "EXIT"], arch))[:3] == [0, 1, 30]


def test_it_does_not_wait_for_anything_else():
    assert issues(run(["LDS R4, [R0]", "IADD3 R5, R1, R1, RZ", "EXIT"])) == [0, 1, 2]


def test_every_register_of_a_wide_result_is_waited_for():
    for register in (4, 5, 6, 7):
        result = run(["LDS.128 R4, [R0]", f"IADD3 R9, R{register}, R1, RZ", "EXIT"], lanes="16*lane")
        assert issues(result)[:2] == [0, 32]
    assert issues(run(["LDS.128 R4, [R0]", "IADD3 R9, R8, R1, RZ", "EXIT"], lanes="16*lane"))[:2] == [0, 1]


def test_a_guard_is_read():
    assert issues(run(["ISETP.NE.AND P0, PT, R0, R1, PT", "@P0 FFMA R2, R3, R3, R3", "EXIT"]))[:2] == [0, 4]


def test_warps_have_registers_and_counters_of_their_own():
    lines = ["LDS R4, [R0] | W0 S2", "IADD3 R5, R4, R4, RZ | B0 S4", END]
    assert [issues(run(lines, warps=4), w)[1] for w in range(4)] == [23, 24, 25, 26]


# --- the mode ---------------------------------------------------------------------------------------------


def test_the_scoreboard_can_be_asked_for_where_there_are_control_words():
    lines = ["LDS R4, [R0] | S2", "IADD3 R5, R4, R4, RZ | S4", END]
    assert issues(run(lines)) == [0, 2, 6]
    assert issues(run(lines, machine(issue__dependences="register_scoreboard"))) == [0, 23, 24]


def test_control_words_cannot_be_asked_for_where_there_are_none():
    with pytest.raises(GpuemuError) as caught:
        run([f"NOP | S{1}", "EXIT"], machine(issue__dependences="control_words"))
    assert str(caught.value).startswith("<builder>: code at 0x0010: the instruction has no control word")


def test_one_instruction_without_a_control_word_makes_a_trace_one_without():
    assert gaps(issues(run(["LDS R4, [R0] | W0 S2", "IADD3 R5, R4, R4, RZ", "EXIT"]))) == [23, 1]


def test_a_stall_count_of_zero_is_taken_as_one():
    assert issues(run(["NOP | S0", END])) == [0, 1]
