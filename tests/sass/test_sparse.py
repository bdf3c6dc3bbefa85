"""Sparse matrix products, and those of 8-bit floats, against an H200's bits (tests/data/h200/matrix_products.npz).

Measured with wgmma.m64n8k32 and mma.sp of each shape: random operands and metadata, NaN and infinities among the 8-bit ones.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.isa.fragments import a_fragment, b_fragment, c_fragment, float_mode
from gpuemu.sass.machine.lanes import Lanes
from gpuemu.sass.machine.memory.storage import Memory
from gpuemu.sass.machine.operands import UnsupportedError
from gpuemu.tensor.numbers import FORMATS, decode_values
from gpuemu.tensor.sums import float_product, sums_of
from tests.sass.harness import execute, surroundings

DATA = Path(__file__).resolve().parent.parent / "data" / "h200" / "matrix_products.npz"
SPARSE = {
    "f16k32s0": ("HMMA.SP.16832.F32", 0), "f16k32s1": ("HMMA.SP.16832.F32", 1), "f16k16s0": ("HMMA.SP.16816.F32", 0),
    "f16k16s3": ("HMMA.SP.16816.F32", 3), "bf16k32s0": ("HMMA.SP.16832.F32.BF16", 0),
    "bf16k16s1": ("HMMA.SP.16816.F32.BF16", 1), "tf32k16s0": ("HMMA.SP.16816.F32.TF32", 0),
    "tf32k16s1": ("HMMA.SP.16816.F32.TF32", 1), "tf32k8s0": ("HMMA.SP.1688.F32.TF32", 0),
    "tf32k8s3": ("HMMA.SP.1688.F32.TF32", 3), "h16k32s1": ("HMMA.SP.16832.F16", 1), "h16k16s2": ("HMMA.SP.16816.F16", 2),
    "s8k64": ("IMMA.SP.16864.S8.S8", 0), "s8k32s0": ("IMMA.SP.16832.S8.U8", 0), "s8k32s1": ("IMMA.SP.16832.S8.U8", 1),
}  # fmt: skip
EIGHT = {"q44": ("e4m3", "e4m3"), "q55": ("e5m2", "e5m2"), "q45": ("e4m3", "e5m2"), "q54": ("e5m2", "e4m3"),
         "h44": ("e4m3", "e4m3"), "h55": ("e5m2", "e5m2")}  # fmt: skip


@cache
def data() -> dict[str, Any]:
    with np.load(DATA) as file:
        return dict(file)


def sides(opcode: str) -> tuple[str, str]:
    return (".ROW", ".COL") if opcode.startswith("IMMA") else ("", "")


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_products_have_the_hardware_s_bits(name: str) -> None:
    opcode, selector = SPARSE[name]
    a, b, c, d, e = (data()[f"sp_{name}_{x}"] for x in "abcde")
    count = d.shape[1] if ".F16" not in opcode else 2
    registers = {40: e.reshape(-1)}
    for first, words in ((8, a), (16, b), (24, c)):
        registers |= {first + k: np.ascontiguousarray(words[:, k]).reshape(-1) for k in range(words.shape[1])}
    row, column = sides(opcode)
    lanes = execute(f"{opcode} R32, R8{row}, R16{column}, R24, R40, {selector:#x}", registers)
    found = lanes.registers[32 : 32 + count].reshape(count, -1, 32).swapaxes(0, 1)
    assert np.array_equal(found, d[:, :count])


@pytest.mark.parametrize(
    "opcode", ["HMMA.SP.1688.F32", "HMMA.SP.16832.F16.BF16", "IMMA.SP.168128.S8.S8", "QMMA.16832.E4M3.E4M3"]
)
def test_other_shapes_are_refused(opcode: str) -> None:
    row, column = sides(opcode)
    rest = ", R40, 0x0" if ".SP" in opcode else ""
    with pytest.raises((UnsupportedError, gpuemu.GpuemuError), match=opcode.split(".")[0]):
        execute(f"{opcode} R32, R8{row}, R16{column}, R24{rest}")


def test_sparse_integers_of_4_bits_and_saturation() -> None:
    rng = np.random.default_rng(2)
    a, b, c, e = (rng.integers(0, 1 << 32, (n, 64), dtype=np.uint32) for n in (2, 2, 4, 1))
    e[:] = 0xE9C84D84
    registers = {f + k: words[k] for f, words in ((8, a), (16, b), (24, c), (40, e)) for k in range(len(words))}
    lanes = execute("IMMA.SP.16864.S4.U4.SAT R32, R8.ROW, R16.COL, R24, R40, 0x1", registers)

    def numbers(words: Any, signed: bool) -> Any:
        found = (words[..., None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15).astype(int)
        return np.where(found > 7, found - 16, found) if signed else found

    for warp in range(2):
        part = slice(32 * warp, 32 * warp + 32)
        left = numbers(a_fragment(4, 32).gather(a[None, :, part])[0], True).reshape(16, 32)
        right = numbers(b_fragment(8, 32).gather(b[None, :, part])[0].T, False).reshape(8, 64)
        nibbles = [0xE9C84D84 >> 4 * k & 15 for k in range(8)]
        pairs = [4 * k + place for k, n in enumerate(nibbles) for place in (n & 3, n >> 2)]
        rows = [2 * pair + k for pair in pairs for k in (0, 1)]
        total = left @ right[:, rows].T + c_fragment(32).gather(c[None, :, part])[0].astype(np.uint32).view(np.int32)
        expected = np.clip(total, -(1 << 31), (1 << 31) - 1)
        found = c_fragment(32).gather(lanes.registers[None, 32:36, part])[0].astype(np.uint32).view(np.int32)
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_8_bit_floats_have_their_values(kind: str) -> None:
    values = decode_values(kind, np.arange(256, dtype=np.uint8)).astype(np.float64)
    form = FORMATS[kind]
    for raw in range(256):
        field, fraction = raw >> form.fraction_bits & form.largest_field, raw & ((1 << form.fraction_bits) - 1)
        sign = -1 if raw & 0x80 else 1
        exponent = max(field, 1) - form.bias
        expected = sign * (fraction / (1 << form.fraction_bits) + (field > 0)) * 2.0**exponent
        if kind == "e4m3" and raw & 0x7F == 0x7F:
            expected = np.nan
        if kind == "e5m2" and field == 31:
            expected = np.nan if fraction else sign * np.inf
        assert np.array_equal(values[raw], expected, equal_nan=True), hex(raw)


def words_of(bytes_: Any) -> Any:
    return np.ascontiguousarray(bytes_).view(np.uint32)


@pytest.mark.parametrize("name", EIGHT)
def test_warpgroup_products_of_8_bit_floats_have_the_hardware_s_bits(name: str) -> None:
    half = name.startswith("h")
    count = 2 if half else 4
    types = ".".join(kind.upper() for kind in EIGHT[name])
    opcode = f"QGMMA.64x8x32.{'F16' if half else 'F32'}.{types}"
    for a, b, c, d in zip(*(data()[f"{name}_{x}"] for x in "abcd"), strict=True):
        memory = Memory(
            shared_bytes=0x4000, shared_base=0x400, local_bytes_per_lane=0, lanes=Lanes(128), zero_shared=True
        )
        memory.shared[1][0x400 : 0x400 + 2048] = a  # matrices of 8 x 16 bytes, those along K next to each other
        memory.shared[1][0x1000 : 0x1000 + 256] = b
        high, low = 16, 8 << 16
        uniform = {4: 0x800 >> 4 | low, 5: high, 6: 0x1400 >> 4 | low, 7: high}
        registers = {24 + k: np.ascontiguousarray(c.reshape(128, count)[:, k]) for k in range(count)}
        environment = surroundings(f"{opcode} R24, gdesc[UR4], R24, gsb0", lanes=128, memory=memory)
        lanes = execute("", registers, uniform=uniform, lanes=128, environment=environment)
        found = lanes.registers[24 : 24 + count].T.reshape(-1)
        assert np.array_equal(found, d)


def test_qmma_is_the_same_product_from_registers() -> None:
    rng = np.random.default_rng(4)
    raw = rng.integers(0, 0x77, (6, 64, 4), dtype=np.uint8) | rng.integers(0, 2, (6, 64, 4), dtype=np.uint8) << 7
    a, b = words_of(raw)[:4, :, 0], words_of(raw)[4:, :, 0]
    c = rng.standard_normal((4, 64)).astype(np.float32).view(np.uint32)
    registers = {f + k: words[k] for f, words in ((8, a), (16, b), (24, c)) for k in range(len(words))}
    lanes = execute("QMMA.16832.F32.E4M3.E5M2 R32, R8, R16, R24", registers, arch="sm_89")
    numerics = gpuemu.load_arch("sm_89").tensor_core.numerics

    def by_warp(words: Any) -> Any:
        return words.reshape(len(words), 2, 32).swapaxes(0, 1)

    matrices = (
        of.gather(by_warp(x)) for of, x in ((a_fragment(32, 8), a), (b_fragment(32, 8), b), (c_fragment(32), c))
    )
    mode = float_mode(32, "f32", ("e4m3", "e5m2"))
    expected = c_fragment(32).scatter(float_product(sums_of(numerics, mode), mode, *matrices))
    assert np.array_equal(by_warp(lanes.registers[32:36]), expected)
    exact = a_fragment(32, 8).gather(by_warp(a))
    exact = decode_values("e4m3", exact).astype(float) @ decode_values("e5m2", b_fragment(32, 8).gather(by_warp(b)))
    exact = exact + c_fragment(32).gather(by_warp(c)).astype(np.uint32).view(np.float32)
    got = c_fragment(32).gather(expected).astype(np.uint32).view(np.float32)
    assert np.allclose(got, exact, rtol=1e-2, atol=np.abs(exact).max() * 2.0**-8)
