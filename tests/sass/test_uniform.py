"""Uniform instructions: those of the vector ones write whole warps; R2UR crosses from one file to the other."""

import numpy as np
import pytest
from harness import execute
from reference import WORD, check, signed

from gpuemu.sass.machine.operands import UnsupportedError


@pytest.mark.parametrize(
    ("sass", "expected"),
    [
        ("UMOV UR0, 0x400", lambda b: {"UR0": 0x400}),
        ("UMOV UR0, UR3", lambda b: {"UR0": b.ur[3]}),
        ("UMOV UR78, UR3\nUMOV UR0, UR78", lambda b: {"UR0": b.ur[3]}),
        ("MOV.SPILL R0, UR3", lambda b: {"R0": b.ur[3]}),
        ("UIADD3 UR0, UR1, -UR2, URZ", lambda b: {"UR0": b.ur[1] - b.ur[2]}),
        ("UIADD3 UR0, UP0, UR1, UR2, URZ", lambda b: {"UR0": b.ur[1] + b.ur[2], "UP0": b.ur[1] + b.ur[2] > WORD}),
        ("UIADD3.X UR0, UR1, ~UR2, URZ, UP1, !UPT", lambda b: {"UR0": b.ur[1] + ~b.ur[2] + b.up[1]}),
        (
            "UIADD3.64 UR0, UR2, UR4, UR6",
            lambda b: {f"UR{i}": sum(b.ur[k] | b.ur[k + 1] << 32 for k in (2, 4, 6)) >> 32 * i for i in (0, 1)},
        ),
        ("UIMAD UR0, UR1, UR2, UR3", lambda b: {"UR0": b.ur[1] * b.ur[2] + b.ur[3]}),
        (
            "UIMAD.WIDE UR0, UR2, UR3, UR4",
            lambda b: {
                f"UR{i}": signed(b.ur[2]) * signed(b.ur[3]) + (b.ur[4] | b.ur[5] << 32) >> 32 * i for i in (0, 1)
            },
        ),
        ("ULOP3.LUT UR0, UR1, 0x1, URZ, 0xfc, !UPT", lambda b: {"UR0": b.ur[1] | 1}),
        ("ULOP3.LUT UP0, URZ, UR1, UR2, URZ, 0xc0, !UPT", lambda b: {"UP0": b.ur[1] & b.ur[2]}),
        ("USHF.L.U32 UR0, UR1, 0x8, URZ", lambda b: {"UR0": b.ur[1] << 8}),
        ("USHF.R.S32.HI UR0, URZ, 0x1f, UR1", lambda b: {"UR0": signed(b.ur[1]) >> 31}),
        (
            "ULEA UR0, UP0, UR1, UR2, 0x2",
            lambda b: {"UR0": (b.ur[1] << 2) + b.ur[2], "UP0": (b.ur[1] << 2 & WORD) + b.ur[2] > WORD},
        ),
        (
            "ULEA.HI.X UR0, UR1, UR2, UR3, 0x2, UP0",
            lambda b: {"UR0": ((b.ur[3] << 32 | b.ur[1]) << 2 >> 32) + b.ur[2] + b.up[0]},
        ),
        ("UISETP.GE.AND UP0, UPT, UR1, URZ, UPT", lambda b: {"UP0": signed(b.ur[1]) >= 0}),
        ("UISETP.NE.AND.EX UP0, UPT, UR1, UR2, UPT, UP1", lambda b: {"UP0": b.ur[1] != b.ur[2] or b.up[1]}),
        ("USEL UR0, UR1, URZ, !UP1", lambda b: {"UR0": 0 if b.up[1] else b.ur[1]}),
        ("UPRMT UR0, UR1, 0x5410, UR2", lambda b: {"UR0": b.ur[1] & 0xFFFF | b.ur[2] << 16}),
        ("UFLO.U32 UR0, UR1", lambda b: {"UR0": b.ur[1].bit_length() - 1}),
        ("UPOPC UR0, UR1", lambda b: {"UR0": b.ur[1].bit_count()}),
        ("UBREV UR0, UR1", lambda b: {"UR0": int(f"{b.ur[1]:032b}"[::-1], 2)}),
        ("UBMSK UR0, URZ, 0x4", lambda b: {"UR0": 15}),
        ("USGXT.U32 UR0, UR1, 0x8", lambda b: {"UR0": b.ur[1] & 255}),
        ("UPLOP3.LUT UP0, UPT, UP1, UP2, UPT, 0x80, 0x0", lambda b: {"UP0": b.up[1] and b.up[2]}),
        ("UP2UR UR0, UPR, URZ, 0x7f", lambda b: {"UR0": sum(1 << i for i in range(7) if b.up[i])}),
        ("UR2UP UPR, UR1, 0x3", lambda b: {"UP0": b.ur[1] & 1, "UP1": b.ur[1] & 2}),
    ],
)
def test_a_uniform_instruction_does_as_its_vector_one(sass, expected):
    check(sass, expected)


def test_r2ur_takes_the_lowest_lane_that_takes_part():
    values = np.arange(96, dtype=np.uint32) + 100
    assert (
        execute("R2UR UR3, R1", registers={1: values}, lanes=96).uniform_registers[3].tolist()
        == [100] * 32 + [132] * 32 + [164] * 32
    )
    mask = np.zeros(96, dtype=bool)
    mask[[7, 9, 70]] = True
    found = execute("R2UR UR3, R1", registers={1: values}, uniform={3: 5}, mask=mask, lanes=96)
    assert found.uniform_registers[3].tolist() == [107] * 32 + [5] * 32 + [170] * 32


def test_r2ur_marks_the_lanes_that_hold_something_else():
    values = np.arange(64, dtype=np.uint32) // 4
    mask = np.arange(64) % 32 != 0
    old = np.arange(64) % 2 == 0
    after = execute("R2UR P0, UR3, R1\nR2UR.OR P1, UR4, R1", {1: values}, {0: old, 1: old}, mask=mask)
    differs = values != np.repeat([values[1], values[33]], 32)
    assert after.predicates[0].tolist() == np.where(mask, differs, old).tolist()
    assert after.predicates[1].tolist() == np.where(mask, differs | old, old).tolist()
    assert after.uniform_registers[3].tolist() == np.repeat([values[1], values[33]], 32).tolist()


@pytest.mark.parametrize(
    "sass", ["R2UR P0, R3, R1", "R2UR.OR UR3, R1", "R2UR.AND P0, UR3, R1", "R2UR UR3, -R1", "R2UR UR3, UR4"]
)
def test_a_form_that_is_not_known_is_refused(sass):
    with pytest.raises(UnsupportedError):
        execute(sass)
