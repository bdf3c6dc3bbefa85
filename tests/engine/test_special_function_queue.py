"""The queue of the special-function unit: how many leave back to back, when the next may, what the queue adds."""

from __future__ import annotations

import pytest
from probes import gaps, issues, machine, run

END = "EXIT | S5"


def reciprocals(count: int, **overrides) -> list[int]:
    return issues(run([f"MUFU.RCP R{4 + n}, R0 | S1" for n in range(count)] + [END], machine(**overrides)))[:count]


def test_two_leave_back_to_back_the_third_when_the_first_is_taken_and_the_others_every_eight_cycles():
    """H200: the first is taken 13 cycles after its issue."""
    assert reciprocals(8) == [0, 1, 13, 21, 29, 37, 45, 53]


@pytest.mark.parametrize("entries", [1, 3, 4])
def test_the_entries_of_the_queue_are_a_value(entries):
    cycles = reciprocals(8, special_function__queue_entries=entries)
    assert cycles[: entries + 1] == [*range(entries), 13]
    taken = [13 + 8 * n for n in range(8)] if entries > 1 else [13 * (n + 1) for n in range(8)]
    assert cycles[entries:] == taken[: 8 - entries]


@pytest.mark.parametrize("latency", [5, 20])
def test_its_latency_is_a_value(latency):
    assert reciprocals(3, special_function__queue_latency_cycles=latency) == [0, 1, latency]


def test_a_result_comes_17_cycles_after_the_issue_and_later_by_what_it_waits_in_the_queue():
    """H200: 17 cycles alone; the second of two is taken 8 cycles behind the first, issued 1 behind."""
    assert issues(run(["MUFU.RCP R4, R0 | W0 S2", "FADD R5, R4, R4 | B0 S4", END]))[1] == 17
    lines = ["MUFU.RCP R4, R0 | W0 S1", "MUFU.RCP R6, R0 | W1 S1", "FADD R5, R6, R6 | B1 S4", END]
    assert issues(run(lines))[2] == 17 + 8


def test_the_scoreboard_knows_of_the_wait_too():
    lines = ["MUFU.RCP R4, R0", "MUFU.RCP R6, R0", "FADD R5, R6, R6", "EXIT"]
    assert issues(run(lines))[2] == 17 + 8


def test_conversions_wait_in_the_same_queue():
    """H200: they share it with MUFU."""
    lines = ["POPC R4, R0 | S1", "MUFU.RCP R5, R0 | S1", "I2F R6, R0 | S1", END]
    assert issues(run(lines))[:3] == [0, 1, 13]


def test_warps_of_a_sub_core_share_the_queue_and_sub_cores_have_one_each():
    result = run(["MUFU.RCP R4, R0 | S1"] * 2 + [END], warps=5)
    together = sorted(issues(result, 0)[:2] + issues(result, 4)[:2])
    assert together == [0, 1, 13, 21]
    assert [issues(result, warp)[:2] for warp in (1, 2, 3)] == [[0, 1]] * 3


def test_a_full_queue_holds_back_nothing_else():
    lines = [*(f"MUFU.RCP R{n}, R0 | S1" for n in (4, 5)), *["IADD3 R8, R0, R0, RZ | S2"] * 4, END]
    assert set(gaps(issues(run(lines))[2:6])) == {2}


def test_warps_take_turns_when_the_queue_is_full():
    """H200: four warps of a sub-core with twelve MUFU each, whose results they wait for: none waits to the end.

    The last ends 40 to 99 cycles behind the first, in 16 launches of these behind a barrier and up to three NOPs.
    """
    lines = ["MUFU.EX2 R4, R0 | W0 S1", "FMUL R5, R4, R0 | B0 S4"] * 12
    result = run([*lines, END], warps=16)
    last = [issues(result, warp)[-1] for warp in (0, 4, 8, 12)]
    assert max(last) - min(last) <= 12 * 8
    assert max(last) <= 12 * 4 * 8 + 40
