"""What the kernels of `warps.cu` must compute."""

from __future__ import annotations

import numpy as np
from launches import Launch
from numpy.typing import NDArray

N = 64
LANES = range(32)


def inputs(seed: int, high: int = 200) -> NDArray:
    return np.random.default_rng(seed).integers(0, high, N).astype(np.int32)


def by_warp(x: NDArray) -> list[list[int]]:
    return [w.tolist() for w in x.reshape(-1, 32)]


def ballot(flags: list[bool]) -> int:
    return sum(1 << i for i, flag in enumerate(flags) if flag)


def table(rows: int, per_lane: list[list[int]]) -> NDArray:
    """[row, thread] of 32-bit words from a list of results for each thread."""
    found = np.zeros((rows, N), np.int64)
    for t, results in enumerate(per_lane):
        found[: len(results), t] = results
    return (found & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


def shuffles() -> Launch:
    x = inputs(1)
    rows, wide = [], []
    for w in by_warp(x):
        for i in LANES:
            results = [
                w[5], w[i & 24 | (i + 1) % 8], w[i - 3] if i >= 3 else w[i], w[i + 2] if i % 16 < 14 else w[i], w[i ^ 7],
                w[w[i] & 31],
            ]  # fmt: skip
            if i & 1:
                results += [w[9], w[i + 2] if i + 2 < 32 else w[i]]
            rows.append(results)
            wide.append(w[i ^ 1] + w[min(i + 1, 31)] ** 2)
    arguments = [np.zeros((8, N), np.int32), x, np.zeros(N), N]
    return Launch(arguments, {0: table(8, rows), 2: np.array(wide, float)}, block=(N, 1, 1))


def votes() -> Launch:
    x = inputs(2)
    rows = []
    for w in by_warp(x):
        for i in LANES:
            alike = [v >> 20 == w[0] >> 20 for v in w]
            results = [
                ballot([v & 1 == 1 for v in w]), int(7 in w), 1, ballot([v & 3 == w[i] & 3 for v in w]),
                0xFFFFFFFF if all(alike) else 0, int(all(alike)), 0xFFFFFFFF, ballot([v % 5 == w[i] % 5 for v in w]),
            ]  # fmt: skip
            odd = [ballot([v & 2 == 2 and j & 1 == 1 for j, v in enumerate(w)]), 16]
            results += odd if i & 1 else [0, 0]
            results += [sum(v > 0 for v in w[:i]), int((x & 1).sum()), int((x < 100).all()), 1]
            rows.append(results)
    return Launch([np.zeros((14, N), np.int32), x, N], {0: table(14, rows)}, block=(N, 1, 1))


def reductions() -> Launch:
    x = np.random.default_rng(3).integers(-(1 << 31), 1 << 31, N).astype(np.int32)
    rows = []
    for w in by_warp(x):
        words = [v % (1 << 32) for v in w]
        both = [f.reduce(np.array(words, np.uint32)) for f in (np.bitwise_and, np.bitwise_or, np.bitwise_xor)]
        for i in LANES:
            results = [sum(w), min(w), max(words), *map(int, both)]
            rows.append([*results, sum(w[::3])] if i % 3 == 0 else results)
    return Launch([np.zeros((7, N), np.int32), x, N], {0: table(7, rows)}, block=(N, 1, 1))


def groups() -> Launch:
    x = inputs(4)
    rows, sums = [], []
    for number, w in enumerate(by_warp(x)):
        odd = [v for v in w if v & 1]
        for i in LANES:
            four = w[i & 28 : (i & 28) + 4]
            results = [
                sum(w), max(four), sum(w[: i + 1]), sum(four[: i % 4]), four[2], i // 4, ballot([v > 3 for v in w]),
                ballot([v & 7 == w[i] & 7 for v in w]),
            ]  # fmt: skip
            results += [sum(v & 1 for v in w[:i]), sum(odd), odd[0]] if w[i] & 1 else [0, 0, 0]
            alike = [v for v in w if v % 3 == w[i] % 3]
            two = sum((v > 50) == (w[i] > 50) for v in w)
            rows.append([*results, len(alike), min(alike), two, 32 * number + i + 1000 * N])
            sums.append(sum(w) / 2)
    arguments = [np.zeros((15, N), np.int32), x, np.zeros(N, np.float32), N]
    return Launch(arguments, {0: table(15, rows), 2: np.array(sums, np.float32)}, block=(N, 1, 1))


def large_groups() -> Launch:
    x = np.random.default_rng(5).integers(-1000, 1000, 128).astype(np.int32)
    two, lanes = x.reshape(2, 64), np.arange(128)
    rows = [
        two.sum(axis=1)[lanes // 64], np.full(128, x.max()), (two.cumsum(axis=1) - two).ravel(), two[lanes // 64, 33],
        (two == x[70]).any(axis=1)[lanes // 64], x[lanes ^ 64], lanes % 64 ^ 32,
    ]  # fmt: skip
    return Launch([np.zeros((7, 128), np.int32), x, 128], {0: np.array(rows, np.int32)}, block=(128, 1, 1))


def whole_grid() -> Launch:
    x = inputs(6)
    return Launch(
        [np.zeros(3 * N, np.int32), x, N], {0: np.concatenate([x + N, x[::-1] + N, 0 * x + N])}, block=(N, 1, 1)
    )


CASES = {f.__name__: f for f in (shuffles, votes, reductions, groups, large_groups, whole_grid)}
ONLY = dict.fromkeys(("reductions", "large_groups"), ("sm_80", "sm_86", "sm_89", "sm_90", "sm_120"))
