"""Matrix instructions by compiled code: the same registers as without, of any numbers, warps and operands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuemu.tensor.mma import COMPILED
from tests.sass.harness import execute

pytest.importorskip("numba")

WARPS, A, B, C, D, METADATA = 3, 8, 40, 64, 96, 120
HALF = ["HMMA.16816.F16", "HMMA.1688.F16", "HMMA.SP.16832.F16", "HMMA.SP.16816.F16"]
FLOATS = {
    "f16": ["HMMA.16816.F32", "HMMA.1688.F32", "HMMA.SP.16832.F32", "HMMA.SP.16816.F32", *HALF],
    "bf16": ["HMMA.16816.F32.BF16", "HMMA.1688.F32.BF16", "HMMA.SP.16832.F32.BF16", "HMMA.SP.16816.F32.BF16"],
    "f32": [
        "HMMA.1688.F32.TF32", "HMMA.1684.F32.TF32", "HMMA.SP.16816.F32.TF32", "HMMA.SP.1688.F32.TF32",
    ],
    "8": [
        "QMMA.16832.F32.E4M3.E5M2", "QMMA.16816.F32.E4M3.E4M3", "QMMA.16832.F16.E5M2.E4M3", "QMMA.SP.16864.F32.E4M3.E4M3",
        "QMMA.SP.16832.F32.E5M2.E5M2", "QMMA.16816.F16.E4M3.E5M2", "QMMA.16832.F32.E3M2.E2M1", "QMMA.SP.16864.F16.E2M3.E5M2",
    ],
}  # fmt: skip
KINDS = [(op, kind) for kind, ops in FLOATS.items() for op in ops]
SELECTORS = {"16816.F32.TF32": 2, "16832.F32.E": 2, "16832.F": 2, "16816.F": 4, "1688": 4}


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(COMPILED, "module", None)
    monkeypatch.setattr(COMPILED, "calls", 1 << 60)
    yield
    COMPILED.module = None


def numbers(rng: np.random.Generator, kind: str, count: int, scale: float) -> Any:
    """Registers of normal numbers, of bits where the scale is 0; some zeros."""
    lanes = 32 * WARPS
    words = rng.integers(0, 1 << 32, (count, lanes), dtype=np.uint32)
    if scale == 0 or kind == "whole":
        return words
    if kind == "8":
        return words & np.uint32(0xBEBEBEBE)
    drawn = rng.standard_normal((count, lanes, 2)) * scale * (rng.random((count, lanes, 2)) > 0.1)
    if kind == "f16":
        with np.errstate(over="ignore"):
            return drawn.astype(np.float16).view(np.uint32)[..., 0]
    singles = drawn.astype(np.float32).view(np.uint32)
    return singles[..., 0] if kind == "f32" else (singles >> 16).astype(np.uint16).view(np.uint32)[..., 0]


def metadata(rng: np.random.Generator, legal: bool) -> Any:
    nibbles = np.array([0x4, 0x8, 0xC, 0x9, 0xD, 0xE])[rng.integers(0, 6, (32 * WARPS, 8))]
    words = (nibbles << np.arange(0, 32, 4)).sum(axis=1).astype(np.uint32)
    return words if legal else rng.integers(0, 1 << 32, words.shape, dtype=np.uint32)


def run(text: str, registers: dict[int, Any], mask: Any, arch: str, compiled: bool) -> Any:
    if compiled:
        assert COMPILED.load()
    else:
        COMPILED.module, COMPILED.calls = None, 1 << 60
    return execute(text, registers, mask=mask, lanes=32 * WARPS, arch=arch).registers


@pytest.mark.slow
@pytest.mark.parametrize("case", KINDS, ids=lambda case: case[0])
@given(
    seed=st.integers(0, 1 << 30), scale=st.sampled_from([1.0, 1.0, 1e-4, 30.0, 1e-9, 1e-20, 1e17, 0.0]),
    of_c=st.sampled_from([0.0, 1e-30, 1.0, 1e4]), one_warp=st.booleans(), form=st.integers(0, 5), arch=st.sampled_from(["sm_90", "sm_80"]),
    legal=st.integers(0, 4), infinite=st.integers(0, 3),
)  # fmt: skip
def test_the_registers_are_the_same(
    case: tuple[str, str],
    seed: int,
    scale: float,
    of_c: float,
    one_warp: bool,
    form: int,
    arch: str,
    legal: int,
    infinite: int,
) -> None:
    opcode, kind = case
    rng = np.random.default_rng(seed)
    registers = {METADATA: metadata(rng, legal > 0)}
    of_sums = "f16" if ".F16" in opcode and "BF16" not in opcode else "f32"
    for first, count, what, size in (
        (A, 16, kind, scale),
        (B, 8, kind, scale),
        (C, 4, of_sums, of_c or scale),
        (D, 8, "whole", 0.0),
    ):
        for k, row in enumerate(numbers(rng, what, count, size)):
            registers[first + k] = row
    if infinite == 0:
        registers[A][rng.integers(0, 32)] = 0x7F807C7F  # in the first warp
    places = [f"R{D}", f"R{A}", f"R{B}", f"R{C}"]
    if form in (1, 2, 3):
        places[form] = "RZ"
    if form == 4:
        places[0] = places[3]
    if form == 5:
        places[0] = f"R{A + 2}"
    rest = ""
    if ".SP" in opcode:
        most = next((n for name, n in SELECTORS.items() if name in opcode), 1)
        rest = f", R{METADATA}, {int(rng.integers(0, most)):#x}"
    mask = np.repeat(np.arange(WARPS) == 1, 32) if one_warp else None
    text = f"{opcode} {', '.join(places)}{rest}"
    assert np.array_equal(run(text, registers, mask, arch, True), run(text, registers, mask, arch, False))
