"""What the kernels of `atomics.cu` must leave behind, in any order of the lanes."""

from __future__ import annotations

from functools import reduce

import numpy as np
from launches import Launch
from numpy.typing import NDArray

N = 64
WORDS = np.zeros(16, np.int32)
WORDS[[2, 9]] = 1000
LONGS = np.zeros(8, np.int64)
LONGS[1], LONGS[3] = 10000, -1


def inputs(count: int) -> NDArray:
    return np.random.default_rng(1).integers(1, 120, count).astype(np.int32)


def behind(x: NDArray) -> tuple[NDArray, NDArray]:
    """Words and longs behind all of the atomics; those that only one kernel uses still as they were."""
    values = x.tolist()
    inc = dec = 0
    for _ in values:
        inc = 0 if inc >= 17 else inc + 1
        dec = 9 if dec == 0 or dec > 9 else dec - 1
    words, longs = WORDS.copy(), LONGS.copy()
    words[:13] = [
        sum(values), -sum(values), min(values), max(values), reduce(lambda a, b: a & (b | 0xFF00), values, 0),
        np.array(reduce(lambda a, b: a | 1 << (b & 31), values, 0), np.uint32).view(np.int32),
        reduce(lambda a, b: a ^ b, values, 0), inc, dec, min(values), max(values), 5, 8,
    ]  # fmt: skip
    longs[:] = np.array([
        sum(v * v for v in values), 7 * min(values), max(values),
        reduce(lambda a, b: a & ~(1 << (b & 63)), values, -1) % (1 << 64), reduce(lambda a, b: a | 1 << (b & 63), values, 0),
        reduce(lambda a, b: a ^ b << 20, values, 0), 9, 3,
    ], np.uint64).view(np.int64)  # fmt: skip
    return words, longs


def all_different(args: list, number: int, count: int) -> None:
    np.testing.assert_array_equal(np.sort(args[number]), np.arange(count))


def on_global() -> Launch:
    x = inputs(2 * N)
    words, longs = behind(x)
    words[13:] = [2 * N, 2 * N, 4 * N]
    arguments = [
        WORDS.copy(), LONGS.copy(), np.zeros(1, np.float32), np.zeros(1), np.zeros(2, np.float16), np.zeros(2 * N, np.int32), x,
    ]  # fmt: skip
    expected = {0: words, 1: longs, 2: np.array([x.sum()], np.float32), 3: np.array([x.sum()], float)}
    expected[4] = np.array([2 * N, 4 * N], np.float16)
    return Launch(arguments, expected, (2, 1, 1), (N, 1, 1), checks=[lambda args: all_different(args, 5, 2 * N)])


def on_shared() -> Launch:
    x = inputs(N)
    words, longs = behind(x)
    words[13] = N
    arguments = [WORDS.copy(), LONGS.copy(), np.zeros(2, np.float32), np.zeros(N, np.int32), x]
    expected = {0: words, 1: longs, 2: np.full(2, x.sum(), np.float32)}
    return Launch(arguments, expected, block=(N, 1, 1), checks=[lambda args: all_different(args, 3, N)])


def on_generic() -> Launch:
    x = inputs(N)
    expected = {0: np.array([x[::2].sum(), x[1::2].sum()], np.int32), 1: np.full(2, 7, np.int64)}
    return Launch([np.zeros(2, np.int32), np.zeros(2, np.int64), x], expected, block=(N, 1, 1))


def standard() -> Launch:
    x = inputs(N)
    expected = {0: np.array([x.sum(), 0x10101010], np.int32), 1: np.array([x.sum()], np.int64)}
    return Launch([np.zeros(2, np.int32), np.zeros(1, np.int64), x], expected, block=(N, 1, 1))


def histogram() -> Launch:
    data = np.random.default_rng(2).integers(0, 256, 3000).astype(np.uint8)
    counts = np.bincount(data, minlength=256).astype(np.uint32)
    return Launch([np.zeros(256, np.uint32), data, 3000], {0: counts}, (3, 1, 1), (128, 1, 1))


def locks() -> Launch:
    out = [sum(range(2 * N)), *(10 * ((k ^ 1) % 2) + k for k in range(12))]
    return Launch(
        [np.zeros(1, np.int32), np.zeros(13, np.int32)], {0: np.zeros(1, int), 1: np.array(out)}, (2, 1, 1), (N, 1, 1)
    )


CASES = {f.__name__: f for f in (on_global, on_shared, on_generic, standard, histogram, locks)}
