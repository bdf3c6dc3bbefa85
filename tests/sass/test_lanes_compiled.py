"""The multiply-adds that Numba compiles have the bits of those in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from gpuemu.sass.numbers.ieee import LANES
from gpuemu.sass.numbers.ieee64 import bits64, fma64
from tests.sass.harness import execute

pytest.importorskip("numba")
COUNT = 512


def words(rng: np.random.Generator, kind: str, registers: int) -> np.ndarray:
    """Pairs of float16 or bfloat16, or float64 in pairs of registers: any bits, whole numbers, or normal ones."""
    if kind.startswith("any"):
        return rng.integers(0, 1 << 32, (registers, COUNT), dtype=np.uint32)
    drawn = rng.standard_normal((registers, COUNT, 2)) * 2.0 ** rng.integers(-6, 7, (registers, COUNT, 1))
    if kind.startswith("whole"):
        drawn = np.rint(drawn * 4)
    if kind.endswith("small"):
        drawn = drawn * 2.0**-16
    if kind.endswith("f64"):
        return np.ascontiguousarray(drawn[: registers // 2, :, 0]).view(np.uint32).reshape(-1, COUNT, 2).transpose(
            0, 2, 1
        ).reshape(registers, COUNT)  # fmt: skip
    if "bf16" in kind:
        return (drawn.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint32)[..., 0]
    return drawn.astype(np.float16).view(np.uint32)[..., 0]


def both_ways(
    monkeypatch: pytest.MonkeyPatch, text: str, registers: dict[int, np.ndarray], mask: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """R8, R9 and the predicates in NumPy, and compiled."""
    monkeypatch.setattr(LANES, "module", None)
    monkeypatch.setattr(LANES, "calls", 1 << 60)
    predicates = {1: np.random.default_rng(0).random(COUNT) < 0.5}
    found = []
    for _ in range(2):
        after = execute(text, registers, predicates, lanes=COUNT, mask=mask)
        found.append(np.concatenate([after.registers[8:10], after.predicates]))
        assert LANES.load()
    return found[0], found[1]


PAIRS = [
    "HFMA2 R8, R16, R17, R18", "HFMA2 R8, -R16.H0_H0, R17.H0_NH1, R18.H1_H1", "HFMA2.MMA R8, R16, R17, -R18",
    "HADD2 R8, R16, -R17", "HADD2 R8, R16.NH1_H0, R17.H0_H1", "HMUL2 R8, R16, R17.H1_H1", "HMUL2 R8, -R16, R16",
]  # fmt: skip


@pytest.mark.parametrize("text", PAIRS)
@pytest.mark.parametrize("kind", ["any", "whole f16", "normal f16", "normal f16 small"])
def test_pairs_of_float16(monkeypatch: pytest.MonkeyPatch, text: str, kind: str) -> None:
    rng = np.random.default_rng(1)
    for _ in range(4):
        values = words(rng, kind, 3)
        if kind == "any":
            values &= np.uint32(0xBFFFBFFF)  # finite
        plain, compiled = both_ways(monkeypatch, text, {16 + k: values[k] for k in range(3)})
        assert np.array_equal(plain, compiled)


@pytest.mark.parametrize("text", PAIRS)
@pytest.mark.parametrize("kind", ["any", "whole bf16", "normal bf16"])
def test_pairs_of_bfloat16(monkeypatch: pytest.MonkeyPatch, text: str, kind: str) -> None:
    rng = np.random.default_rng(2)
    mnemonic, rest = text.split(" ", 1)
    for _ in range(4):
        values = words(rng, kind, 3)
        if kind == "any":
            values = values & np.uint32(0x9FFF9FFF) | np.uint32(0x20002000)
        plain, compiled = both_ways(monkeypatch, f"{mnemonic}.BF16_V2 {rest}", {16 + k: values[k] for k in range(3)})
        assert np.array_equal(plain, compiled)


def test_what_is_not_finite_is_left_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.full((3, COUNT), 0x3C003C00, np.uint32)
    values[1, 7] = 0x7C003C00
    assert LANES.load()
    assert LANES.module is not None
    chosen = np.array([[0, 16, 0, 0]] * 3, np.uint32)
    room = np.empty(2 * COUNT, np.uint32), np.empty((4, 2 * COUNT)), np.empty(COUNT, np.uint32)
    assert not LANES.module.fma_halves(*values, chosen, False, False, 0x7C00, *room)
    assert LANES.module.fma_halves(values[0], values[0], values[2], chosen, False, False, 0x7C00, *room)
    assert (room[2] == 0x40004000).all()
    plain, compiled = both_ways(monkeypatch, PAIRS[0], {16 + k: values[k] for k in range(3)})
    assert np.array_equal(plain, compiled)
    assert plain[0, 7] == 0x7C004000


@pytest.mark.parametrize("kind", ["any f64", "whole f64", "normal f64"])
@pytest.mark.parametrize(
    "text",
    [
        "DFMA R8, R16, R18, R20", "DFMA R8, -R16, |R18|, -R20", "DFMA R8, R16, R18, RZ",
        *(f"DFMA.{way} R8, R16, {rest}" for way in ("RZ", "RM", "RP") for rest in ("R18, R20", "-R18, R16", "R16, -R20", "R18, RZ")),
        *(f"{name}.{way} R8, R16, {b}" for name in ("DADD", "DMUL") for way in ("RZ", "RM", "RP") for b in ("R18", "-R16")),
    ],
)  # fmt: skip
def test_multiply_adds_of_float64(monkeypatch: pytest.MonkeyPatch, text: str, kind: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(4):
        values = words(rng, kind, 6)
        for first in (0, 2, 4):  # zeros of both signs
            chosen = rng.random(COUNT) < 0.2
            values[first, chosen], values[first + 1, chosen] = 0, 0x80000000 * rng.integers(0, 2, chosen.sum())
        plain, compiled = both_ways(monkeypatch, text, {16 + k: values[k] for k in range(6)})
        assert np.array_equal(plain, compiled)


def test_sums_next_to_a_tie_are_left_to_numpy() -> None:
    assert LANES.load()
    assert LANES.module is not None
    result = np.empty(2)
    a, b = np.array([1.0 + 2.0**-52, 3.0]), np.array([1.0 - 2.0**-52, 5.0])
    assert LANES.module.fma64(a, b, np.array([1.0, 7.0]), 2.0**-400, 2.0**400, result)
    assert result[1] == 22
    c = np.array([2.0**53, 7.0])  # 1 - 2^-104 above it is just below half of the last place
    assert not LANES.module.fma64(a, b, c, 2.0**-400, 2.0**400, result)
    exact = bits64(fma64(a, b, c), a, b, c).view(np.float64)
    assert exact[0] == 2.0**53
    zeros = np.array([0.0, -0.0, 0.0, 1.0]), np.array([1.0, 1.0, 1.0, 1.0]), np.array([-0.0, -0.0, 5.0, -1.0])
    found = np.empty(4)
    assert LANES.module.fma64(*zeros, 2.0**-400, 2.0**400, found)
    assert found.view(np.uint64).tolist() == np.array([0.0, -0.0, 5.0, 0.0]).view(np.uint64).tolist()


def singles(rng: np.random.Generator, kind: str, count: int, normal: float, small: float) -> np.ndarray:
    """So many registers: any bits, or float32 of a kind and its size."""
    if kind == "any":
        return rng.integers(0, 1 << 32, (count, COUNT), dtype=np.uint32)
    drawn = rng.standard_normal((count, COUNT)) * {"whole": 4.0, "normal": normal, "small": small}[kind]
    return (np.rint(drawn) if kind == "whole" else drawn).astype(np.float32).view(np.uint32)


@pytest.mark.parametrize("text", ["FFMA R8, R16, R17, R18", "FFMA.FTZ R8, -R16, |R17|, R18", "FFMA R8, R16, R16, -R16"])
@pytest.mark.parametrize("kind", ["any", "whole", "normal", "small"])
def test_multiply_adds_of_float32(monkeypatch: pytest.MonkeyPatch, text: str, kind: str) -> None:
    rng = np.random.default_rng(6)
    for _ in range(4):
        values = singles(rng, kind, 3, normal=1.0, small=2.0**-126)
        plain, compiled = both_ways(monkeypatch, text, {16 + k: values[k] for k in range(3)})
        assert np.array_equal(plain, compiled)


@pytest.mark.parametrize("text", ["MATCH.ANY R8, R16", "MATCH.ANY.U64 R8, R16"])
def test_lanes_with_the_same_value(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    values = np.random.default_rng(7).integers(0, 5, (2, COUNT), dtype=np.uint32)
    plain, compiled = both_ways(monkeypatch, text, {16: values[0], 17: values[1]})
    assert np.array_equal(plain, compiled)


@pytest.mark.parametrize("text", ["MUFU.SIN R8, R16", "MUFU.COS R8, R16", "F2FP.F16.F32.PACK_AB R8, R16, R17"])
@pytest.mark.parametrize("kind", ["any", "whole", "normal", "small"])
def test_angles_and_conversions(monkeypatch: pytest.MonkeyPatch, text: str, kind: str) -> None:
    rng = np.random.default_rng(8)
    for _ in range(4):
        values = singles(rng, kind, 2, normal=100.0, small=2.0**-16)
        plain, compiled = both_ways(monkeypatch, text, {16 + k: values[k] for k in range(2)})
        assert np.array_equal(plain, compiled)


FLOATS = [
    "FFMA.RM R8, R16, R17, R18", "FFMA.RP.FTZ R8, -R16, R17, |R18|", "FFMA.RZ R8, R16, 252, 12582913",
    "FFMA.SAT R8, R16, 0.0057249800302088260651, 0.5", "FFMA.RM.SAT R8, R16, R17, R18", "FFMA.FTZ.SAT R8, R16, R17, R18",
    "FFMA R8, R16, 3, R18", "FFMA R8, R16, c[0x0][0x20], R18", "FADD.RZ R8, R16, -R17", "FADD.RM R8, R16, R17",
    "FADD.RP.FTZ R8, R16, 1", "FMUL.RZ R8, R16, R17", "FMUL.RM R8, R16, -R17", "FMUL.RP.SAT R8, R16, R17",
    "FADD.RM R8, R16, -R16", "FADD.FTZ R8, R16, R17", "FADD.SAT R8, R16, -R17", "FMUL.FTZ R8, R16, R17", "FMUL.FTZ R8, R16, 2",
    "FMNMX R8, R16, R17, PT", "FMNMX.FTZ R8, -R16, |R17|, !PT", "FMNMX R8, R16, 0.5, !PT", "FMNMX R8, R16, RZ, PT", "FCHK P0, R16, R17", "FCHK P0, R16, -3", "MUFU.RCP64H R8, R16", "MUFU.RSQ64H R8, R16",
    "F2FP.RELU.F16.F32.PACK_AB R8, R16, R17", "F2FP.BF16.F32.PACK_AB R8, R16, R17",
    "F2FP.RELU.BF16.F32.PACK_AB R8, R16, R17", "F2FP.SATFINITE.E4M3.F32.PACK_AB_MERGE_C R8, R16, R17, R18",
    "F2FP.SATFINITE.RELU.E5M2.F32.PACK_AB_MERGE_C R8, R16, R17, RZ", "F2FP.F16.E4M3.UNPACK_B R8, R16",
]  # fmt: skip


@pytest.mark.parametrize("text", FLOATS)
@pytest.mark.parametrize("kind", ["any", "whole", "normal", "small"])
def test_floats_rounded_in_all_ways(monkeypatch: pytest.MonkeyPatch, text: str, kind: str) -> None:
    rng = np.random.default_rng(9)
    for _ in range(4):
        values = singles(rng, kind, 3, normal=2.0, small=2.0**-126)
        values[0, :40], values[1, :8], values[1, 8:16] = EDGES.repeat(8), 0x80000000, 0x3F800000
        plain, compiled = both_ways(monkeypatch, text, {16 + k: values[k] for k in range(3)})
        assert np.array_equal(plain, compiled)


EDGES = np.array([0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00001], dtype=np.uint32)
HALF_TEXTS = [
    "HFMA2.RELU R8, R16, R17, R18", "HFMA2.SAT R8, R16, R17, R18", "HFMA2 R8, R16, 1.5, -2, R17",
    "HADD2 R8, R16, 1, -1", "HADD2.SAT R8, -R16, R17", "HMUL2.RELU R8, R16.H0_H0, 0.5, 3",
    "HSET2.BF.GE.AND R8, R16, R17, PT", "HSET2.NEU.OR R8, |R16|, -R17.H1_H1, P1", "HSET2.LT.XOR.FTZ R8, R16, 0, 1, P1",
    "HSETP2.LTU.AND P2, P3, R16, R17, PT", "HSETP2.NAN.AND.FTZ P2, P3, R16, |R17|, !P1", "HSETP2.EQ.AND P2, P3, R16, R16, PT",
    "HSETP2.NE.AND P2, P3, R16.H0_NH1, R17, PT", "HSETP2.NUM.OR P2, P3, R16, R17, P1", "HSETP2.LEU.AND P2, P3, R16, RZ, PT",
]  # fmt: skip


@pytest.mark.parametrize("text", HALF_TEXTS)
@pytest.mark.parametrize("brain", [False, True])
@pytest.mark.parametrize("kind", ["any", "whole", "normal"])
def test_pairs_of_halves_in_all_forms(monkeypatch: pytest.MonkeyPatch, text: str, brain: bool, kind: str) -> None:
    rng = np.random.default_rng(10)
    mnemonic, rest = text.split(" ", 1)
    for _ in range(4):
        values = words(rng, kind if kind == "any" else f"{kind} {'bf16' if brain else 'f16'}", 3)
        values[0, :40] = (EDGES >> 16 if brain else np.array([0, 0x8000, 0x7C00, 0xFC00, 1])).repeat(8) * 0x10001
        operands = {16 + k: values[k] for k in range(3)}
        plain, compiled = both_ways(monkeypatch, f"{mnemonic}{'.BF16_V2' * brain} {rest}", operands)
        assert np.array_equal(plain, compiled)


CHOICES = ["DSETP.MAX.AND P2, P3, R16, -R18, PT", "DSETP.MIN.AND P2, P3, |R16|, R18, PT"]


@pytest.mark.parametrize(
    "text", ["DADD R8, R16, -R18", "DADD R8, |R16|, R18", "DMUL R8, R16, R18", "DMUL R8, -R16, R16", *CHOICES]
)
@pytest.mark.parametrize("kind", ["any f64", "whole f64", "normal f64"])
def test_sums_and_products_of_float64(monkeypatch: pytest.MonkeyPatch, text: str, kind: str) -> None:
    rng = np.random.default_rng(11)
    for nan in (False, True):
        values = words(rng, kind, 4)
        if nan:
            values[1, :16], values[3, 8:24], values[:, 32:40] = 0x7FF80001, 0xFFF80002, 0
            values[3, 32:36] = 0x80000000
        else:
            values[1::2] &= np.uint32(0xBFFFFFFF)
        plain, compiled = both_ways(monkeypatch, text, {16 + k: values[k] for k in range(4)})
        assert np.array_equal(plain, compiled)


WORD_TEXTS = [
    "IDP.4A.S8.U8 R8, R16, R17, R18", "IDP.4A.U8.S8 R8, R16, 0x81ff7f02, R18", "IDP.2A.HI.S16.U8 R8, R16, R17, RZ",
    "VABSDIFF4.U8.ACC R8, R16, R17, R18", "VABSDIFF4.U8.ACC R8, R16, 0xff00ff, RZ", "PRMT R8, R16, R17, R18",
    "PRMT R8, R16, 0x9a40, R17", "PRMT R8, RZ, R17, R18", "PRMT.F4E R8, R16, R17, R18", "MOVM.16.MT88 R8, R16",
    "MATCH.ALL P2, R8, R16", "MATCH.ALL.U64 P2, R8, R20", "MATCH.ALL P2, R8, R22",
    *(f"I2F.{kind}{way} R8, R16" for kind in ("U64", "S64") for way in ("", ".RZ", ".RM", ".RP")),
    "I2F.F16.S32 R8, R16", "I2F.F16.U32 R8, R20",
    "I2IP.S8.S32.SAT R8, R16, R17, R18", "I2IP.U8.S32.SAT R8, R16, R17, RZ", "I2IP.S16.S32.SAT R8, R16, R20, RZ",
    "I2IP.U4.S32.SAT R8, R16, R17, R18.24", "I2IP.S8.S32.SAT R8, R16, 0x50, R18",
    "IADD3 R8, P2, P3, R16, -R17, R18", "IADD3 R8, P2, -R16, -R17, R18", "IADD3.X R8, P2, P3, R16, ~R17, R18, P1, !P1",
    "IADD3.X R8, P2, R16, R17, RZ, P1, !PT", "IADD3.X R8, P2, P3, ~R16, 0x5, RZ, PT, P1", "IADD3 R8, P2, P3, R16, R16, R17",
]  # fmt: skip


@pytest.mark.parametrize("text", WORD_TEXTS)
@pytest.mark.parametrize("guarded", [False, True])
def test_words(monkeypatch: pytest.MonkeyPatch, text: str, guarded: bool) -> None:
    rng = np.random.default_rng(12)
    mask = np.repeat(rng.random(COUNT // 32) < 0.5, 32) if guarded else None
    if mask is not None and "MOVM" not in text:
        mask &= rng.random(COUNT) < 0.5
    for _ in range(4):
        values = rng.integers(0, 1 << 32, (8, COUNT), dtype=np.uint32)
        values[:2, :8] = [[0xFFFFFFFF], [0x7FFFFFFF]]
        values[:2, 8:16] = 0xFFFFFFFF
        values[4:6] = rng.integers(0, 2, (2, COUNT // 32)).repeat(32, axis=1)
        values[6] = 5
        plain, compiled = both_ways(monkeypatch, text, {16 + k: values[k] for k in range(8)}, mask)
        assert np.array_equal(plain, compiled)


def test_factors_that_are_almost_too_large_have_exact_products() -> None:
    a, b, c = np.array([4.471163374880056e300]), np.array([-3.51688925656358e-50]), np.array([0.0])
    assert fma64(a, b, c)[0] == a[0] * b[0]
