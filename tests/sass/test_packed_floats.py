"""Two float32 at once: FFMA2, FADD2 and FMUL2 of sm_100, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from harness import execute

import gpuemu
from gpuemu.isa.registers import written_and_read
from gpuemu.sass.machine.operands import UnsupportedError

RNG = np.random.default_rng(3)
A, B, C = (RNG.standard_normal((64, 2)).astype(np.float32) for _ in range(3))
PAIRS = {n + k: np.ascontiguousarray(x[:, k]).view(np.uint32) for n, x in ((2, A), (4, B), (6, C)) for k in (0, 1)}
UPPER = np.array([1, -1], dtype=np.float32)


def found(sass: str) -> np.ndarray:
    files = execute(sass, registers=PAIRS, uniform={4: int(np.float32(1.5).view(np.uint32)), 5: 0}, arch="sm_100")
    return np.stack([files.registers[8 + k] for k in (0, 1)], axis=1).view(np.float32)


def once(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return (a.astype(np.float64) * b + c).astype(np.float32)


@pytest.mark.parametrize(
    ("sass", "expected"),
    [
        ("FADD2 R8, R2.F32x2.HI_LO, R4.F32x2.HI_LO", A + B),
        ("FADD2 R8, -R2.F32x2.HI_LO, R4.F32x2.LO_HI", B[:, ::-1] - A),
        ("FADD2 R8, |R2|.F32x2.HI_LO, R4.F32", np.abs(A) + B[:, :1]),
        ("FADD2 R8, R2.F32x2.HI_LO, -R4.F32x2.LO_HI.NP", A - B[:, ::-1] * UPPER),
        ("FADD2 R8, R2.F32x2.HI_LO, 1", A + np.float32(1)),
        ("FMUL2 R8, R2.F32x2.HI_LO, UR4.F32", A * np.float32(1.5)),
        ("FFMA2 R8, R2.F32x2.HI_LO, R4.F32x2.HI_LO, R6.F32x2.HI_LO", once(A, B, C)),
        ("FFMA2 R8, R2.F32x2.HI_LO, -R4.F32, R6.F32x2.HI_LO.NP", once(A, -B[:, :1], C * UPPER)),
    ],
)
def test_both_halves_are_computed(sass: str, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(found(sass).view(np.uint32), expected.view(np.uint32))


def test_directed_roundings_stay_on_their_side() -> None:
    exact = A.astype(np.float64) * B
    down, up = (found(f"FMUL2.{mode} R8, R2.F32x2.HI_LO, R4.F32x2.HI_LO").astype(np.float64) for mode in ("RM", "RP"))
    assert (down <= exact).all()
    assert (up >= exact).all()
    assert (down < up).any()


def test_a_single_register_serves_both_halves_and_is_the_only_one_read() -> None:
    written, read = written_and_read("FFMA2", ("R8", "R2.F32x2.HI_LO", "R4.F32", "UR6.F32"), "")
    assert (written, read) == ((8, 9), (2, 3, 4, 406))


@pytest.mark.parametrize(
    "sass", ["FADD2 R8, R2, R4.F32x2.HI_LO", "FADD2 R8, R2.F32x2.HI_LO.PN, R4.F32", "FMUL2.SAT R8, R2.F32, R4.F32"]
)
def test_unknown_forms_are_refused(sass: str) -> None:
    with pytest.raises(UnsupportedError):
        execute(sass, registers=PAIRS, arch="sm_100")


def test_every_answer_says_that_no_chip_was_compared() -> None:
    trace = gpuemu.TraceBuilder("pairs", arch="sm_100", block=(32, 1, 1))
    trace.emit("FADD2 R8, R2.F32x2.HI_LO, R4.F32x2.HI_LO")
    trace.emit("EXIT")
    (note, *_) = gpuemu.run(trace.build()).notes
    assert "never compared with a chip" in note
    assert gpuemu.load_arch("sm_90").untested == ""


NUMBERS = {n: np.ascontiguousarray(x[:, 0]).view(np.uint32) for n, x in ((2, A), (3, B), (4, C))}


@pytest.mark.parametrize(
    ("sass", "expected"),
    [
        ("FMNMX3 R8, R2, R3, R4, !PT", np.maximum(np.maximum(A, B), C)),
        ("FMNMX3.FTZ R8, R2, -R3, |R4|, PT", np.minimum(np.minimum(A, -B), np.abs(C))),
    ],
)
def test_three_numbers_have_an_extreme(sass: str, expected: np.ndarray) -> None:
    found = execute(sass, registers=NUMBERS, arch="sm_100").registers[8].view(np.float32)
    np.testing.assert_array_equal(found, expected[:, 0])


@pytest.mark.parametrize("nan", [False, True])
def test_a_warp_has_an_extreme_in_a_uniform_register(nan: bool) -> None:
    values = A[:, 0].copy()
    if nan:
        values[3] = np.nan
    registers = {2: values.view(np.uint32)}
    halves = values.reshape(2, 32)
    for sass, expected in (
        ("CREDUX.MAX.F32 UR8, R2", np.nanmax(halves, axis=1)),
        ("CREDUX.MIN.F32 UR8, R2", np.nanmin(halves, axis=1)),
        ("CREDUX.MINABS.F32 UR8, R2", np.nanmin(np.abs(halves), axis=1)),
        ("CREDUX.MAX.F32.NAN UR8, R2", halves.max(axis=1)),
    ):
        found = execute(sass, registers=registers, arch="sm_100").uniform_registers[8].view(np.float32)
        np.testing.assert_array_equal(found[[0, 32]], expected)
    words = values.view(np.int32).reshape(2, 32)
    for sass, expected in (
        ("CREDUX.MAX.S32 UR8, R2", words.max(axis=1)),
        ("CREDUX.MIN UR8, R2", words.view(np.uint32).min(axis=1).view(np.int32)),
    ):
        found = execute(sass, registers=registers, arch="sm_100").uniform_registers[8].view(np.int32)
        np.testing.assert_array_equal(found[[0, 32]], expected)


# -- halves with float32 ------------------------------------------------------------------------------------------

HALVES = RNG.standard_normal((64, 2)).astype(np.float16)
SHORT = {
    2: HALVES[:, 0].view(np.uint16) | HALVES[:, 1].view(np.uint16).astype(np.uint32) << 16,
    4: A.view(np.uint32)[:, 0],
}
F16 = HALVES.astype(np.float32)
BF16 = np.stack([SHORT[2] << np.uint32(16), SHORT[2] & np.uint32(0xFFFF0000)], axis=1).view(np.float32)


@pytest.mark.parametrize(
    ("sass", "expected"),
    [
        ("FHADD R8, R2, R4", F16[:, 0] + A[:, 0]),
        ("FHADD R8, R2.H1, -R4", F16[:, 1] - A[:, 0]),
        ("FHADD.SAT R8, |R2|, R4", np.clip(np.abs(F16[:, 0]) + A[:, 0], 0, 1)),
        ("FHADD R8, -R2, 1", 1 - F16[:, 0]),
        ("FHADD.BF16 R8, R2.H1, R4", BF16[:, 1] + A[:, 0]),
        ("FHFMA R8, R2, R2.H1, R4", once(F16[:, 0], F16[:, 1], A[:, 0])),
        ("FHFMA.BF16 R8, -R2.H1, R2, -R4", once(-BF16[:, 1], BF16[:, 0], -A[:, 0])),
    ],
)
def test_halves_are_added_to_a_float(sass: str, expected: np.ndarray) -> None:
    files = execute(sass, registers=SHORT, arch="sm_100")
    np.testing.assert_array_equal(files.registers[8].view(np.float32), expected)


def test_sums_of_halves_round_to_the_side_that_is_named() -> None:
    down, up = (
        execute(f"FHADD.{m} R8, R2, R4", registers=SHORT, arch="sm_100").registers[8].copy() for m in ("RM", "RP")
    )
    exact = F16[:, 0].astype(np.float64) + A[:, 0]
    assert (down.view(np.float32) <= exact).all()
    assert (up.view(np.float32) >= exact).all()
    assert (down != up).any()


@pytest.mark.parametrize("sass", ["FHADD R8, R2.H0_H0, R4", "FHADD R8, 1, R4", "FHADD R8, R2, R4.H1", "FHADD R8, R2"])
def test_other_forms_of_mixed_sums_are_refused(sass: str) -> None:
    with pytest.raises(UnsupportedError):
        execute(sass, registers=SHORT, arch="sm_100")
