"""The ports of the register file: bank conflicts, what an mma leaves of the banks, and switches of its pipe.

All cycles are an H200's (sm_90).
"""

from __future__ import annotations

import pytest
from probes import builder, emit, gaps, issues, machine, run

import gpuemu

END = "EXIT | S5"
CONFLICT = "FFMA R8, R10, R12, R9 | S1"
F32, F16, S32 = "HMMA.16816.F32", "HMMA.16816.F16", "IMMA.16832.S8.S8"


def mma(opcode: str, number: int = 0) -> str:
    """Independent of its neighbours; operands without reuse."""
    d = 32 + 4 * (number % 8)
    return f"{opcode} R{d}, R0, R4, R{d} | S1"


def in_turn(opcode: str, *between: str, **overrides) -> list[int]:
    """The cycles from each mma to the next, with `between` in every gap."""
    lines = [line for number in range(12) for line in (mma(opcode, number), *between)]
    cycles = issues(run([*lines, END], machine(**overrides)))
    return gaps(cycles[: -1 : 1 + len(between)])


@pytest.mark.parametrize(
    ("operands", "cycles"),
    [("R0, R1, RZ", 1), ("R0, R0, R1", 1), ("R0, R1, R2", 2), ("R0, R2, R3", 2), ("R1, R3, R0", 2),
     ("R0, R2, R4", 3), ("R1, R3, R5", 3), ("R0, R0, R0", 1)],
)  # fmt: skip
def test_a_bank_gives_one_register_a_cycle(operands, cycles):
    """H200: FFMA that reads two registers of one bank every 2 cycles, three of one bank every 3."""
    result = run([f"FFMA R8, {operands} | S1"] * 20 + [END])
    assert set(gaps(issues(result)[1:20])) == {cycles}


SLOTS = {"A": "R0, R2, RZ", "B": "R0, RZ, R2", "C": "RZ, R0, R2", "n": "R0, R1, RZ", "E": "R0, R2, R4"}


@pytest.mark.parametrize(
    ("late", "sequences"),
    [(0, "AB AC BA BC CA CB An En nA nE ABn BAn AnB AnC ABnn nABn"),
     (1, "AA BB CC EA EB EC AE ABA ABB ABC ACA AnA ABnA ABnB ABAn AABn EBn"),
     (2, "EE AAA BBB ABAA ABAB EAA")],
)  # fmt: skip
def test_an_operand_needs_the_latch_of_its_slot_and_bank(late, sequences):
    """H200: how much later what follows them comes than at one a cycle.

    A, B and C read two even registers each, in operands 1 and 2, 1 and 3, 2 and 3; E three, n one of each bank.
    """
    for kinds in sequences.split():
        lines = [f"FFMA R{20 + 2 * i}, {SLOTS[kind]} | S1" for i, kind in enumerate(kinds)]
        lines[-1] = lines[-1].replace("S1", "S3")
        assert issues(run([*lines, END]))[-1] == len(kinds) - 1 + 3 + late, kinds


@pytest.mark.parametrize("between", ["LDS R20, [R0] | W0 S1", "NOP | S1"])
def test_a_memory_instruction_between_empties_no_latch(between):
    """It reads its own registers later."""
    lines = ["FFMA R8, R1, R3, R5 | S1", between, "FFMA R10, R1, RZ, RZ | S1", "FFMA R12, R3, RZ, R5 | S3", END]
    assert issues(run(lines)) == [0, 1, 2, 3, 4 + 3]


def test_stall_counts_run_from_the_read():
    """H200: behind an FFMA that finds its ports taken for a cycle everything of its warp comes a cycle later."""
    for stall in range(2, 7):
        taken = run(["FFMA R8, R0, R2, R1 | S1", f"FFMA R10, R4, R6, R5 | S{stall}", END])
        assert issues(taken) == [0, 1, 2 + stall]
        assert taken.warps[0].stalls["dispatch_stall"] == 1
        free = run(["FFMA R8, R0, R2, R1 | S1", f"FFMA R10, R4, R5, R6 | S{stall}", END])
        assert issues(free) == [0, 1, 1 + stall]


def test_a_register_named_twice_is_read_once_and_fills_two_latches():
    """H200: FFMA of R20, R20, R25 behind one of two even registers is not late, one of two behind it is."""
    twice, two = "FFMA R8, R0, R0, R1", "FFMA R10, R2, R4, R3"
    assert issues(run([f"{two} | S1", f"{twice} | S3", END]))[-1] == 4
    assert issues(run([f"{twice} | S1", f"{two} | S3", END]))[-1] == 5
    assert issues(run([f"{twice} | S1", f"{twice} | S3", END]))[-1] == 4


def test_fadd_adds_in_the_third_slot():
    """H200: FADD and FMUL of two even registers each do not disturb each other, two FADD do."""
    for first, second, late in (("FADD", "FMUL", 0), ("FMUL", "FADD", 0), ("FADD", "FADD", 1), ("FMUL", "FMUL", 1)):
        found = issues(run([f"{first} R8, R0, R2 | S1", f"{second} R9, R4, R6 | S3", END]))[-1] - 4
        assert found == late, (first, second)


@pytest.mark.parametrize(("distance", "late"), [(1, 0), (2, 1), (3, 0)])
def test_two_cycles_behind_scalar_arithmetic_on_the_tensor_pipe_its_warp_reads_nothing(distance, late):
    """H200: HFMA2.MMA, then IADD3, IMAD, FFMA or HFMA2 of other registers; another HFMA2.MMA is in time."""
    first = f"HFMA2.MMA R8, R0, R1, RZ | S{distance}"
    for second in ("IADD3 R9, R2, R3, RZ", "IMAD R9, R2, R3, RZ", "FFMA R9, R2, R3, RZ", "HFMA2 R9, R2, R3, RZ"):
        assert issues(run([first, f"{second} | S3", END]))[-1] == distance + 3 + late
    if distance > 1:
        assert issues(run([first, "HFMA2.MMA R9, R2, R3, RZ | S3", END]))[-1] == distance + 3


def test_the_first_of_them_holds_back_the_second_and_issues_itself_in_time():
    """The instruction waits for its ports behind the issue; only the one behind it is late."""
    assert issues(run(["FFMA R8, R0, R2, R4 | S1"] * 3 + [END]))[:3] == [0, 1, 4]


def test_it_holds_back_other_warps_of_the_sub_core_and_none_of_another():
    lines = ["FFMA R8, R0, R2, R4 | S1"] * 10
    shared = run([*lines, END], warps=5)
    assert max(issues(shared, 4)[-2], issues(shared, 0)[-2]) == 3 * 18 + 1
    assert issues(shared, 1)[9] == 3 * 8 + 1


@pytest.mark.parametrize("banks", [2, 4, 8])
def test_the_number_of_banks_is_a_value(banks):
    result = run(["FFMA R8, R0, R2, R4 | S1"] * 10 + [END], machine(register_file__banks=banks))
    assert set(gaps(issues(result)[1:10])) == {{2: 3, 4: 2, 8: 1}[banks]}


@pytest.mark.parametrize("operands", ["R0.reuse, R2, R3", "R0.reuse, R2.reuse, R4"])
def test_the_reuse_flag_removes_the_read(operands):
    """It keeps the register for the same operand of the next instruction."""
    kept = run([f"FFMA R8, {operands} | S1"] * 10 + [END])
    assert set(gaps(issues(kept)[2:10])) == {1}
    plain = run([f"FFMA R8, {operands.replace('.reuse', '')} | S1"] * 10 + [END])
    assert min(gaps(issues(plain)[2:10])) > 1


def test_what_another_operand_kept_is_read_again():
    lines = ["FFMA R8, R0.reuse, R2, R3 | S1", "FFMA R8, R2, R0, R3 | S1"] * 5
    assert set(gaps(issues(run([*lines, END]))[1:10])) == {2}


def test_an_mma_with_a_conflict_between_goes_every_ten_cycles():
    """H200: a chain of HMMA.16816.F32, one every 6 cycles, with an FFMA of two registers of one bank between."""
    assert set(in_turn(F32)) == {6}
    assert set(in_turn(F32, CONFLICT)) == {10}


def test_how_much_later_the_mma_starts_again_is_a_value():
    assert set(in_turn(F32, CONFLICT, tensor_core__operands__refetch_cycles=7)) == {13}


@pytest.mark.parametrize("line", ["FADD R8, R10, R10", "FADD R8, R9, R9", "FADD R8, R10, R9"])
def test_one_read_of_a_bank_fits_beside_an_mma(line):
    """H200: every 6 cycles, as without."""
    assert set(in_turn(F32, f"{line} | S1")) == {6}


def test_what_an_accumulator_takes_of_the_banks_is_a_value():
    assert set(in_turn(F32, "FADD R8, R10, R10 | S1", tensor_core__operands__accumulator_read_cycles=3)) == {10}


@pytest.mark.parametrize("loads", [1, 2])
def test_memory_instructions_between_two_mma_cost_a_cycle_together(loads):
    """H200: HMMA.16816.F32 with one or two LDS between, every 7 cycles instead of 6: the second reads late."""
    assert set(in_turn(F32, *["LDS R16, [R10] | S1"] * loads)[1:8]) == {7}
    assert set(in_turn(F32, "LDS R16, [R10] | S1", tensor_core__operands__memory_instruction_cycles=3)[1:]) == {9}


@pytest.mark.parametrize(("first", "second", "cost"), [(F32, F16, 1), (F32, S32, 3), (F16, S32, 2), (F32, F32, 0)])
def test_a_switch_of_accumulators_costs_its_cycles_one_way(first, second, cost):
    """H200: f32 to f16 1 cycle, f32 to s32 3, f16 to s32 2; nothing back."""
    lines = [line for number in range(6) for line in (mma(first, number), mma(second, number + 1))]
    cycles = issues(run([*lines, END]))[:12]
    assert gaps(cycles) == [6 + cost, 6] * 5 + [6 + cost]


@pytest.mark.parametrize("scalar", ["HFMA2.MMA R8, R10, R10, R10", "DFMA R8, R10, R10, R10"])
def test_what_runs_on_the_tensor_pipe_waits_for_the_mma_and_three_cycles_more(scalar):
    """H200: HFMA2.MMA or DFMA 9 cycles behind an HMMA, the next HMMA 2 behind that."""
    lines = [line for number in range(6) for line in (mma(F32, number), f"{scalar} | S1")]
    assert gaps(issues(run([*lines, END]))[:12]) == [9, 2] * 5 + [9]


def test_each_switch_is_a_value():
    cycles = {"f32_to_f16": (F32, F16), "f32_to_s32": (F32, S32), "f16_to_s32": (F16, S32)}
    for name, (first, second) in cycles.items():
        arch = machine().with_overrides({f"tensor_core.turnaround.{name}": 5})
        assert gaps(issues(run([mma(first), mma(second, 1), END], arch)))[0] == 11, name
    arch = machine(tensor_core__turnaround__mma_to_fma=5)
    assert gaps(issues(run([mma(F32), "HFMA2.MMA R8, R10, R10, R10 | S1", END], arch)))[0] == 11


def test_packed_halves_on_the_heavy_pipe_do_not_wait_for_an_mma():
    """H200: HFMA2 and HADD2 share a pipe with IMAD."""
    assert set(in_turn(F32, "HFMA2 R8, R10, R10, R10 | S1")) == {6}
    for line in ("HFMA2 R8, R10, R10, R10", "HADD2 R8, R10, R10"):
        assert issues(run(["IMAD R9, R10, R10, R10 | S1", f"{line} | S1", END]))[:2] == [0, 2]


def latency(before: int) -> int:
    """From a load to its data, issued so many cycles before an HMMA (behind it, if negative)."""
    load = f"LDS R16, [R10] | W0 S{max(1, before)}"
    hmma = mma(F32).replace("S1", f"S{max(1, -before)}")
    lines = [load, hmma] if before > 0 else [hmma, load]
    result = run(["NOP | S10", *lines, END])
    return result.execution.warps[0].done_log[0] - issues(result)[1 if before > 0 else 2]


@pytest.mark.parametrize(("before", "delay"), [(1, 5), (2, 0), (3, 0), (-1, 3), (-2, 2), (-3, 1), (-4, 0), (-5, 0)])
def test_a_load_reads_its_address_when_the_mma_beside_it_is_through(before, delay):
    """H200: issued one cycle before an HMMA it comes 5 cycles later, two before in time; behind one 3, 2, 1, 0."""
    assert latency(before) == 23 + delay


def test_an_mma_of_another_sub_core_delays_nobody():
    trace = builder(2)
    with trace.only(warps=0):
        emit(trace, "NOP | S2")
        emit(trace, mma(F32))
    with trace.only(warps=1):
        emit(trace, "NOP | S1")
        emit(trace, "LDS R16, [R10] | W0 S1")
    emit(trace, END)
    result = gpuemu.run(trace.build(), machine())
    assert result.execution.warps[1].done_log[0] == 1 + 23
