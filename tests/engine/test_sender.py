"""How memory and special-function instructions share the sending of registers, and with an mma the ports.

All cycles are an H200's (sm_90): one warp, a NOP at cycle 0, then an instruction a cycle; at the end a NOP that
waits for the result, or for the sources of a store to be read. The numbers are when that one issues.
"""

from __future__ import annotations

import pytest
from probes import builder, dispatches, emit, issues, machine, run, starts

import gpuemu

MMA = {
    "F32": "HMMA.16816.F32 R28, R12, R16, R28",
    "F32 k8": "HMMA.1688.F32 R28, R12, R16, R28",
    "F16": "HMMA.16816.F16 R28, R12, R16, R28",
    "F16 k8": "HMMA.1688.F16 R28, R12, R16, R28",
    "S32": "IMMA.16832.S8.S8 R28, R12.ROW, R16.COL, R28",
}
OPS = {
    "LDS": "LDS R52, [R4] | W{}",
    "LDS.64": "LDS.64 R52, [R4] | W{}",
    "LDS.128": "LDS.128 R52, [R4] | W{}",
    "LDSM.2": "LDSM.16.M88.2 R52, [R4] | W{}",
    "LDSM.4": "LDSM.16.M88.4 R52, [R4] | W{}",
    "STS": "STS [R4], R20 | R{}",
    "STS.64": "STS.64 [R4], R20 | R{}",
    "STS.128": "STS.128 [R4], R20 | R{}",
    "SHFL": "SHFL.BFLY PT, R58, R24, 0x1, 0x1f | W{}",
    "SHFL.IDX": "SHFL.IDX PT, R58, R24, R25, 0x1f | W{}",
    "MUFU": "MUFU.EX2 R50, R24 | W{}",
}
BYTES = {"64": 8, "128": 16, "2": 16, "4": 16}


def done(*what: str | int, awaited: int, arch: gpuemu.Architecture | None = None) -> int:
    """When the operation at place `awaited` of those named is done; a number stands for so many NOPs."""
    trace = builder()
    emit(trace, "NOP | S1")
    counter = 0
    for part in what:
        if isinstance(part, int):
            for _ in range(part):
                emit(trace, "NOP | S1")
            continue
        line = f"{MMA[part]} |" if part in MMA else OPS[part].format(counter)
        emit(trace, f"{line} S1", f"{BYTES.get(part.partition('.')[2], 4)}*lane")
        counter += 1
    emit(trace, "NOP | S2")
    emit(trace, f"NOP | B{awaited} S1")
    emit(trace, "EXIT | S5")
    return issues(gpuemu.run(trace.build(), arch or machine()))[-2]


@pytest.mark.parametrize(
    ("mma", "op", "cycles"),
    [
        ("F32", "LDS", [29, 24, 24]),
        ("F32", "SHFL", [29, 30, 25]),
        ("F32", "STS", [16, 17, 17, 17, 12, 12]),
        ("F32", "STS.64", [18, 19, 19, 19, 19, 19, 14]),
        ("F32", "STS.128", [22, 23, 23, 23, 23, 23, 23, 23, 23, 23, 18]),
        ("F32 k8", "LDS", [27, 24, 24]),
        ("F32 k8", "STS", [14, 15, 15, 15, 12]),
        ("F16", "LDS", [25, 24, 24]),
        ("F16", "SHFL", [25, 26, 25]),
        ("F16", "STS", [12, 13, 13, 13, 12]),
        ("F16", "STS.128", [18, 19, 19, 19, 19, 19, 19, 19, 19, 19, 18]),
        ("F16 k8", "LDS", [25, 24, 24]),
        ("F16 k8", "STS", [12, 13, 13, 13, 12]),
    ],
)
def test_an_mma_that_begins_keeps_the_registers_behind_it_waiting(mma, op, cycles):
    """Behind the operation 0, 1, 2, ... NOPs and the mma: each register that it has still to read waits."""
    assert [done(op, n, mma, awaited=0) for n in range(len(cycles))] == cycles


@pytest.mark.parametrize(
    ("mma", "op", "cycles"),
    [
        ("F32", "LDS", [28, 28, 28, 28, 29]),
        ("F32", "STS", [15, 15, 15, 16]),
        ("F32 k8", "LDS", [26, 26, 27]),
        ("F16", "LDS", [26, 26, 28, 28, 29]),
        ("F16", "STS", [13, 15, 15, 16]),
        ("F16 k8", "LDS", [26, 26, 27]),
    ],
)
def test_what_is_issued_behind_an_mma_waits_for_a_cycle_that_it_leaves_free(mma, op, cycles):
    assert [done(mma, n, op, awaited=1) for n in range(len(cycles))] == cycles


def test_the_free_cycles_of_f16_accumulators_are_a_value():
    none = machine(tensor_core__operands__f16_free_cycles=0)
    assert [done("F16", n, "LDS", awaited=1, arch=none) for n in range(4)] == [28, 28, 28, 28]
    third = machine(tensor_core__operands__f16_free_cycles=3)
    assert [done("F16", n, "LDS", awaited=1, arch=third) for n in range(4)] == [25, 28, 28, 28]


def test_an_mma_begins_later_where_a_register_is_read():
    """H200: STS, a NOP or two, HMMA, HMMA: the second mma 8 and 7 cycles behind the first."""
    assert [_second_mma("STS", n) for n in range(6)] == [7, 7, 8, 7, 7, 6]
    assert [_second_mma("LDS", n) for n in range(3)] == [7, 7, 6]


def _second_mma(op: str, nops: int) -> int:
    """How long behind the first mma what follows the second issues, an mma's own place taken off."""
    trace = builder()
    for line in ("NOP | S1", OPS[op].format(0) + " S1", *["NOP | S1"] * nops, f"{MMA['F32']} | S1"):
        emit(trace, line)
    emit(trace, "HMMA.16816.F32 R32, R12, R16, R32 | S1")
    emit(trace, "NOP | S2")
    emit(trace, "EXIT | S5")
    cycles = issues(gpuemu.run(trace.build(), machine()))
    return cycles[-2] - 1 - (2 + nops)


@pytest.mark.parametrize(
    ("first", "second", "cycles"),
    [
        ("MUFU", "LDS", [27, 27, 27, 28]),
        ("MUFU", "STS", [14, 15, 15, 16]),
        ("MUFU", "SHFL", [27, 28, 28, 29]),
        ("LDS", "MUFU", [19, 20]),
        ("SHFL", "MUFU", [20, 20, 21]),
        ("STS", "MUFU", [20, 20, 22, 22, 23]),
        ("STS.128", "MUFU", [26, 26, 26, 26, 26, 26, 26, 26, 28, 28, 29]),
        ("STS", "STS", [16, 16, 16, 17, 17, 18]),
        ("SHFL", "SHFL", [27, 28, 28, 29]),
        ("LDS", "SHFL", [27, 27, 28]),
        ("STS", "LDS", [29, 29, 29, 29, 29, 30]),
    ],
)
def test_a_register_is_sent_every_other_cycle(first, second, cycles):
    """The second, behind the first and 0, 1, 2, ... NOPs."""
    assert [done(first, n, second, awaited=1) for n in range(len(cycles))] == cycles


@pytest.mark.parametrize(
    ("first", "cycles"),
    [("STS", [14, 14, 12, 12]), ("STS.64", [16, 16, 16, 16, 14]), ("STS.128", [20] * 8 + [18]), ("LDS", [24, 24])],
)
def test_a_special_function_goes_before_the_last_register_of_the_instruction_in_front_of_it(first, cycles):
    """When the sources of the first have been read, 0, 1, 2, ... NOPs in front of a MUFU."""
    assert [done(first, n, "MUFU", awaited=0) for n in range(len(cycles))] == cycles


@pytest.mark.parametrize(
    ("sequence", "awaited", "cycles"),
    [
        (("SHFL.IDX", "MUFU"), 0, 29),
        (("SHFL.IDX", 1, "MUFU"), 0, 29),
        (("F32", 1, "SHFL.IDX", 3, "F32"), 1, 35),
        (("F32 k8", 3, "SHFL.IDX", 2, "F32 k8"), 1, 34),
        (("STS.64", 1, "LDS", "F32"), 1, 38),
        (("STS.128", 1, "LDSM.4", "F32"), 1, 52),
        (("STS.128", 3, "LDSM.2", 3, "F32"), 1, 48),
    ],
)
def test_what_has_a_register_read_later_comes_to_the_data_stage_later(sequence, awaited, cycles):
    """H200: by as much as a special function or an mma holds back a register behind the first."""
    assert done(*sequence, awaited=awaited) == cycles


@pytest.mark.parametrize("stores", [1, 2, 5])
def test_a_special_function_does_not_wait_for_what_is_in_the_memory_queue(stores):
    assert done(*["STS.128"] * stores, "MUFU", awaited=stores) == 26


def test_the_second_special_function_reads_when_the_unit_falls_free():
    """H200: two MUFU and, 0 to 4 NOPs behind, a STS: the third to fifth lets the second MUFU go first."""
    assert [done("MUFU", "MUFU", n, "STS", awaited=2) for n in range(5)] == [15, 15, 16, 19, 20]
    assert [done("MUFU", "MUFU", 4 + n, "LDS", awaited=2) for n in range(2)] == [30, 31]
    assert [done("MUFU", 2, "MUFU", n, "LDS", awaited=2) for n in (3, 4)] == [31, 34]


@pytest.mark.parametrize(
    ("mma", "cycles"),
    [("F32", [23, 24, *[19] * 8, 18]), ("F32 k8", [21, 22, *[19] * 8, 18]), ("F16 k8", [19, 20, *[19] * 8, 18])],
)
def test_an_mma_behind_a_special_function_delays_it(mma, cycles):
    """Its register waits as a shuffle's does; while it is in the unit an mma costs it a cycle."""
    assert [done("MUFU", n, mma, awaited=0) for n in range(len(cycles))] == cycles


@pytest.mark.parametrize(("mma", "until"), [("F32", 10), ("F16", 10), ("F32 k8", 8), ("F16 k8", 8)])
def test_an_mma_before_a_special_function_costs_it_a_cycle(mma, until):
    """H200: up to 10 cycles before for m16n8k16, 8 for m16n8k8."""
    assert [done(mma, n, "MUFU", awaited=1) - n for n in (until - 1, until)] == [20, 19]
    arch = machine(special_function__beside_mma_cycles=4)
    assert done(mma, until - 1, "MUFU", awaited=1, arch=arch) == until - 1 + 23
    arch = machine(special_function__mma_reach_cycles=9)
    assert [done(mma, n, "MUFU", awaited=1, arch=arch) - n for n in (until + 1, until + 2)] == [20, 19]


def test_an_mma_holds_back_the_registers_of_a_store_that_has_left_its_queue():
    """The store leaves at 7 and reads from 14 on; an mma that begins then has the ports for its 6 cycles."""

    def passes(last: str) -> list[int]:
        lines = ["STS [R0], R4 | R0 S2", *["NOP | S1"] * 11, f"{last} | S1", "NOP | B0 S1", "EXIT | S5"]
        result = run(lines, machine(mio__data_read_cycles=12))
        assert dispatches(result) == [7]
        return starts(result)

    assert passes("NOP") == [21]
    assert passes("HMMA.16816.F32 R8, R12, R16, R8") == [21 + 5]
