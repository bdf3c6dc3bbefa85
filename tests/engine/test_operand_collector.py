"""When the registers of instructions are read: latches by slot and bank, reuse flags, what memory instructions send.

All cycles are an H200's (sm_90).
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from probes import issues, machine, run

END = "EXIT | S5"
SEQUENCES = yaml.safe_load((Path(__file__).parents[1] / "data" / "operands_h200.yaml").read_text())
MIXES = yaml.safe_load((Path(__file__).parents[1] / "data" / "mixes_h200.yaml").read_text())
RESULT = 92
"""The first register written; none of those is read, so that nothing comes by the forwarding path."""


def ffma(operands: list[str]) -> list[str]:
    return [f"FFMA R{RESULT + 2 * (i % 10)}, {registers} | S1" for i, registers in enumerate(operands)]


def by_bank(*patterns: str) -> list[str]:
    """The operands of FFMA that read an even (e) or odd (o) register in each slot, all of them different."""
    return [
        ", ".join(f"R{4 + 6 * place + 2 * slot + (bank == 'o')}" for slot, bank in enumerate(pattern))
        for place, pattern in enumerate(patterns)
    ]


def lost(lines: list[str]) -> int:
    """Cycles by which what follows comes later than one instruction a cycle."""
    found = issues(run([*lines, *["NOP | S1"] * 4, END], lanes="16*lane"))
    return found[len(lines) + 3] - len(lines) - 3


@pytest.mark.parametrize("number", range(len(SEQUENCES)))
def test_registers_and_reuse_flags_at_random(number):
    """Twenty sequences of 24, every one of which is issued when it was on the hardware."""
    sequence = SEQUENCES[number]
    operands = [text.strip().replace("*", ".reuse").replace(" ", ", ") for text in sequence["operands"].split(",")]
    found = issues(run([*ffma(operands), "NOP | S1", END]))
    assert found[: len(operands) + 1] == sequence["issued"]


@pytest.mark.slow
def test_arithmetic_at_random():
    """Sixteen kinds of instructions, as many cycles lost as on the hardware."""
    found = [lost([f"{line} | S1" for line in mix["code"].split(" | ")]) for mix in MIXES]
    differing = {mix["code"]: (mix["lost"], cycles) for mix, cycles in zip(MIXES, found, strict=True)}
    assert {code: both for code, both in differing.items() if both[0] != both[1]} == {}


PATTERNS = [a + b + c for a in "eo" for b in "eo" for c in "eo"]
BANKS = st.sampled_from(PATTERNS)


@pytest.mark.slow
@given(BANKS, BANKS)
def test_of_two_instructions_the_second_waits_for_the_latches_they_share(first, second):
    """H200, all 64 pairs: for as many of a bank as both fill, but for one, which is read as the first leaves."""
    shared = [sum(a == b == bank for a, b in zip(first, second, strict=True)) for bank in "eo"]
    assert lost(ffma(by_bank(first, second))) == max(0, max(shared) - 1)


@pytest.mark.parametrize(
    ("patterns", "cycles"),
    [("eee ooo oee", 0), ("eoo oee oeo", 0), ("eeo eeo eee", 2), ("eeo eeo eoe", 1), ("eeo eeo eeo eoe", 3),
     ("eeo eoe eoo oeo", 1), ("eeo ooo eeo eoe", 1), ("eeo eoe eoo ooo", 2), ("eee eee eee eee", 6)],
)  # fmt: skip
def test_what_is_left_of_those_before_is_waited_for(patterns, cycles):
    """Of the sequences of three and four; an operand passes by one of its slot that waits, not by two."""
    assert lost(ffma(by_bank(*patterns.split()))) == cycles


SENT = {
    "LDS R100, [R2]": ({3}, set()),
    "LDS.128 R100, [R3]": (set(), {3}),
    "LDSM.16.M88.4 R100, [R2]": ({3}, set()),
    "STS [R2], R7": ({6}, {4}),
    "STS.64 [R3], R8": ({4}, {6, 8}),
    "STS.128 [R2], R8": ({4, 8, 12}, {6, 10}),
    "STSM.16.M88 [R2], R7": ({6}, {4}),
    "SHFL.BFLY PT, R100, R2, 0x1, 0x1f": ({4}, set()),
    "SHFL.IDX PT, R100, R6, R7, 0x1f": ({4}, {6}),
    "SHFL.BFLY PT, R100, R6, R7, R8": ({4, 6}, {8}),
    "LDG.E R100, desc[UR4][R6.64]": ({5}, {3}),
    "STG.E desc[UR4][R6.64], R9": ({8}, {4, 6}),
    "LDGSTS.E [R2], desc[UR4][R6.64]": ({5, 7}, {3}),
    "MUFU.RCP R100, R2": ({4}, set()),
    "MUFU.RCP R100, R3": (set(), {4}),
    "POPC R100, R2": ({4}, set()),
}


@pytest.mark.slow
@pytest.mark.parametrize("instruction", SENT)
def test_what_others_send_is_read_first(instruction):
    """An FFMA of three registers of a bank loses a cycle for each that the bank's port reads meanwhile for another unit."""
    counter = "R5" if instruction.startswith("ST") else "W5"
    for bank, reads in zip("eo", SENT[instruction], strict=True):
        for distance in range(1, 16):
            lines = [f"{instruction} | {counter} S1", *["NOP | S1"] * (distance - 1), *ffma(by_bank(3 * bank))]
            first, last = distance, distance + 2
            while late := sum(first <= read <= last for read in reads) - (last - distance - 2):
                last += late
            assert lost(lines) == last - distance - 2, (bank, distance)


@pytest.mark.slow
def test_stores_send_one_behind_another():
    """Four STS of two even registers each, then an FFMA of three."""
    found = {
        count: [
            lost([*["STS [R2], R6 | R5 S1"] * count, *["NOP | S1"] * (distance - 1), *ffma(by_bank("eee"))])
            for distance in range(1, 16)
        ]
        for count in (2, 4)
    }
    assert found == {
        2: [1, 2, 3, 2, 3, 2, 2, 1, 1, 0, 0, 0, 0, 0, 0],
        4: [3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 2, 1, 1],
    }


def test_scalar_arithmetic_on_the_tensor_pipe_has_latches_of_its_own():
    """H200: FFMA, then another, an IADD3 or HFMA2.MMA of two even registers in the same slots."""
    first = ffma(by_bank("eeo"))
    assert lost([*first, "FFMA R99, R60, R64, R61 | S1"]) == 1
    assert lost([*first, "IADD3 R99, R60, R64, R61 | S1"]) == 1
    assert lost([*first, "HFMA2.MMA R99, R60, R64, R61 | S1"]) == 0


@pytest.mark.parametrize(
    ("instruction", "slots"),
    [("FADD R99, R60, R64", "ac"), ("FMUL R99, R60, R64", "ab"), ("IADD3 R99, R60, 0x1, R64", "ac"),
     ("IMAD R99, R60, 0x10, R64", "ac"), ("ISETP.GE.AND P0, PT, R60, R64, PT", "ab"), ("LEA R99, R60, R64, 0x1", "ab"),
     ("SHF.L.U32 R99, R60, 0x1, R64", "ac"), ("PRMT R99, R60, 0x2130, R64", "ac")],
)  # fmt: skip
def test_which_slots_the_operands_stand_in(instruction, slots):
    """H200: behind FFMA of two even registers in two of the three slots."""
    waits = [lost([*ffma(by_bank(first)), f"{instruction} | S1"]) for first in ("eeo", "eoe", "oee")]
    assert waits == [int(slots == taken) for taken in ("ab", "ac", "bc")]


@pytest.mark.parametrize(
    ("operands", "cycles"),
    [("R50, R54, R60", [4, 3, 3, 2, 3, 2, 2, 2]), ("R50, R55, R60", [3, 2, 3, 3, 2, 2, 3, 3]),
     ("R51, R54, R60", [3, 2, 2, 2, 3, 3, 3, 3]), ("R51, R55, R60", [2, 2, 3, 3, 3, 3, 3, 3]),
     ("R50, R54, RZ", [3, 3, 2, 2, 2, 2, 2, 2]), ("R51, R55, RZ", [2, 2, 2, 2, 2, 2, 3, 3])],
)  # fmt: skip
def test_the_upper_half_of_an_operand_is_read_when_the_instruction_might_leave(operands, cycles):
    """H200: IMAD.WIDE loses two cycles alone, here behind an FFMA of each pattern of banks."""
    found = [lost([*ffma(by_bank(pattern)), f"IMAD.WIDE.U32 R98, {operands} | S1"]) for pattern in PATTERNS]
    assert found == cycles


def test_an_imad_wide_keeps_its_latches_for_its_second_read():
    """H200: FFMA of each pattern of banks behind an IMAD.WIDE of two even registers and an even pair."""
    wide = "IMAD.WIDE.U32 R98, R50, R54, R60 | S1"
    assert [lost([wide, *ffma(by_bank(pattern))]) for pattern in PATTERNS] == [4, 3, 3, 2, 3, 2, 2, 2]


SCALAR = "HFMA2.MMA R99, R60, R64, R61 | S1"


@pytest.mark.parametrize(
    ("behind", "cycles"),
    [("FFMA R92, R4, R7, R8", 1), ("MOV R92, RZ", 1), ("MOV R93, RZ", 1), ("ISETP.GE.U32.AND P1, PT, R4, R7, PT", 0)],
)
def test_nothing_else_writes_when_scalar_arithmetic_on_the_tensor_pipe_does(behind, cycles):
    """H200: two slots behind an HFMA2.MMA, whatever the banks; not in the next slot, nor in the third."""
    for slots, expected in ((0, 0), (1, cycles), (2, 0), (3, 0)):
        assert lost([SCALAR, *["NOP | S1"] * slots, f"{behind} | S1"]) == expected


def test_what_is_late_by_a_cycle_behind_scalar_arithmetic_is_by_two():
    """H200: FFMA of three even registers behind an HFMA2.MMA of none, one, two: then it would write when that does."""
    scalars = ("R61, R63, R65", "R60, R63, R65", "R60, R64, R65", "R60, R64, R68")
    assert [lost([f"HFMA2.MMA R99, {r} | S1", *ffma(by_bank("eee"))]) for r in scalars] == [0, 0, 2, 2]


def test_the_write_of_scalar_arithmetic_holds_up_another_warp():
    """Of two warps of a sub-core, with a stall count at which one's FFMA comes two slots behind the other's HFMA2.MMA.

    H200: with starts 8 cycles apart and an FFMA 10 behind the HFMA2.MMA the first loses a cycle, with an ISETP none.
    """
    scalar = SCALAR.replace("S1", "S4")
    met = {
        line: issues(run([scalar, f"{line} | S1", "NOP | S1", "NOP | S1", END], warps=5), 4)[3]
        for line in ("FFMA R92, R4, R7, R8", "ISETP.GE.U32.AND P1, PT, R4, R7, PT")
    }
    assert list(met.values()) == [7, 6]


@pytest.mark.parametrize(("ago", "cycles"), [(4, 1), (5, 1), (6, 1), (7, 0)])
def test_what_was_just_written_takes_the_port_when_the_instruction_might_leave(ago, cycles):
    """H200: beside a register whose latch is free only then; from the register file it is read before."""
    lines = ["MOV R20, RZ | S1", *["NOP | S1"] * (ago - 2), "FMUL R92, R30, R33 | S1", "FMUL R94, R34, R20 | S1"]
    assert lost(lines) == cycles


MMA = "HMMA.1688.F32 R64, R4, R10, R64 | S1"
MMA_16 = "HMMA.16816.F32 R64, R4, R10, R64 | S1"


@pytest.mark.parametrize(
    ("mma", "operands", "cycles"),
    [(MMA, "R21, R24, RZ", [4, 3, 2, 6, 5, 4, 3, 2, 2, 2]), (MMA, "R20, R25, R30", [9, 8, 7, 6, 5, 4, 3, 2, 2, 2]),
     (MMA, "RZ, RZ, RZ", [4, 3, 2, 6, 5, 4, 3, 2, 2, 2]), (MMA_16, "RZ, RZ, RZ", [6, 5, 4, 3, 2, 6, 5, 4, 3, 2]),
     (MMA_16, "R21, R24, RZ", [6, 5, 4, 3, 2, 6, 5, 4, 3, 2]), (MMA_16, "R20, R24, RZ", [6, 5, 4, 8, 7, 6, 5, 4, 3, 2])],
)  # fmt: skip
def test_an_imad_wide_beside_an_mma(mma, operands, cycles):
    """H200, 0 to 9 slots behind: it leaves when the mma has read, and writes its halves when that does not."""
    wide = f"IMAD.WIDE.U32 R92, {operands} | S1"
    assert [lost([mma, *["NOP | S1"] * slots, wide, *["NOP | S1"] * 6]) for slots in range(10)] == cycles


@pytest.mark.parametrize("mma", [MMA, MMA_16])
def test_an_mma_right_behind_an_imad_wide_is_a_cycle_late(mma):
    """H200, of registers as of none; not in the slot behind that."""
    wide = "IMAD.WIDE.U32 R92, RZ, RZ, RZ | S1"
    assert [lost([wide, *["NOP | S1"] * slots, mma]) for slots in range(3)] == [3, 2, 2]


def test_an_imad_wide_that_reads_once_reads_both_halves_at_once():
    """Where `register_file.wide_second_read_cycles` is 0 nothing comes late."""
    lines = [*ffma(by_bank("ooe")), "IMAD.WIDE.U32 R98, R50, R55, R60 | S1", *["NOP | S1"] * 4, END]
    once = machine(register_file__wide_second_read_cycles=0)
    assert issues(run(lines, once))[5] == 5
    assert issues(run(lines, machine()))[5] == 8
