"""What the kernels of `halves.cu` must compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from launches import Launch
from numpy.typing import NDArray

N = 96
GRID, BLOCK = (3, 1, 1), (32, 1, 1)
Narrow = Callable[[NDArray], NDArray]


def half(x: NDArray) -> NDArray:
    return x.astype(np.float16).view(np.uint16)


def brain(x: NDArray) -> NDArray:
    """float64 to the bits of bfloat16, rounded once: to odd in float32 first."""
    single = x.astype(np.float32)
    exact = single.astype(np.float64) == x
    toward = np.nextafter(single, np.where(x > single, np.inf, -np.inf).astype(np.float32))
    odd = single.view(np.uint32) & 1 == 1
    bits = np.where(exact | odd, single, toward).astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def wide(bits: NDArray, narrow: Narrow) -> NDArray:
    if narrow is half:
        return bits.view(np.float16).astype(np.float64)
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def inputs(seed: int, narrow: Narrow, scale: float = 2.0) -> NDArray:
    found = scale * np.random.default_rng(seed).normal(size=2 * N)
    found[:6] = 0.0, 1.0, -1.0, 0.5, 1e-5, -2.0
    return narrow(found)


def arithmetic(kernel: str, narrow: Narrow) -> Launch:
    bits = [inputs(s, narrow) for s in (1, 2, 3)]
    bits[1][40:50] = bits[0][40:50]
    a, b, c = (wide(x, narrow) for x in bits)
    wanted = [
        a + b, a - b, a * b, a * b + c, -a, np.abs(a), np.minimum(a, b), np.maximum(a, b), (a == b) * 1.0, (a < b) * 1.0,
        np.floor(a), np.ceil(a), np.rint(a), np.clip(a + b, 0, 1), np.maximum(a * b + c, 0),
    ]  # fmt: skip
    expected = np.array([narrow(x) for x in wanted])
    out = np.zeros_like(expected)

    def check(_: list[Any]) -> None:
        np.testing.assert_array_equal(wide(out.ravel(), narrow), wide(expected.ravel(), narrow))

    return Launch([out, *bits, N], {}, GRID, BLOCK, kernel=kernel, checks=[check])


def functions(kernel: str, narrow: Narrow, ulp: float) -> Launch:
    bits = [inputs(s, narrow, 1.0) for s in (4, 5)]
    for x in bits:
        x[:6] = narrow(np.array([1.0, 2.0, -1.0, 0.5, 0.25, -2.0]))
    a, b = (wide(x, narrow) for x in bits)
    p = np.abs(a)
    wanted = [
        np.exp(a), np.exp2(a), np.log(p), np.log2(p), np.sqrt(p), 1 / np.sqrt(p), 1 / a, np.sin(a), np.cos(a), a / b, 10**a,
    ]  # fmt: skip
    out = np.zeros((len(wanted), 2 * N), np.uint16)

    def check(_: list[Any]) -> None:
        for row, exact in enumerate(wanted):
            np.testing.assert_allclose(wide(out[row], narrow), exact, rtol=ulp, atol=ulp / 4, err_msg=f"row {row}")

    return Launch([out, *bits, N], {}, GRID, BLOCK, kernel=kernel, checks=[check])


def directed(x: NDArray, down: bool) -> NDArray:
    """float64 to float16 toward minus or plus infinity."""
    nearest = x.astype(np.float16)
    if down:
        return np.where(nearest.astype(float) > x, np.nextafter(nearest, np.float16(-np.inf)), nearest)
    return np.where(nearest.astype(float) < x, np.nextafter(nearest, np.float16(np.inf)), nearest)


def conversions() -> Launch:
    a = (300 * np.random.default_rng(6).normal(size=N)).astype(np.float32)
    a[:6] = 0, 1.0009765, 65504.0, -3.5, 2.5, 1e-6
    x = a.astype(np.float64)
    down, up = directed(x, True), directed(x, False)
    h = a.astype(np.float16)
    out = [
        h,
        np.where(x >= 0, down, up),
        down,
        up,
        np.trunc(x).astype(np.float16),
        h,
        np.trunc(np.abs(x)).astype(np.float16),
    ]
    hw = h.astype(np.float64)
    whole = np.array([np.rint(hw), np.trunc(hw), np.floor(hw), h.view(np.int16)]).astype(np.int32)
    back = np.array([h.astype(np.float32), wide(brain(x), brain).astype(np.float32)])
    arguments = [np.zeros((7, N), np.float16), a, np.zeros((4, N), np.int32), np.zeros((2, N), np.float32), N]
    return Launch(arguments, {0: np.array(out), 2: whole, 3: back}, GRID, BLOCK)


def small_floats(exponent_bits: int, fraction_bits: int, largest: float) -> NDArray:
    """The finite values from 0 up of an eight-bit format, by their codes."""
    codes = np.arange(128)
    exponent, fraction = codes >> fraction_bits, codes & (1 << fraction_bits) - 1
    bias = (1 << exponent_bits - 1) - 1
    size = np.where(
        exponent == 0, fraction * 2.0 ** (1 - bias - fraction_bits), (1 + fraction / (1 << fraction_bits)) * 2.0 ** (exponent - bias)
    )  # fmt: skip
    return size[size <= largest]


def coded(x: NDArray, table: NDArray) -> NDArray:
    size = np.minimum(np.abs(x.astype(np.float64)), table[-1])
    upper = np.clip(np.searchsorted(table, size), 1, len(table) - 1)
    below, above = size - table[upper - 1], table[upper] - size
    code = np.where((below < above) | ((below == above) & (upper % 2 == 1)), upper - 1, upper)
    return (code | np.signbit(x) * 128).astype(np.uint8)


def eight_bits() -> Launch:
    a = (30 * np.random.default_rng(7).normal(size=N)).astype(np.float32)
    a[:6] = 0, 1e-3, 500.0, -1e6, 1.0625, 0.0146484375
    e4m3, e5m2 = small_floats(4, 3, 448), small_floats(5, 2, 57344)
    first, second, third = coded(a, e4m3), coded(a, e5m2), coded(a * np.float32(2), e4m3)

    def back(code: NDArray, table: NDArray) -> NDArray:
        return np.where(code & 128, -1, 1) * table[code & 127]

    floats = np.array([back(first, e4m3), back(second, e5m2), back(coded(a / np.float32(3), e4m3), e4m3)], np.float32)
    arguments = [np.zeros((4, N), np.uint8), a, np.zeros((3, N), np.float32), N]
    return Launch(arguments, {0: np.array([first, second, third, second]), 2: floats}, GRID, BLOCK)


CASES = {
    "half_functions": lambda: functions("half_functions", half, 2.0**-9),
    "half_arithmetic": lambda: arithmetic("half_arithmetic", half),
    "brain_arithmetic": lambda: arithmetic("brain_arithmetic", brain),
    "brain_functions": lambda: functions("brain_functions", brain, 2.0**-6),
    "conversions": conversions,
    "eight_bits": eight_bits,
}
FROM_80 = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_120")
ONLY = dict.fromkeys(("half_arithmetic", "brain_arithmetic", "brain_functions"), FROM_80)
