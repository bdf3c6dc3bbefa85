"""The loop that Numba compiles has the bits of the NumPy form, and an H200's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.base.compiled import Compiled
from gpuemu.isa.fragments import FLOAT_MODES, MmaMode, float_mode, mma_mode
from gpuemu.tensor.mma import COMPILED, mma, mma_registers

pytest.importorskip("numba")

SAMPLE = Path(__file__).parents[1] / "data" / "h200" / "mma_numerics_sample.npz"
WARPS = 5
EIGHT_BITS = [float_mode(k, c, types) for k, c, types in (
    (32, "f32", ("e4m3", "e5m2")), (16, "f32", ("e5m2", "e5m2")), (32, "f16", ("e5m2", "e4m3")), (16, "f16", ("e4m3", "e4m3")),
)]  # fmt: skip
MODES = [*(mma_mode(name) for name in FLOAT_MODES), *EIGHT_BITS]


@pytest.fixture(autouse=True)
def not_loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without Numba's loop until a test loads it, and behind the test as before it."""
    monkeypatch.setattr(COMPILED, "module", None)
    monkeypatch.setattr(COMPILED, "calls", 1 << 60)
    yield
    COMPILED.module = None


def drawn(rng: np.random.Generator, kind: str, registers: int, scale: float) -> Any:
    """Registers [warps, registers, 32] of normal numbers and some zeros, or of any bits where `scale` is 0."""
    words = rng.integers(0, 1 << 32, (WARPS, registers, 32), dtype=np.uint32)
    if scale == 0 or kind in ("e4m3", "e5m2"):
        return words
    numbers = rng.standard_normal((WARPS, registers, 32, 2)) * scale * (rng.random((WARPS, registers, 32, 2)) > 0.1)
    if kind == "f16":
        with np.errstate(over="ignore"):
            return numbers.astype(np.float16).view(np.uint32)[..., 0]
    singles = numbers.astype(np.float32).view(np.uint32)
    return (singles >> 16).astype(np.uint16).view(np.uint32)[..., 0] if kind == "bf16" else singles[..., 0].copy()


def both_ways(numerics: Any, mode: MmaMode, a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """D in NumPy, and by compiled code."""
    COMPILED.module = None
    plain = mma_registers(numerics, mode, a, b, c)
    assert COMPILED.load()
    return plain, mma_registers(numerics, mode, a, b, c)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 1e-4, 30.0, 1e-20, 1e18, 0.0])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_compiled_products_have_the_same_bits(arch: str, mode: MmaMode, scale: float) -> None:
    numerics, rng = gpuemu.load_arch(arch).tensor_core.numerics, np.random.default_rng(7)
    for of_c in (scale, 1.0, 1e-30):
        a, b = (drawn(rng, kind, of.registers, scale) for kind, of in ((mode.a_type, mode.a), (mode.b_type, mode.b)))
        plain, compiled = both_ways(numerics, mode, a, b, drawn(rng, mode.accumulator, mode.c.registers, of_c))
        assert np.array_equal(plain, compiled)
        assert of_c < 1 or np.count_nonzero(plain)


@pytest.mark.slow
@pytest.mark.parametrize("above", [-1000, 0, 40])
@pytest.mark.parametrize(("least", "most"), [(-72, -44), (-50, -49), (55, 64), (-75, 62)])
@pytest.mark.parametrize("mode", ["m16n8k16.f32.bf16", "m16n8k8.f32.tf32"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_sums_at_the_ends_of_float32_have_the_same_bits(
    arch: str, mode: str, least: int, most: int, above: int
) -> None:
    """Compiled code uses float32 where its exponents suffice. C is 2^above times as large as a product, or zero."""
    chosen, rng = mma_mode(mode), np.random.default_rng(most + 100)

    def powers(registers: int, ends: tuple[int, int], more: int) -> Any:
        exponents = np.minimum(rng.integers(*ends, (WARPS, registers, 32)) + more, 126)
        singles = np.ldexp(rng.uniform(1, 2, exponents.shape), exponents).astype(np.float32).view(np.uint32)
        return singles | (rng.integers(0, 2, exponents.shape) << 31).astype(np.uint32)

    a, b = (powers(of.registers, (least, most + 1), 0) for of in (chosen.a, chosen.b))
    c = powers(4, (2 * least, 2 * most + 1), above)
    plain, compiled = both_ways(gpuemu.load_arch(arch).tensor_core.numerics, chosen, a, b, c)
    assert np.array_equal(plain, compiled)


@pytest.mark.slow
def test_the_largest_sum_of_a_block_is_exact() -> None:
    """All 32 products are 448 x 448 and keep 25 bits, so that their sum has more than 32 bits."""
    mode, words = float_mode(32, "f32", ("e4m3", "e4m3")), np.uint32(0x7E7E7E7E)
    a, b = (np.full((1, of.registers, 32), words) for of in (mode.a, mode.b))
    numerics = gpuemu.load_arch("sm_120").tensor_core.numerics
    plain, compiled = both_ways(numerics, mode, a, b, np.zeros((1, 4, 32), np.uint32))
    assert np.array_equal(plain, compiled)
    assert (plain.view(np.float32) == 32 * 448**2).all()


@pytest.mark.slow
@pytest.mark.parametrize("kept", [1, 13, 40])
@pytest.mark.parametrize("block", [1, 4, 64])
def test_other_numbers_of_bits_and_products_count_for_both(kept: int, block: int) -> None:
    arch = gpuemu.load_arch("sm_90").with_overrides({
        "tensor_core.numerics.kept_fraction_bits": kept, "tensor_core.numerics.products_per_block_16_bit": block,
    })  # fmt: skip
    mode, rng = mma_mode("m16n8k16.f32.f16"), np.random.default_rng(3)
    operands = [drawn(rng, kind, n, 1.0) for kind, n in (("f16", 4), ("f16", 2), ("f32", 4))]
    plain, compiled = both_ways(arch.tensor_core.numerics, mode, *operands)
    assert np.array_equal(plain, compiled)


def test_the_sampled_results_of_an_h200_are_met_to_the_bit() -> None:
    assert COMPILED.load()
    with np.load(SAMPLE) as measured:
        for name in FLOAT_MODES:
            operands, results = measured[f"{name}/in"], measured[f"{name}/out"]
            a, b, c = (getattr(mma_mode(name), of).registers for of in "abc")
            d = mma(gpuemu.load_arch("sm_90"), name, operands[:, :a], operands[:, 4 : 4 + b], operands[:, 6 : 6 + c])
            assert np.array_equal(d, results[:, :c])


def test_the_loop_comes_when_a_run_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    mode = mma_mode("m16n8k16.f32.f16")
    numerics = gpuemu.load_arch("sm_90").tensor_core.numerics
    operands = [np.zeros((of.registers, 32), dtype=np.uint32) for of in (mode.a, mode.b, mode.c)]
    monkeypatch.setattr(COMPILED, "calls", 3)
    loaded = []
    for _ in range(4):
        mma_registers(numerics, mode, *operands)
        loaded.append(COMPILED.module is not None)
    assert loaded == [False, False, True, True]


def test_products_of_many_warps_count_by_the_chunks_that_numpy_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    mode = mma_mode("m16n8k16.f32.f16")
    numerics = gpuemu.load_arch("sm_90").tensor_core.numerics
    operands = [np.zeros((33, of.registers, 32), dtype=np.uint32) for of in (mode.a, mode.b, mode.c)]
    monkeypatch.setattr(COMPILED, "calls", 4)
    loaded = []
    for _ in range(2):
        mma_registers(numerics, mode, *operands)  # 16, 16 and 1 warps
        loaded.append(COMPILED.module is not None)
    assert loaded == [False, True]


@pytest.mark.parametrize("trouble", [ImportError, RuntimeError])
def test_without_numba_there_is_none(monkeypatch: pytest.MonkeyPatch, trouble: type[Exception]) -> None:
    def refuse(name: str) -> None:
        raise trouble(name)

    monkeypatch.setattr("gpuemu.base.compiled.import_module", refuse)
    late = Compiled("gpuemu.tensor.compiled", 2)
    assert [late.ask() for _ in range(4)] == [None] * 4
    assert not late.load()


@pytest.mark.slow
def test_what_was_compiled_is_found_by_the_next_process(tmp_path: Any) -> None:
    code = "from gpuemu.tensor.mma import COMPILED as c; c.load(); print(sum(c.module.float_product.stats.cache_hits.values()))"
    environment = {"GPUEMU_CACHE": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}

    def again() -> tuple[int, str]:
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        return int(done.stdout), done.stderr

    assert [again() for _ in range(2)] == [(0, ""), (1, "")]
    (file,) = tmp_path.glob("tensor-*/**/*.nbc")
    content = bytearray(file.read_bytes())
    content[-9] ^= 1  # tests/base/test_cache.py has other damage
    file.write_bytes(content)
    hits, said = again()
    assert hits == 0
    assert said.count("\n") == 1
    assert "damaged in the cache of compiled code. gpuemu deletes it and makes it again when needed." in said
    assert again() == (1, "")


def test_operands_that_may_only_be_read_are_multiplied_too() -> None:
    numerics, mode, rng = (
        gpuemu.load_arch("sm_90").tensor_core.numerics,
        mma_mode("m16n8k16.f32.f16"),
        np.random.default_rng(5),
    )
    a, b, c = (drawn(rng, kind, registers, 1.0)[:1] for kind, registers in (("f16", 4), ("f16", 2), ("f32", 4)))
    a.flags.writeable = False
    plain, compiled = both_ways(numerics, mode, a, b, c)
    assert np.array_equal(plain, compiled)
