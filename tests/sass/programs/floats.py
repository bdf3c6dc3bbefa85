"""What the kernels of `floats.cu` must compute: within the library's error bounds, or to the bit where IEEE says so."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from launches import Launch
from numpy.typing import NDArray

N = 96
GRID, BLOCK = (3, 1, 1), (32, 1, 1)


def values(seed: int, spread: float = 0.0) -> NDArray:
    """float32 of both signs; with `spread`, of magnitudes 10^-spread to 10^spread."""
    choose = np.random.default_rng(seed)
    found = choose.normal(size=N) * 3 * 10.0 ** choose.uniform(-spread, spread, N)
    return found.astype(np.float32)


def close(out: NDArray, wanted: list[Any], ulps: float, scale: float = 2.0**-23) -> Any:
    """A check: each row within `ulps` of what is wanted, relative to its size, or 1e-6 of 1 near zero."""

    def check(_: list[Any]) -> None:
        for row, exact in enumerate(wanted):
            exact = np.asarray(exact, dtype=np.float64)
            np.testing.assert_allclose(out[row], exact, rtol=ulps * scale, atol=8 * scale, err_msg=f"row {row}")

    return check


def math_library() -> Launch:
    a32, b32, c32 = values(1), values(2), values(3)
    a, b, c = (x.astype(np.float64) for x in (a32, b32, c32))
    each = np.frompyfunc
    lgamma, erf, erfc = (each(f, 1, 1) for f in (math.lgamma, math.erf, math.erfc))
    size, million = np.abs(a), (a32 * np.float32(1e6)).astype(np.float64)
    fraction, exponent = np.frexp(a)
    wanted = [
        np.sin(a), np.cos(a), np.tan(a), np.sin(million), np.arcsin(a / 8), np.arccos(a / 8), np.arctan(a), np.arctan2(a, b),
        np.sinh(a), np.cosh(a), np.tanh(a), np.arcsinh(a), np.arccosh(np.float64(1 + a32 * a32)), np.arctanh(a / 8), np.exp(a),
        np.exp2(a), 10**a, np.expm1(a), np.log(size), np.log2(size), np.log10(size), np.log1p(size), size**b, a**3,
        np.sqrt(size), 1 / np.sqrt(size), np.cbrt(a), np.hypot(a, b), erf(a), erfc(a), lgamma(size), np.fmod(a, b), a / b,
        a * b + c, np.floor(a), np.ceil(a), np.trunc(a), np.rint(a), np.minimum(a, b), np.maximum(a, b), np.copysign(a, b),
        8 * a, exponent - 1, erfc(-a / math.sqrt(2)) / 2, np.modf(a)[0], np.modf(a)[1], fraction, exponent,
    ]  # fmt: skip
    out = np.zeros((len(wanted), N), np.float32)
    return Launch([out, a32, b32, c32, N], {}, GRID, BLOCK, kernel="math", checks=[close(out, wanted, 16)])


def fast() -> Launch:
    a32, b32 = values(4), values(5)
    a, b = a32.astype(np.float64), b32.astype(np.float64)
    size = np.abs(a)
    wanted = [np.sin(a), np.cos(a), np.exp(a), np.log(size), size**b, a / b, 1 / np.sqrt(size), np.tanh(a)]
    out = np.zeros((len(wanted), N), np.float32)
    return Launch([out, a32, b32, N], {}, GRID, BLOCK, checks=[close(out, wanted, 64, 2.0**-20)])


def rounded(exact: Fraction, direction: str) -> np.float32:
    """A rational number as float32, in a direction; far from the ends of the exponents."""
    if exact == 0:
        return np.float32(0)
    exponent = math.floor(math.log2(abs(exact)))
    while abs(exact) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(exact) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (exponent - 23)
    scaled = exact / unit
    whole = {"rn": round, "rd": math.floor, "ru": math.ceil, "rz": math.trunc}[direction](scaled)
    return np.float32(float(whole * unit))


def root(x: Fraction, direction: str) -> np.float32:
    """The square root, from an integer root with many more bits than float32 has and a sticky one."""
    shift = 200
    scaled = x * Fraction(4) ** shift
    whole = math.isqrt(scaled.numerator // scaled.denominator)
    sticky = 0 if whole * whole == scaled else Fraction(1, 2)
    return rounded((whole + sticky) / Fraction(2) ** shift, direction)


def rounding() -> Launch:
    a, b, c = values(6, 2), values(7, 2), values(8, 2)
    c[:8] = -(a[:8] * b[:8])
    rows = []
    for x, y, z in zip(*([Fraction(float(v)) for v in s] for s in (a, b, c)), strict=True):
        row = [rounded(x + y, d) for d in ("rn", "rd", "ru", "rz")] + [
            rounded(x * y, d) for d in ("rn", "rd", "ru", "rz")
        ]
        row += [rounded(x * y + z, d) for d in ("rn", "rd", "ru", "rz")] + [
            rounded(x / y, d) for d in ("rn", "rd", "ru", "rz")
        ]
        row += [root(abs(x), d) for d in ("rn", "rd", "ru", "rz")] + [rounded(1 / x, "rn"), rounded(1 / x, "ru")]
        rows.append(
            [*row, np.float32(min(max(float(x), 0), 1)), np.float32(float(min(x, y))), np.float32(float(max(x, y)))]
        )
    return Launch([np.zeros((25, N), np.float32), a, b, c, N], {0: np.array(rows, np.float32).T}, GRID, BLOCK)


def to_integers() -> Launch:
    a = np.concatenate([values(9, 3)[: N - 8], [0.5, 1.5, -0.5, -2.5, 3e9, -3e9, 5e9, np.nan]]).astype(np.float32)

    def within(x: float, low: int, high: int) -> int:
        return max(low, min(high, int(x)))

    rows = []
    for x in a.tolist():
        nan = math.isnan(x)
        least, most = -(1 << 31), (1 << 31) - 1
        four = [0 if nan else within(f(x), least, most) for f in (round, math.trunc, math.floor, math.ceil)]
        # A NaN becomes 0 in 32 bits, and the most negative number in 64.
        long = [-(1 << 63) if nan else f(x) for f in (round, math.floor)]
        rows.append([
            *four, 0 if nan else within(math.trunc(x), 0, (1 << 32) - 1), *long,
            -(1 << 63) if nan else within(math.trunc(x), 0, (1 << 64) - 1),
            0 if nan else int(np.float32(x) / np.float32(1e6)), 0 if nan else int(abs(x) / 1e8),
        ])  # fmt: skip
    return Launch([np.zeros((10, N), np.int64), a, N], {0: np.array(rows, np.int64).T}, GRID, BLOCK)


def from_integers() -> Launch:
    choose = np.random.default_rng(10)
    a = choose.integers(-(1 << 63), 1 << 63, N) >> choose.integers(0, 62, N)
    a[a == 0] = 1
    rows = []
    for x in a.tolist():
        i = (x + (1 << 31)) % (1 << 32) - (1 << 31)
        four = [rounded(Fraction(i), d) for d in ("rn", "rz", "rd", "ru")]
        long = [rounded(Fraction(x), d) for d in ("rn", "rz", "ru")]
        rows.append([
            *four, rounded(Fraction(x % (1 << 32)), "rn"), *long, rounded(Fraction(x % (1 << 64)), "rd"),
            float((x + (1 << 15)) % (1 << 16) - (1 << 15)), float((x + 128) % 256 - 128), float(i >> 8 & 255),
        ])  # fmt: skip
    return Launch([np.zeros((12, N), np.float32), a, N], {0: np.array(rows, np.float32).T}, GRID, BLOCK)


CASES = {"math": math_library, **{f.__name__: f for f in (fast, rounding, to_integers, from_integers)}}
