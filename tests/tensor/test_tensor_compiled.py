"""The products that Numba compiles have the bits of those in NumPy."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.base.compiled import Compiled
from gpuemu.tensor.mma import COMPILED, compiled_product, mma_mode, mma_registers

pytest.importorskip("numba")

FLOATS = [
    "m16n8k16.f32.f16", "m16n8k16.f16.f16", "m16n8k16.f32.bf16", "m16n8k8.f32.f16", "m16n8k8.f16.f16",
    "m16n8k8.f32.bf16", "m16n8k8.f32.tf32", "m16n8k4.f32.tf32",
]  # fmt: skip
INTEGERS = ["m16n8k32.s32.s8.s8", "m16n8k32.s32.u8.s8.sat", "m16n8k16.s32.s8.u8", "m16n8k16.s32.u8.u8"]
WARPS = 5


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """With Numba's products, and without them behind the test as before it."""
    monkeypatch.setattr(COMPILED, "module", None)
    monkeypatch.setattr(COMPILED, "calls", 1 << 60)
    return


def drawn(rng: np.random.Generator, kind: str, registers: int, scale: float) -> Any:
    """Registers [registers, 32 x warps] of normal numbers, or of any bits where `scale` is 0."""
    words = rng.integers(0, 1 << 32, (registers, 32 * WARPS), dtype=np.uint32)
    if scale == 0 or kind in ("s8", "u8", "s32"):
        return words
    numbers = rng.standard_normal((registers, 32 * WARPS, 2)) * scale
    if kind == "f16":
        return numbers.astype(np.float16).view(np.uint32)[..., 0]
    singles = numbers.astype(np.float32).view(np.uint32)
    if kind == "bf16":
        return (singles >> 16).astype(np.uint16).view(np.uint32)[..., 0]
    return singles[..., 0].copy()


def by_warp(rows: Any) -> Any:
    return np.ascontiguousarray(rows.reshape(len(rows), WARPS, 32).swapaxes(0, 1))


@pytest.mark.parametrize("scale", [1.0, 1e-4, 30.0, 1e-20, 1e18, 0.0])
@pytest.mark.parametrize("name", FLOATS + INTEGERS)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_compiled_products_have_the_same_bits(compiled: None, arch: str, name: str, scale: float) -> None:
    numerics, mode = gpuemu.load_arch(arch).tensor_core.numerics, mma_mode(name)
    rng = np.random.default_rng(7)
    for _ in range(4):
        a, b = (
            drawn(rng, kind, part.registers, scale) for kind, part in ((mode.a_type, mode.a), (mode.b_type, mode.b))
        )
        c = drawn(rng, mode.accumulator, mode.c.registers, scale)
        expected = mma_registers(numerics, mode, by_warp(a), by_warp(b), by_warp(c))
        assert COMPILED.load()
        found = compiled_product(numerics, mode, a, b, c)
        COMPILED.module = None
        if found is None:
            assert scale not in (1.0, 30.0) or expected.dtype != np.uint32 or not finite(mode.accumulator, expected)
            continue
        assert np.array_equal(by_warp(found), expected)


def finite(kind: str, words: Any) -> bool:
    if kind == "f16":
        return bool(((words.view(np.uint16) & 0x7C00) != 0x7C00).all())
    return bool(((words & 0x7F800000) != 0x7F800000).all())


@pytest.mark.parametrize("name", ["m16n8k16.f32.bf16", "m16n8k8.f32.tf32"])
def test_products_that_float32_does_not_hold(compiled: None, name: str) -> None:
    """Their sums are in its range again: each has its opposite."""
    numerics, mode = gpuemu.load_arch("sm_90").tensor_core.numerics, mma_mode(name)
    a = np.full((mode.a.registers, 32), 0x60806080 if "bf16" in name else 0x60800000, np.uint32)  # 2^66
    b = np.full((mode.b.registers, 32), 0x5F80DF80 if "bf16" in name else 0x5F800000, np.uint32)  # 2^64, opposites
    if "tf32" in name:
        b[1] |= np.uint32(0x80000000)
    c = drawn(np.random.default_rng(8), "f32", 4, 2.0**120)[:, :32].copy()
    expected = mma_registers(numerics, mode, a, b, c)
    assert COMPILED.load()
    found = compiled_product(numerics, mode, a, b, c)
    assert found is not None
    assert np.array_equal(found, expected)
    assert np.count_nonzero(found)


def test_without_instructions_that_convert_float16(compiled: None) -> None:
    """Where the processor has none, the same bits."""
    test = f"{__file__}::test_compiled_products_have_the_same_bits"
    arguments = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-k", "sm_90 and 0.0001 and f16", test]
    done = subprocess.run(arguments, env=os.environ | {"NUMBA_CPU_NAME": "generic"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_numbers_that_are_not_ordinary_are_left_to_numpy(compiled: None) -> None:
    mode = mma_mode("m16n8k16.f32.f16")
    numerics = gpuemu.load_arch("sm_90").tensor_core.numerics
    a, b, c = (np.zeros((part.registers, 32), dtype=np.uint32) for part in (mode.a, mode.b, mode.c))
    assert COMPILED.load()
    assert compiled_product(numerics, mode, a, b, c) is not None
    for at, bits in ((0, 0x7C00), (1, 0x7E000000), (2, 0xFF800000)):
        operands = [a.copy(), b.copy(), c.copy()]
        operands[at][1, 3] = bits
        assert compiled_product(numerics, mode, *operands) is None


def test_compiled_products_come_when_a_run_is_long(compiled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    mode = mma_mode("m16n8k16.f32.f16")
    numerics = gpuemu.load_arch("sm_90").tensor_core.numerics
    operands = [np.zeros((part.registers, 32), dtype=np.uint32) for part in (mode.a, mode.b, mode.c)]
    monkeypatch.setattr(COMPILED, "calls", 3)
    answers = [compiled_product(numerics, mode, *operands) is not None for _ in range(5)]
    assert answers == [False, False, True, True, True]


@pytest.mark.parametrize("trouble", [ImportError, RuntimeError])
def test_without_numba_there_is_none(monkeypatch: pytest.MonkeyPatch, trouble: type[Exception]) -> None:
    def refuse(name: str) -> None:
        raise trouble(name)

    monkeypatch.setattr("gpuemu.base.compiled.import_module", refuse)
    late = Compiled("gpuemu.tensor.compiled", 2)
    assert [late.ask() for _ in range(4)] == [None] * 4
    assert not late.load()
