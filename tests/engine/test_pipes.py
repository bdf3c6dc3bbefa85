"""Fixed-latency pipes: when the next instruction is accepted, and when a result can be used."""

from __future__ import annotations

import pytest
from probes import issues, machine, run

SUM = "IADD3 R1, R0, R0, RZ"


@pytest.mark.parametrize("interval", [1, 2, 5])
def test_a_pipe_accepts_an_instruction_when_the_interval_of_the_one_before_it_has_passed(interval):
    arch = machine(operations__integer__issue_interval_cycles=interval)
    assert issues(run([SUM, "IADD3 R2, R0, R0, RZ", "EXIT"], arch))[:2] == [0, interval]


def test_instructions_of_two_pipes_do_not_wait_for_each_other():
    assert issues(run([SUM, "FFMA R2, R0, R0, R0", "IMAD R3, R0, R0, R0", "EXIT"])) == [0, 1, 2, 3]


def test_two_classes_on_one_pipe_share_it():
    """H200: two enter the queue of the special-function unit back to back, the third when the first is taken."""
    assert issues(run(["MUFU.RCP R1, R0", "MUFU.RCP R3, R0", "I2F R2, R0", "EXIT"]))[:3] == [0, 1, 13]
    assert issues(run(["MUFU.RCP R2, R0", SUM, "EXIT"]))[:2] == [0, 1]


def test_classes_may_be_moved_to_another_pipe():
    arch = machine(operations__conversion__pipe="alu")
    assert issues(run(["MUFU.RCP R1, R0", "MUFU.RCP R3, R0", "I2F R2, R0", "EXIT"], arch))[:3] == [0, 1, 2]


@pytest.mark.parametrize(("pipe", "last"), [("fp64", [32] * 4), ("sm_fp64", [80, 96, 112, 128])])
def test_a_pipe_of_the_sm_takes_the_instructions_of_all_sub_cores_one_after_another(pipe, last):
    """GA102 has two FP64 lanes an SM: four sub-cores get one each 64 cycles, who is alone one each 16."""
    arch = machine("sm_86", operations__fp64__pipe=pipe)
    lines = [f"DADD R{2 * i}, R20, R22 | S01" for i in range(3)] + ["EXIT"]
    result = run(lines, arch, warps=4)
    assert [issues(result, warp)[2] for warp in range(4)] == last
    assert issues(run(lines, arch))[:3] == [0, 16, 32]


@pytest.mark.parametrize("latency", [2, 4, 9])
def test_a_result_can_be_used_when_the_latency_has_passed(latency):
    arch = machine(operations__integer__latency_cycles=latency)
    assert issues(run([SUM, "IADD3 R2, R1, R0, RZ", "EXIT"], arch))[:2] == [0, latency]


@pytest.mark.parametrize(
    ("line", "latency"),
    [("FFMA R1, R0, R0, R0", 4), ("IMAD.WIDE R1, R0, R0, R0", 5), ("HFMA2 R1, R0, R0, R0", 5),
     ("DFMA R1, R0, R0, R0", 8), ("MUFU.RCP R1, R0", 17), ("S2R R1, SR_TID.X", 23)],
)  # fmt: skip
def test_every_class_has_its_own_latency(line, latency):
    assert issues(run([line, "IADD3 R3, R1, R1, RZ", "EXIT"]))[:2] == [0, latency]


def test_warps_of_one_sub_core_share_its_pipes_and_those_of_another_do_not():
    result = run(["FCHK R1, R0", "EXIT"], machine(operations__integer__issue_interval_cycles=7), warps=5)
    first = [issues(result, warp)[0] for warp in range(5)]
    assert first == [7, 0, 0, 0, 0]  # warps 0 and 4 live on sub-core 0, each has its turn


def test_with_control_words_the_stall_count_alone_separates_dependent_instructions():
    lines = [SUM + " | S3", "IADD3 R2, R1, R0, RZ | S5", "EXIT | S5"]
    assert issues(run(lines)) == [0, 3, 8]
    arch = machine(operations__integer__latency_cycles=9)
    assert issues(run(lines, arch)) == [0, 3, 8]


HALVES = {"f": "FFMA R{d}, R0, R1, RZ", "i": "IMAD R{d}, R0, R1, RZ", "h": "HFMA2 R{d}, R0, R1, RZ",
          "w": "IMAD.WIDE.U32 R{d}, R0, R1, RZ", "a": "IADD3 R{d}, R0, R1, RZ", "-": "NOP"}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "late"),
    [
        ("ff fi if ffff ifi fffi fa h-f h-i", 0),
        ("fh hf hi ih ii hh ffi fih hff ffh", 1),
        ("fhf fhi fhh ihf ihi hfh", 2),
    ],
)
def test_the_fma_pipe_has_two_halves(words, late):
    """H200: FFMA goes to either half, the light one first, IMAD to the heavy one, HFMA2 to both, each for 2 cycles."""
    for word in words.split():
        assert lateness(word) == late, word


@pytest.mark.parametrize(
    ("words", "late"), [("w fw aw wf wa w-f w-i w-a", 2), ("wi wh iw hw ffw fwi fwh wif iwf", 3), ("w-w", 4), ("ww", 5)]
)
def test_a_wide_multiplication_keeps_the_sub_core_two_cycles_more(words, late):
    """H200: its stall count runs from then."""
    for word in words.split():
        assert lateness(word) == late, word


def test_no_other_warp_of_the_sub_core_issues_meanwhile():
    """H200: of two warps with IMAD.WIDE and three NOP each one runs alone, 6 cycles a round."""
    result = run([HALVES["w"].format(d=4) + " | S1", "NOP | S1", "NOP | S1", "NOP | S1", "EXIT | S5"], warps=5)
    assert issues(result, 4)[:4] == [0, 1, 4, 5]
    assert issues(result, 0)[0] > 5


def lateness(word: str) -> int:
    """How much later than its stall counts, 1 each and 3 of the last, such a sequence ends."""
    lines = [HALVES[kind].format(d=4 + 2 * (i % 8)) + " | S1" for i, kind in enumerate(word)]
    lines[-1] = lines[-1].replace("S1", "S3")
    return issues(run([*lines, "EXIT | S5"]))[-1] - (len(word) - 1 + 3)
