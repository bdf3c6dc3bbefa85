"""The ports of the register file: bank conflicts, what an mma leaves of the banks, and switches of its pipe.

All cycles are an H200's (sm_90).
"""

from __future__ import annotations

import pytest
from probes import builder, completions, emit, gaps, issues, machine, run

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
    assert set(gaps(issues(result)[2:20])) == {cycles}


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


def forwarded(first: int, second: int, consumer: str, **overrides) -> int:
    """When the instruction behind one is issued that reads what two FFMA wrote so many cycles before into R0 and R2."""
    lines = ["NOP | S1"] * 12
    lines[12 - first] = "FFMA R0, RZ, RZ, RZ | S1"
    lines[12 - second] = "FFMA R2, RZ, RZ, RZ | S1"
    control = "S4" if "|" in consumer else "| S4"
    return issues(run([*lines, f"{consumer} {control}", END], machine(**overrides)))[-1] - 12 - 4


@pytest.mark.parametrize(
    ("first", "second", "late"),
    [(4, 5, 3), (5, 4, 3), (4, 6, 2), (5, 6, 2), (6, 5, 2), (4, 7, 0), (7, 5, 0), (7, 8, 0)],
)
def test_of_two_results_on_the_forwarding_path_one_comes_from_the_register_file(first, second, late):
    """H200: both written 4 to 6 cycles before; the older one is waited for."""
    assert forwarded(first, second, "FFMA R8, R0, R2, RZ") == late
    assert forwarded(first, second, "FADD R8, R0, R2") == late
    assert forwarded(first, second, "FFMA R8, R2, RZ, R0") == late


@pytest.mark.parametrize("consumer", ["FFMA R8, R0, R3, RZ", "FFMA R8, R0, R0, RZ", "FFMA R8, R0, R4, RZ",
                                      "LDS R8, [R0] | W0", "SHFL.IDX PT, R8, R0, R2, 0x1f | W0"])  # fmt: skip
def test_one_of_a_bank_is_there_at_once(consumer):
    assert forwarded(4, 5, consumer) == 0


def test_of_three_results_two_are_waited_for():
    """H200: for the younger of them, which is there last."""
    lines = [f"FFMA R{r}, RZ, RZ, RZ | S1" for r in (0, 2, 4)] + ["NOP | S1"] * 3
    assert issues(run([*lines, "FFMA R8, R0, R2, R4 | S4", END]))[-1] == 6 + 4 + 3


def test_when_the_older_of_two_results_is_in_its_bank_is_a_value():
    late = [forwarded(4, 5, "FFMA R8, R0, R2, RZ", **{"register_file.bank_ready_cycles": n}) for n in (0, 1, 4)]
    assert late == [2, 3, 6]


def test_how_long_results_are_forwarded_is_a_value():
    assert [forwarded(4, 5, "FFMA R8, R0, R2, RZ", **{"register_file.forwarding_cycles": f}) for f in (4, 5, 8)] == [
        0,
        2,
        5,
    ]


@pytest.mark.parametrize("distance", [3, 4, 5])
@pytest.mark.parametrize(
    ("writes", "reads"), [("FFMA", "IADD3"), ("IADD3", "FFMA"), ("FFMA", "FFMA"), ("IADD3", "IADD3")]
)
def test_a_result_of_another_pipe_comes_later_on_an_a100(writes, reads, distance):
    """A100: an IADD3 4 cycles behind an FADD waits for one; what reads sooner finds the old value."""
    lines = [f"{writes} R0, RZ, RZ, RZ | S{distance}", f"{reads} R8, R0, R3, RZ | S4", END]
    for cycles in (0, 1):
        late = cycles if writes != reads and distance == 4 else 0
        assert issues(run(lines, machine(register_file__across_pipes_cycles=cycles)))[1] == distance + late


@pytest.mark.parametrize("again", [1, 2, 3])
def test_an_mma_right_behind_a_wide_multiplication_is_a_cycle_late(again):
    """How long behind the first read the second comes is a value; one slot further on an mma is in time."""
    wide, late = "IMAD.WIDE.U32 R8, R10, R11, RZ | S1", {"register_file__wide_second_read_cycles": again}
    assert issues(run([wide, mma(F32), "NOP | S1", END], machine(**late)))[2] == 2 + again + 1
    assert issues(run([wide, "NOP | S1", "NOP | S1", END], machine(**late)))[2] == 2 + again
    assert issues(run([wide, "NOP | S1", mma(F32), "NOP | S1", END], machine(**late)))[2:4] == [2 + again, 3 + again]


@pytest.mark.parametrize(("distance", "cycles"), [(4, 5), (5, 4), (6, 3), (7, 2), (9, 2)])
def test_a_wide_multiplication_reads_twice(distance, cycles):
    """H200: what lies two slots behind an IMAD.WIDE comes 2 cycles later, and more if an operand was just written."""
    lines = ["FFMA R0, RZ, RZ, RZ | S1", *["NOP | S1"] * (distance - 1), "IMAD.WIDE.U32 R8, R0, R3, RZ | S1"]
    found = issues(run([*lines, "NOP | S1", "NOP | S1", END]))
    assert gaps(found[distance:]) == [1, 1 + cycles, 1]


def test_the_pipe_s_interval_runs_from_the_first_read_of_a_wide_multiplication():
    """H200: IMAD.HI and IMAD.WIDE of four warps a sub-core take no longer than their reads do."""
    wide = ["IMAD.WIDE.U32 R8, R20, R21, RZ | S2", "IMAD R10, R4, RZ, RZ | S2", END]
    for interval, gap in ((1, 4), (4, 4), (5, 5), (7, 7)):
        assert gaps(issues(run(wide, machine(operations__imad_wide__issue_interval_cycles=interval))))[0] == gap
    once = {"register_file__wide_second_read_cycles": 0}
    for interval, gap in ((1, 2), (4, 4), (5, 5)):
        assert gaps(issues(run(wide, machine(operations__imad_wide__issue_interval_cycles=interval, **once))))[0] == gap


@pytest.mark.parametrize(
    ("between", "late"), [("NOP | S1", 0), ("LDS R20, [R0] | W0 S1", 0), ("LDS R20, [R3] | W0 S1", 1)]
)
def test_a_memory_instruction_between_empties_no_latch(between, late):
    """It reads its own registers later; it takes a bank's port from what would read then (H200)."""
    lines = ["FFMA R8, R1, R3, R5 | S1", between, "FFMA R10, R1, RZ, RZ | S1", "FFMA R12, R3, RZ, R5 | S3", END]
    assert issues(run(lines)) == [0, 1, 2, 3, 6 + late]


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


def test_what_has_not_read_in_time_stops_the_second_slot_behind_it():
    """H200: the clock right behind two FFMA of three even registers is read in time, one slot later it is not."""
    assert issues(run(["FFMA R8, R0, R2, R4 | S1"] * 2 + ["NOP | S1"] * 2 + [END]))[:4] == [0, 1, 2, 5]


def test_an_mma_puts_off_what_has_waited_already_by_no_more_and_no_less():
    """An FFMA of three even registers in front of an mma comes 2 cycles late, and so if an IMAD.WIDE held it up."""
    for before in ([], ["NOP | S1"], ["IMAD.WIDE.U32 R8, R0, R1, RZ | S1"]):
        cycles = issues(run([*before, "FFMA R8, R0, R2, R4 | S1", mma(F32), "NOP | S1", END]))
        assert cycles[-2] - cycles[-3] == 1 + 2, before


def test_it_holds_back_other_warps_of_the_sub_core_and_none_of_another():
    lines = ["FFMA R8, R0, R2, R4 | S1"] * 10
    shared = run([*lines, END], warps=5)
    assert max(issues(shared, 4)[-2], issues(shared, 0)[-2]) == 3 * 17 + 2
    assert issues(shared, 1)[9] == 3 * 7 + 2


@pytest.mark.parametrize(
    ("lines", "takes"),
    [(["FFMA R8, R0, R2, R4 | S1"] * 3, 15), ([mma(F32), mma(F32, 1), "CS2R.32 R6, SR_CLOCKLO | S1"], 11),
     ([mma(S32), mma(S32, 1), "CS2R.32 R6, SR_CLOCKLO | S1"], 12)],
    ids=["reads", "nothing", "a_write"],
)  # fmt: skip
def test_stall_counts_of_other_warps_stand_while_it_does(lines, takes):
    """H200 and H100: a count of 11 beside three FFMA of three even registers, and beside two mma and a clock read."""
    trace = builder(6)
    for warp in (0, 4, 5):
        with trace.only(warps=warp):
            for line in lines if warp == 0 else ["NOP | S11"]:
                emit(trace, line)
    emit(trace, END)
    result = gpuemu.run(trace.build(), machine())
    assert [gaps(issues(result, warp)) for warp in (4, 5)] == [[takes], [11]]


@pytest.mark.parametrize("banks", [2, 4, 8])
def test_the_number_of_banks_is_a_value(banks):
    result = run(["FFMA R8, R0, R2, R4 | S1"] * 10 + [END], machine(register_file__banks=banks))
    assert set(gaps(issues(result)[2:10])) == {{2: 3, 4: 2, 8: 1}[banks]}


@pytest.mark.parametrize("operands", ["R0.reuse, R2, R3", "R0.reuse, R2.reuse, R4"])
def test_the_reuse_flag_removes_the_read(operands):
    """It keeps the register for the same operand of the next instruction."""
    kept = run([f"FFMA R8, {operands} | S1"] * 10 + [END])
    assert set(gaps(issues(kept)[2:10])) == {1}
    plain = run([f"FFMA R8, {operands.replace('.reuse', '')} | S1"] * 10 + [END])
    assert min(gaps(issues(plain)[2:10])) > 1


BETWEEN = [
    "NOP",
    "FFMA R9, RZ, RZ, RZ",
    "FFMA R9, R21.reuse, R23, RZ",
    "ISETP.GE.AND P0, PT, R21, R23, PT",
    "UMOV UR8, URZ",
]


def five(between: str, flags: str, second: str = "") -> int:
    """Cycles of FFMA of three even registers with these operands flagged, five times with another between."""
    operands = [f"R{10 + 2 * i}" + (".reuse" if str(i) in flags else "") for i in range(3)]
    lines = [f"FFMA R8, {', '.join(operands)} | S1", f"{between} | S1"] * 5
    return issues(run([*lines, lines[0], "NOP | S1", "NOP | S1", END]))[-1]


@pytest.mark.parametrize("between", BETWEEN)
def test_what_is_kept_stays_until_its_latch_is_filled(between):
    """H200: NOP, other banks, other units between do no harm to what a reuse flag keeps."""
    assert five(between, "") == 18
    assert {five(between, flags) for flags in ("1", "2", "01", "012")} == {13}


def test_a_register_of_the_same_slot_and_bank_drives_it_out():
    """H200: FFMA of an even register in operand 1 between."""
    between = "FFMA R9, R26, RZ, RZ"
    assert [five(between, flags) for flags in ("", "0", "1", "01", "012")] == [23, 23, 18, 18, 13]


def test_what_yields_keeps_nothing():
    """H200: the same FFMA with its yield bit set."""
    line = "FFMA R8, R0.reuse, R2.reuse, R4"
    assert issues(run([f"{line} | S1"] * 12 + [END]))[11] == 11
    assert issues(run([f"{line} | Y S1"] * 12 + [END]))[11] > 30


def test_another_warp_of_the_sub_core_drives_it_out():
    """H200: two warps in turn, an FFMA every 2 cycles each, go every 3 cycles together; one alone goes in time."""
    lines = ["FFMA R8, R0.reuse, R2.reuse, R4 | S2"] * 20
    assert issues(run([*lines, END]))[19] == 38
    assert max(issues(run([*lines, END], warps=5), warp)[19] for warp in (0, 4)) > 3 * 38 - 12


@pytest.mark.parametrize(
    ("between", "late"), [("NOP", 0), ("FFMA R9, R21, R23, RZ", 0), ("HFMA2.MMA R9, R21, R23, RZ", 4)]
)
def test_an_mma_finds_what_the_mma_before_it_kept(between, late):
    """H200: an FFMA of two even registers right behind has the ports to itself but for C; not behind HFMA2.MMA."""
    kept = [mma(F32, n).replace("R0, R4,", "R0.reuse, R4.reuse,") for n in range(2)]
    cycles = issues(
        run([kept[0], f"{between} | S2", "NOP | S14", kept[1], EVEN[2] + " | S1", "NOP | S1", "NOP | S1", END])
    )
    assert cycles[6] - cycles[3] == 3 + late


def test_what_another_operand_kept_is_read_again():
    lines = ["FFMA R8, R0.reuse, R2, R3 | S1", "FFMA R8, R2, R0, R3 | S1"] * 5
    assert set(gaps(issues(run([*lines, END]))[2:10])) == {2}


def test_an_mma_with_a_conflict_between_goes_every_ten_cycles():
    """H200: a chain of HMMA.16816.F32, one every 6 cycles, with an FFMA of two registers of one bank between."""
    assert set(in_turn(F32)) == {6}
    assert set(in_turn(F32, CONFLICT)) == {10}


EVEN = {1: "FFMA RZ, R10, RZ, RZ", 2: "FFMA RZ, R10, R12, RZ", 3: "FFMA RZ, R10, R12, R14"}


def second_mma(opcode: str, between: str, distance: int, **overrides) -> int:
    """How far behind the first the second passes, which comes right behind an instruction at a distance."""
    lines = [mma(opcode), *["NOP | S1"] * (distance - 1), between + " | S1", mma(opcode, 1), "NOP | S1", END]
    cycles = issues(run(lines, machine(**overrides)))
    return cycles[-2] - 1 - cycles[0]


@pytest.mark.parametrize(
    ("opcode", "even", "cycles"),
    [(F32, 1, [6, 6, 6, 7, 8, 7]), (F32, 2, [10, 9, 8, 8, 12, 9]), (F32, 3, [11, 10, 9, 9, 13, 13]),
     (S32, 2, [10, 9, 8, 8, 12, 9]), (F16, 1, [6, 6, 6, 6, 6, 7]), (F16, 2, [8, 7, 6, 7, 8, 9]),
     (F16, 3, [10, 9, 8, 8, 10, 11]), ("HMMA.1688.F32", 1, [6, 5, 8, 5, 6, 7]), ("HMMA.1688.F32", 2, [7, 6, 9, 9, 6, 7]),
     ("HMMA.1688.F16", 1, [4, 4, 4, 5, 6, 7]), ("HMMA.1688.F16", 2, [6, 5, 6, 7, 6, 7])],
)  # fmt: skip
def test_what_reads_beside_an_mma_gets_round_the_cycles_in_which_the_mma_does(opcode, even, cycles):
    """H200: FFMA of one, two, three even registers 1 to 6 cycles behind an mma, then another mma."""
    assert [second_mma(opcode, EVEN[even], distance) for distance in range(1, 7)] == cycles


def test_the_pause_of_the_fragments_is_a_value():
    assert second_mma(F32, EVEN[1], 1, tensor_core__operands__pause_cycles=0) == 9


def third_mma(opcode: str, writer: str, distance: int, **overrides) -> int:
    """How far behind the first of three the last is, with an instruction at a distance behind the second."""
    lines = [
        mma(opcode),
        mma(opcode, 1),
        *["NOP | S1"] * (distance - 1),
        writer + " | S1",
        mma(opcode, 2),
        "NOP | S1",
        END,
    ]
    cycles = issues(run(lines, machine(**overrides)))
    return cycles[-2] - 1 - cycles[0]


@pytest.mark.parametrize(
    ("opcode", "late"),
    [(F32, [0, 2, 1, 0]), (F16, [0, 1, 0, 0]), (S32, [1, 0, 0, 0]), ("HMMA.1688.F32", [0, 2, 1])],
)
def test_a_result_that_would_meet_an_mmas_comes_behind_it(opcode, late):
    """H200: whatever writes a register 8 or 9 cycles behind an HMMA.16816.F32 stops the sub-core for 2 or 1."""
    free = third_mma(opcode, "NOP", 1)
    for writer in ("FFMA R9, RZ, RZ, RZ", "IADD3 R9, RZ, RZ, RZ", "CS2R.32 R9, SR_CLOCKLO"):
        assert [third_mma(opcode, writer, distance) - free for distance in range(1, len(late) + 1)] == late, writer
    for writer in ("FFMA RZ, RZ, RZ, RZ", "ISETP.GE.AND P0, PT, RZ, RZ, PT"):
        assert {third_mma(opcode, writer, distance) for distance in range(1, len(late) + 1)} == {free}, writer


def test_when_results_are_written_is_a_value():
    assert third_mma(F32, "FFMA R9, RZ, RZ, RZ", 1, register_file__write_cycles=9) == 12 + 2


@pytest.mark.parametrize("line", ["FADD R8, R10, R10", "FADD R8, R9, R9", "FADD R8, R10, R9"])
def test_one_read_of_a_bank_fits_beside_an_mma(line):
    """H200: every 6 cycles, as without."""
    assert set(in_turn(F32, f"{line} | S1")) == {6}


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
    return completions(result, 0)[0] - issues(result)[1 if before > 0 else 2]


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
    assert completions(result, 1)[0] == 1 + 23
