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
    assert first == [0, 0, 0, 0, 7]  # warps 0 and 4 live on sub-core 0, each has its turn


def test_with_control_words_the_stall_count_alone_separates_dependent_instructions():
    lines = [SUM + " | S3", "IADD3 R2, R1, R0, RZ | S5", "EXIT | S5"]
    assert issues(run(lines)) == [0, 3, 8]
    arch = machine(operations__integer__latency_cycles=9)
    assert issues(run(lines, arch)) == [0, 3, 8]
