"""Results that come back from shared memory give way to what an mma or the special-function unit writes.

All cycles are an H200's (sm_90), as in test_sender.
"""

from __future__ import annotations

import pytest
from probes import issues, machine, run
from test_sender import done


@pytest.mark.parametrize(
    ("mma", "op", "nops", "cycles"),
    [
        ("F32", "LDS", 4, [24, 25, 26, 24]),
        ("F32", "SHFL", 5, [25, 26, 27, 25]),
        ("F32", "LDS.64", 6, [27, 28, 29, 29, 27]),
        ("F32", "LDS.128", 10, [33, 34, 35, 35, 35, 35, 33]),
        ("F32", "LDSM.2", 5, [26, 27, 27, 28, 26]),
        ("F32", "LDSM.4", 9, [30, 31, 31, 32, 30]),
        ("F32 k8", "LDS", 6, [24, 25, 26, 24]),
        ("F16", "LDS", 5, [24, 25, 24]),
        ("F16", "LDSM.4", 11, [30, 31, 30]),
        ("F16 k8", "LDS.128", 13, [33, 34, 34, 34, 34, 33]),
        ("S32", "LDS", 6, [24, 25, 26, 24]),
    ],
)
def test_a_result_waits_for_those_of_an_mma(mma, op, nops, cycles):
    """The operation, so many NOPs and more, the mma: when the operation is done."""
    assert [done(op, nops + n, mma, awaited=0) for n in range(len(cycles))] == cycles


@pytest.mark.parametrize(
    ("op", "nops", "cycles"),
    [
        ("LDS", 4, [24, 25, 24]), ("SHFL", 5, [25, 26, 25]), ("LDS.128", 10, [33, 34, 34]),
        ("LDSM.4", 9, [30, 30, 31, 30]),
    ],
)  # fmt: skip
def test_a_result_waits_for_that_of_a_special_function(op, nops, cycles):
    assert [done(op, nops + n, "MUFU", awaited=0) for n in range(len(cycles))] == cycles


def test_when_an_mma_writes_is_a_value():
    arch = machine(tensor_core__operands__float_write_cycles=9)
    assert [done("LDS", 4 + n, "F32", awaited=0, arch=arch) for n in range(4)] == [24, 24, 25, 26]
    arch = machine(tensor_core__operands__s32_write_cycles=9)
    assert [done("LDS", 5 + n, "S32", awaited=0, arch=arch) for n in range(4)] == [24, 25, 26, 24]


LOADS = {
    "LDS R100": ("4*lane", [(23, "e")]),
    "LDS R101": ("4*lane", [(23, "o")]),
    "LDS.64 R100": ("0*lane", [(23, "eo")]),
    "LDS.64 R100 ": ("8*lane", [(25, "e"), (26, "o")]),
    "LDS.128 R100": ("0*lane", [(25, "eo"), (26, "eo")]),
    "LDS.128 R100 ": ("16*lane", [(29, "e"), (30, "o"), (31, "e"), (32, "o")]),
    "LDSM.16.M88 R100": ("16*lane", [(23, "e")]),
    "LDSM.16.M88.4 R100": ("16*lane", [(23, "e"), (25, "o"), (27, "e"), (29, "o")]),
}


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("written", ["e", "o", "ee", "oo", "eo", "eeee", "eoeo", "eeeeeeee"])
def test_a_result_goes_to_its_bank_when_no_arithmetic_writes_there(load, written):
    """H200: so many FFMA in a row that write even and odd registers, at all distances behind a load."""
    lanes, writes = LOADS[load]
    for distance in range(1, 19 - len(written)):
        busy = {(distance + n + 8, bank) for n, bank in enumerate(written)}
        done = 0
        for due, banks in writes:
            done = max(done + 1, due)
            while any((done, bank) in busy for bank in banks):
                done += 1
        lines = [f"{load.strip()}, [R2] | W5 S1", *["NOP | S1"] * (distance - 1)]
        lines += [f"FFMA R{90 + (bank == 'o')}, RZ, RZ, RZ | S1" for bank in written]
        found = issues(run([*lines, "NOP | B5 S1", "EXIT | S5"], lanes=lanes))
        assert found[len(lines)] == done, distance


def test_special_functions_do_not_wait_for_arithmetic():
    """H200: MUFU is done 17 cycles behind its issue, whatever an FFMA writes then."""
    for distance in range(1, 16):
        lines = ["MUFU.RCP R100, R2 | W5 S1", *["NOP | S1"] * (distance - 1), "FFMA R90, RZ, RZ, RZ | S1"]
        assert issues(run([*lines, "NOP | B5 S1", "EXIT | S5"]))[-2] == 17


def test_when_arithmetic_writes_is_a_value():
    lines = ["LDS R100, [R2] | W5 S1", *["NOP | S1"] * 15, "FFMA R90, RZ, RZ, RZ | S1", "NOP | B5 S1", "EXIT | S5"]
    assert [issues(run(lines, machine(register_file__write_cycles=w)))[-2] for w in (7, 8)] == [24, 23]
