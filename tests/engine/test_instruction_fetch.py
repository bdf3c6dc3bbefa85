"""Instruction fetch: a taken branch and what another warp of the sub-core issues meanwhile, as on an H200."""

from __future__ import annotations

import pytest
from probes import builder, emit, issues, machine

import gpuemu

SLOTS = 8
BRANCH_AT = 27


def beside(behind: int, place: int, *words: str, target: int = 2, **values: int) -> tuple[int, list[int]]:
    """Two warps of a sub-core. One takes a branch to the place `target` of a line, the other rests and then issues NOPs
    with the control words `words`, from `place` of a line on and so many cycles `behind` the branch.

    From the branch to its target's issue, and when the NOPs issue, counted from the branch.
    """
    trace = builder(5)
    emitted = 0

    def put(warp: int, *lines: str) -> None:
        nonlocal emitted
        for line in lines:
            with trace.only(warps=warp):
                emit(trace, line)
            emitted += 1

    def pad(until: int) -> None:
        """Code of a warp of another sub-core, up to that place of a line."""
        while emitted % SLOTS != until:
            put(1, "NOP | S1")

    put(0, "NOP | S15 Y", "NOP | S11", f"BRA {16 * (SLOTS + target):#x} | S5")
    while emitted < SLOTS + target:
        put(1, "NOP | S1")
    put(0, "NOP | S15 Y")
    pad((place - 3) % SLOTS)
    rest = behind + BRANCH_AT - 15
    put(4, "NOP | S15 Y", f"NOP | S{rest - rest // 2}", f"NOP | S{rest // 2}", *(f"NOP | {word}" for word in words))
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(**values))
    branching, other = issues(result, 0), issues(result, 4)
    assert branching[2] == BRANCH_AT
    return branching[3] - BRANCH_AT, [cycle - BRANCH_AT for cycle in other[3:-1]]


@pytest.mark.parametrize(("behind", "place", "takes"), [(3, 7, 13), (2, 7, 10), (4, 7, 10), (3, 6, 10), (3, 0, 10)])
def test_who_leaves_a_line_three_cycles_behind_a_branch_has_its_next_line_first(behind, place, takes):
    assert beside(behind, place, "S15 Y") == (takes, [behind])


def test_the_branch_then_waits_as_long_as_a_line_waits_for_the_one_before_it():
    assert beside(3, 7, "S15 Y", issue__next_line_cycles=12)[0] == 10
    assert beside(4, 7, "S15 Y", issue__next_line_cycles=12)[0] == 12


@pytest.mark.parametrize(
    ("behind", "place", "words", "target", "takes"),
    [
        (5, 1, ("S1", "S11"), 2, 11),
        (5, 1, ("S1", "S11"), 3, 10),
        (5, 0, ("S1", "S11"), 2, 10),
        (5, 0, ("S1", "S11"), 3, 11),
        (1, 1, ("S5", "S11"), 2, 11),
        (6, 2, ("S11",), 2, 10),
        (5, 1, ("S1", "S15 Y"), 2, 10),
    ],
    ids=["even_and_even", "even_and_odd", "odd_and_even", "odd_and_odd", "some_cycles_apart", "alone", "it_yields"],
)
def test_a_warp_that_goes_on_gets_its_instruction_before_a_branch_in_the_same_bank(behind, place, words, target, takes):
    assert beside(behind, place, *words, target=target)[0] == takes


@pytest.mark.parametrize(
    ("behind", "place", "takes", "cycles"),
    [(7, 1, 11, [7, 8, 9, 10, 12, 13]), (7, 2, 13, [7, 8, 9, 10, 11, 12]), (8, 2, 12, [8, 9, 10, 11, 13, 14]),
     (8, 3, 14, [8, 9, 10, 11, 12, 13])],
)  # fmt: skip
def test_a_warp_that_begins_while_the_branchs_buffer_is_filled_runs_dry_at_its_fifth(behind, place, takes, cycles):
    assert beside(behind, place, *["S1"] * 5, "S11") == (takes, cycles)


def test_in_a_line_of_one_bank_it_does_from_wherever_it_begins():
    for place in (1, 2):
        assert beside(7, place, *["S1"] * 6, issue__instruction_banks=1)[1][:5] == [7, 8, 9, 10, 12]


def test_with_a_larger_buffer_it_runs_dry_later():
    assert beside(7, 1, *["S1"] * 8, issue__instruction_buffer_entries=6)[1] == [7, 8, 9, 10, 11, 12, 14, 15]


def test_a_warp_that_has_branched_is_not_preferred_when_its_code_is_there():
    assert beside(10, 1, "S11") == (11, [10])
