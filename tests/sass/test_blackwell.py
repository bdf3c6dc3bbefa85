"""What code of sm_120 has and earlier code has not: pairs of registers, uniform floats, words of the driver's elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from harness import execute

from gpuemu.sass.machine.operands import UnsupportedError

LANE = np.arange(64, dtype=np.uint64)
A, B = LANE * np.uint64(0x1_2345_6789_ABCD) - np.uint64(9), ~LANE << np.uint64(29)
PAIRS = {number + half: value.view(np.uint32)[half::2].copy() for number, value in ((2, A), (4, B)) for half in (0, 1)}


def pair(sass: str, number: int = 8, **more: object) -> np.ndarray:
    files = execute(sass, registers=PAIRS, arch="sm_120", **more)
    low, high = (files.registers[number + half].astype(np.uint64) for half in (0, 1))
    return low | high << np.uint64(32)


@pytest.mark.parametrize(
    ("sass", "expected"),
    [
        ("IADD.64 R8, R2, R4", A + B),
        ("IADD.64 R8, R2, -R4", A - B),
        ("IADD.64 R8, R2, -0x10", A - np.uint64(16)),
        ("IADD.64 R8, R2, 0x123456789", A + np.uint64(0x123456789)),
        ("MOV.64 R8, R4", B),
        ("MOV.64 R8, 0x3fd8000000000000", LANE * np.uint64(0) + np.uint64(0x3FD8000000000000)),
        ("MOV.64 R8, 0xfffffff0", LANE * np.uint64(0) + np.uint64(0xFFFFFFF0)),
        ("SEL.64 R8, R2, R4, !PT", B),
        ("IMNMX.U64 PT, PT, R8, R2, R4, PT, !PT", np.minimum(A, B)),
        ("IMNMX.S64 PT, PT, R8, R2, R4, !PT, !PT", np.maximum(A.view(np.int64), B.view(np.int64)).view(np.uint64)),
    ],
)
def test_pairs_of_registers_are_whole_numbers_of_64_bits(sass: str, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(pair(sass), expected)


def test_a_carry_of_64_bits_goes_into_the_next_sum() -> None:
    sass = "IADD.64 R8, P1, R2, -R4\nIADD.64.X R10, R2, ~R4, P1"
    less = (A < B).astype(np.uint64)
    np.testing.assert_array_equal(pair(sass), A - B)
    np.testing.assert_array_equal(pair(sass, 10), A - B - less)


def test_comparisons_take_pairs_with_and_without_sign() -> None:
    files = execute("ISETP.GT.S64.AND P0, PT, R2, R4, PT\nISETP.GT.U64.AND P1, PT, R2, R4, PT", PAIRS, arch="sm_120")
    np.testing.assert_array_equal(files.predicates[0], A.view(np.int64) > B.view(np.int64))
    np.testing.assert_array_equal(files.predicates[1], A > B)


@pytest.mark.parametrize(
    ("sass", "kind", "operation"),
    [
        ("VIMNMX.U8x4 R8, R2, R4, PT", np.uint8, np.minimum),
        ("VIMNMX.S8x4 R8, R2, R4, !PT", np.int8, np.maximum),
        ("VIMNMX.S32 R8, R2, R4, !PT", np.int32, np.maximum),
        ("VIMNMX.U32 R8, PT, PT, R2, R4, PT", np.uint32, np.minimum),
        ("VIADD.U8x4 R8, R2, -R4", np.uint8, np.subtract),
    ],
)
def test_bytes_of_a_word_are_taken_one_by_one(sass: str, kind: type, operation: np.ufunc) -> None:
    found = execute(sass, registers=PAIRS, arch="sm_120").registers[8]
    np.testing.assert_array_equal(found.view(kind), operation(PAIRS[2].view(kind), PAIRS[4].view(kind)))


def test_a_saturated_sum_stops_at_the_ends_of_the_signed_numbers() -> None:
    a, b = (PAIRS[k].view(np.int32).astype(np.int64) for k in (2, 4))
    found = execute("VIADD.S32.ISAT R8, R2, -R4", registers=PAIRS, arch="sm_120").registers[8]
    np.testing.assert_array_equal(found.view(np.int32), np.clip(a - b, -(1 << 31), (1 << 31) - 1))


def test_uniform_registers_hold_floats() -> None:
    three = int(np.float32(3).view(np.uint32))
    files = execute("UFFMA UR5, UR4, UR4, 0.5\nUI2FP.F32.U32 UR6, UR7", uniform={4: three, 7: 12}, arch="sm_120")
    assert files.uniform_registers[5].view(np.float32)[0] == 9.5
    assert files.uniform_registers[6].view(np.float32)[0] == 12


def test_uniform_floats_are_packed() -> None:
    sass = "UF2FP.SATFINITE.E4M3.F32.PACK_AB_MERGE_C UR6, UR4, UR5, URZ\nUF2FP.F16.F32.PACK_AB UR7, UR4, UR5"
    floats = {4 + k: int(np.float32(x).view(np.uint32)) for k, x in enumerate((1.25, 2))}
    files = execute(sass, uniform=floats, arch="sm_120")
    assert [int(files.uniform_registers[k][0]) for k in (6, 7)] == [0x3A40, 0x3D004000]


def test_uniform_pairs_have_a_least_and_a_greatest() -> None:
    sass = "UIMNMX.U64 UPT, UPT, UR8, UR4, 0x400, UPT, !UPT\nUIMNMX UR6, UR4, UR5, !UPT"
    files = execute(sass, uniform={4: 7, 5: 3}, arch="sm_120")
    assert [int(files.uniform_registers[k][0]) for k in (8, 9, 6)] == [0x400, 0, 7]


def test_numbers_of_4_bits_become_bytes_in_their_row() -> None:
    words = (LANE * np.uint64(0x9E3779B97F4A7C15)).astype(np.uint32)
    files = execute("MOVM.S4TO8.M832 R8, R2", registers={2: words}, arch="sm_120")
    nibbles = (words[:, None] >> np.arange(0, 32, 4, dtype=np.uint32) & np.uint32(15)).astype(np.int8).reshape(16, 32)
    expected = np.where(nibbles > 7, nibbles - 16, nibbles)
    found = np.stack([np.ascontiguousarray(files.registers[8 + half]).view(np.int8) for half in (0, 1)])
    np.testing.assert_array_equal(found.reshape(2, 16, 16).transpose(1, 0, 2).reshape(16, 32), expected)


@pytest.mark.parametrize(
    "sass", ["IADD.64 R8, P1, -R2, -R4", "UIADD3.64 UR4, UP1, UPT, UR6, UR8, UR10", "SEL.32 R8, R2, R4, PT"]
)
def test_forms_that_are_not_known_are_refused(sass: str) -> None:
    with pytest.raises(UnsupportedError):
        execute(sass, arch="sm_120")
