"""The path on which the data of stores follow their addresses, and the registers of it that the SM holds."""

from __future__ import annotations

from itertools import pairwise

import pytest
from probes import builder, emit, issues, machine

import gpuemu

LANES = {"": "4*lane", ".64": "8*lane", ".128": "16*lane"}


def read_after(sub_cores: int, opcodes: list[str], **overrides: object) -> list[list[int]]:
    """When stores issued every 2 cycles by each of so many sub-cores have been read, counted from the first issue."""
    trace = builder(sub_cores)
    for i, opcode in enumerate(opcodes):
        address = "[R0.64]" if opcode.startswith("STG") else "[R0]"
        width = next(w for w in (".128", ".64", "") if opcode.endswith(w))
        emit(trace, f"{opcode} {address}, R4 | R{i} S2", LANES[width])
    for i in range(len(opcodes)):
        emit(trace, f"NOP | B{i} S2")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine(**overrides))
    first = min(issues(result, warp)[0] for warp in range(sub_cores))
    return [[cycle - first for cycle in issues(result, warp)[len(opcodes) : -1]] for warp in range(sub_cores)]


@pytest.mark.parametrize(
    ("opcode", "first"),
    [("STS", [11, 11, 11, 11]), ("STS.64", [13, 13, 14, 15]), ("STS.128", [17, 17, 20, 23]),
     ("STG.E", [13, 13, 14, 15]), ("STG.E.64", [15, 15, 17, 19]), ("STG.E.128", [19, 19, 23, 27])],
)  # fmt: skip
def test_stores_of_several_sub_cores_take_turns_register_by_register(opcode, first):
    """H200: all are read a cycle apart, the first of 1, 2, 3, 4 sub-cores so many cycles behind the issue."""
    for sub_cores, cycle in enumerate(first, 1):
        found = [read for (read,) in read_after(sub_cores, [opcode])]
        assert found == [cycle + i for i in range(sub_cores)]


def test_the_register_that_has_waited_longest_goes_first():
    """H200: six STS.64 of three sub-cores behind one another; the first sub-core's second one waits for nobody."""
    assert read_after(3, ["STS.64"] * 6) == [
        [14, 20, 26, 33, 40, 47],
        [15, 22, 29, 36, 43, 50],
        [16, 23, 30, 37, 44, 51],
    ]


def test_a_wider_path_lets_two_of_them_go_on_together():
    assert read_after(4, ["STS.128"], mio__data_registers_per_cycle=2) == [[17], [18], [19], [20]]


def test_the_sm_holds_so_many_registers_of_stores_data():
    """H200: the third of six STS.128 of the last of three sub-cores waits until the first ones are done."""
    measured = [[20, 32, 42, 53, 68, 81], [21, 34, 45, 60, 73, 84], [22, 35, 52, 65, 76, 89]]
    assert read_after(3, ["STS.128"] * 6) == measured
    free = read_after(3, ["STS.128"] * 6, mio__store_data_registers=1000)
    assert [reads[2] for reads in free] == [44, 47, 48]


def test_those_of_global_stores_are_held_longer():
    """H200: six STG.128 of three sub-cores: 38, 50, 65, 83, 97 | 40, 53, 74, 89, 104 | 41, 64, 80, 94, 107."""
    found = read_after(3, ["STG.E.128"] * 6)
    measured = [[23, 38, 50, 65, 83, 97], [24, 40, 53, 74, 89, 104], [25, 41, 64, 80, 94, 107]]
    assert found == [pytest.approx(reads, abs=2) for reads in measured]


def test_stores_to_global_memory_wait_for_room_among_those_that_have_not_left():
    """H200: of 20 STG.128 of four sub-cores the last ones issue 64 cycles apart, the path's 16 for each."""
    trace = builder(4)
    for _ in range(20):
        emit(trace, "STG.E.128 [R0.64], R4 | S4", "16*lane")
    emit(trace, "EXIT | S5")

    def last_gaps(**overrides: object) -> list[int]:
        return [b - a for a, b in pairwise(issues(gpuemu.run(trace.build(), machine(**overrides)))[-6:-1])]

    assert last_gaps() == [64] * 4
    assert max(last_gaps(mio__store_pool_wavefronts=10_000)) <= 24
