"""What the kernels of `barriers.cu` must compute."""

from __future__ import annotations

import numpy as np
from launches import Launch


def random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def named() -> Launch:
    x = random(1).integers(1, 1000, 128).astype(np.int32)
    t = np.arange(128)
    r = x[t ^ 32].copy()
    stored = r + 1
    r[32:64] += stored[:32]
    expected = r + 10000 + 100000 * int((x > 500).sum())
    return Launch([np.zeros(128, np.int32), x, 2], {0: expected}, block=(128, 1, 1))


def early() -> Launch:
    x = random(2).integers(-5, 20, 96).astype(np.int32)
    expected = np.where(x < 0, -9, x + int((x >= 0).sum()))
    return Launch([np.full(96, -9, np.int32), x], {0: expected}, block=(96, 1, 1))


def arrivals() -> Launch:
    x = random(3).integers(0, 1000, (3, 128)).astype(np.int32)
    return Launch([np.zeros_like(x), x, 3], {0: x[:, ::-1]}, block=(128, 1, 1))


def producer() -> Launch:
    x = random(4).integers(0, 1000, (5, 32)).astype(np.int32)
    expected = x[:, np.arange(96) * 7 & 31].sum(axis=0)
    expected[:32] = 0
    return Launch([np.zeros(96, np.int32), x, 5], {0: expected}, block=(96, 1, 1))


def counted() -> Launch:
    x = random(5).integers(0, 1000, 256).astype(np.int32)

    def counts(args: list) -> None:
        np.testing.assert_array_equal(np.sort(args[0][64:]), np.arange(1, 65))

    out = np.zeros(128, np.int32)
    launch = Launch([out, x], {}, block=(64, 1, 1), checks=[counts])
    launch.checks.append(lambda args: np.testing.assert_array_equal(out[:64], x[255 - np.arange(64)]))
    return launch


def dropping() -> Launch:
    return Launch([np.zeros(128, np.int32)], {0: np.arange(128, dtype=np.int32) // 32}, block=(128, 1, 1))


CASES = {f.__name__: f for f in (named, early, arrivals, producer, counted, dropping)}
ONLY = dict.fromkeys(("arrivals", "producer", "counted", "dropping"), ("sm_80", "sm_86", "sm_89", "sm_90", "sm_120"))
