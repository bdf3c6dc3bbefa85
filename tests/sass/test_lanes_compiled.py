"""The multiply-adds that Numba compiles have the bits of those in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from gpuemu.sass.ieee import LANES
from gpuemu.sass.ieee64 import bits64, fma64
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
    monkeypatch: pytest.MonkeyPatch, text: str, registers: dict[int, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """R8 and R9 in NumPy, and compiled."""
    monkeypatch.setattr(LANES, "module", None)
    monkeypatch.setattr(LANES, "calls", 1 << 60)
    plain = execute(text, registers, lanes=COUNT).registers[8:10].copy()
    assert LANES.load()
    return plain, execute(text, registers, lanes=COUNT).registers[8:10]


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
    assert not LANES.module.fma_halves(*values, chosen, False, *room)
    assert LANES.module.fma_halves(values[0], values[0], values[2], chosen, False, *room)
    assert (room[2] == 0x40004000).all()
    plain, compiled = both_ways(monkeypatch, PAIRS[0], {16 + k: values[k] for k in range(3)})
    assert np.array_equal(plain, compiled)
    assert plain[0, 7] == 0x7C004000


@pytest.mark.parametrize("kind", ["any f64", "whole f64", "normal f64"])
@pytest.mark.parametrize("text", ["DFMA R8, R16, R18, R20", "DFMA R8, -R16, |R18|, -R20", "DFMA R8, R16, R18, RZ"])
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


def test_factors_that_are_almost_too_large_have_exact_products() -> None:
    a, b, c = np.array([4.471163374880056e300]), np.array([-3.51688925656358e-50]), np.array([0.0])
    assert fma64(a, b, c)[0] == a[0] * b[0]
