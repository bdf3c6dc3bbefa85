"""What the kernels of `doubles.cu` must compute."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from launches import Launch
from numpy.typing import NDArray

N = 64
GRID, BLOCK = (2, 1, 1), (32, 1, 1)


def values(seed: int) -> NDArray:
    return 3 * np.random.default_rng(seed).normal(size=N)


def math_library() -> Launch:
    a, b, c = values(1), values(2), values(3)
    each = np.frompyfunc
    lgamma, erf, erfc = (each(f, 1, 1) for f in (math.lgamma, math.erf, math.erfc))
    size = np.abs(a)
    wanted = [
        np.sin(a), np.cos(a), np.tan(a), np.sin(a * 1e10), np.arcsin(a / 16), np.arccos(a / 16), np.arctan(a),
        np.arctan2(a, b), np.sinh(a), np.cosh(a), np.tanh(a), np.arcsinh(a), np.arccosh(1 + a * a), np.arctanh(a / 16),
        np.exp(a), np.exp2(a), 10**a, np.expm1(a), np.log(size), np.log2(size), np.log10(size), np.log1p(size), size**b,
        np.sqrt(size), 1 / np.sqrt(size), np.cbrt(a), np.hypot(a, b), erf(a), erfc(a), lgamma(size), np.fmod(a, b),
        np.floor(a), np.ceil(a), np.trunc(a), np.rint(a), np.minimum(a, b), np.maximum(a, b), np.copysign(a, b), 8 * a,
        np.frexp(a)[1] - 1,
    ]  # fmt: skip
    out = np.zeros((len(wanted), N))

    def check(_: list[Any]) -> None:
        for row, right in enumerate(wanted):
            np.testing.assert_allclose(out[row], np.asarray(right, float), rtol=1e-14, atol=1e-15, err_msg=f"row {row}")

    return Launch([out, a, b, c, N], {}, GRID, BLOCK, kernel="math", checks=[check])


def exact() -> Launch:
    a, b, c = values(4), values(5), values(6)
    bits = a.view(np.int64)
    fused = np.array(
        [math.fma(x, y, z) if hasattr(math, "fma") else fma(x, y, z) for x, y, z in zip(a, b, c, strict=True)]
    )
    wanted = [
        a + b, a * b, fused, a / b, 1 / a, np.sqrt(np.abs(a)), a.astype(np.float32).astype(float), np.trunc(a),
        np.trunc(a * 1e9), bits.astype(float), bits.view(np.uint64).astype(float), (bits ^ 1).view(float),
        np.where(a < b, a, c), np.ones(N), np.ones(N), a / 3, a / 1.4142135623730951,
    ]  # fmt: skip
    return Launch([np.zeros((len(wanted), N)), a, b, c, N], {0: np.array(wanted)}, GRID, BLOCK)


def fma(x: float, y: float, z: float) -> float:
    from fractions import Fraction

    return float(Fraction(x) * Fraction(y) + Fraction(z))


CASES = {"math": math_library, "exact": exact}
