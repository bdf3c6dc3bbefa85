"""What the kernels of `memory.cu` must compute."""

from __future__ import annotations

import numpy as np
from launches import Launch
from numpy.typing import NDArray

N = 64
T = np.arange(N)


def random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def ints(seed: int, count: int = N, high: int = 1000) -> NDArray:
    return random(seed).integers(0, high, count).astype(np.int32)


def vectors() -> Launch:
    v = random(1).normal(size=(N, 4)).astype(np.float32)
    small = random(2).integers(0, 256, (N, 4)).astype(np.uint8)
    shorts = random(3).integers(-10000, 10000, (N, 2)).astype(np.int16)
    three = random(4).normal(size=(N, 3)).astype(np.float32)
    doubles = np.stack([v[:, 0], v[:, 1].astype(float) * 2], axis=1).astype(float)
    summed = np.stack([shorts[:, 0] + shorts[:, 1], shorts[:, 1]], axis=1)
    return Launch(
        [np.zeros_like(v), v, np.zeros((N, 2)), small.copy(), shorts.copy(), three.copy()],
        {0: v[:, ::-1], 2: doubles, 3: small[:, [3, 0, 1, 2]], 4: summed, 5: three[:, [2, 0, 1]]}, block=(N, 1, 1),
    )  # fmt: skip


NUMBERS = np.array([3, 1, 4, 1, 5, 9, 2, 6] + [0] * 56)


def constants() -> Launch:
    i = ints(5)
    expected = NUMBERS[i & 63] + np.array([3, 5, 0, 0])[i & 3] + i % 5 + 1 + 6 + (i & 3) + 1
    expected += np.frombuffer(b"hello", np.uint8)[i % 5] + 2
    return Launch([np.zeros(N, np.int32), i], {0: expected.astype(np.int32)}, block=(N, 1, 1))


def large_parameter() -> Launch:
    values = ints(6, 300)
    return Launch([np.zeros(N, np.int32), values.tobytes(), 4], {0: values[4 * T] + values[299]}, block=(N, 1, 1))


def bytes_() -> Launch:
    data = random(7).integers(0, 256, 5 * N).astype(np.uint8)
    shorts = random(8).integers(-30000, 30000, N).astype(np.int16)
    expected = np.concatenate([data[3 * T] + data[3 * T + 1], (shorts >> 4).astype(np.uint8), data])
    return Launch([np.zeros(7 * N, np.uint8), data, shorts, N], {0: expected}, block=(N, 1, 1), kernel="bytes")


def hints() -> Launch:
    x, kept = ints(9), ints(10)
    expected = np.concatenate([4 * x, 4 * x + 1, 5 * x])
    arguments = [np.zeros(3 * N, np.int32), x, kept.copy(), N]
    return Launch(arguments, {0: expected, 2: kept + 1}, block=(N, 1, 1))


def generic() -> Launch:
    x = ints(11)
    where = T % 4
    values = np.choose(where, [x[T & 15], x + (T & 3), x[T & 7], NUMBERS[T & 7]])
    written = np.where(T & 1, 0, 5)
    expected = np.concatenate([values, np.choose(where, [1, 2, 4, 8]), written, np.where(T & 1, 5, x)])
    return Launch([np.zeros(4 * N, np.int32), x, N], {0: expected.astype(np.int32)}, block=(N, 1, 1))


def dynamic() -> Launch:
    x = ints(12)
    back = x[::-1]
    raw = x.view(np.uint8)
    first = back + back + back + raw[:N][::-1]
    pairs = T.astype(np.uint8).view(np.int16)[T // 2].astype(int)
    expected = np.concatenate([first, pairs + (N - 1 - T), np.full(N, 16 * N + 100000)])
    return Launch(
        [np.zeros(3 * N, np.int32), x, N], {0: expected.astype(np.int32)}, block=(N, 1, 1), shared_bytes=16 * N
    )


def transpose() -> Launch:
    x = random(13).normal(size=(37, 21)).astype(np.float32)
    return Launch([np.zeros((21, 37), np.float32), x, 37, 21], {0: x.T}, (2, 3, 1), (16, 16, 1))


def structures() -> Launch:
    x, out = ints(16), np.zeros(N, np.int32)

    def view(data: np.ndarray, kind: int) -> tuple:
        more = (np.int8(3), np.float64(4))
        return (np.int8(kind), data, np.int16(7), np.int16(-9), more, np.int8(1))

    launch = Launch([view(out, 5), view(x, 6), N], {}, block=(N, 1, 1))
    launch.checks.append(lambda _: np.testing.assert_array_equal(out, 4 * x - 9 + 7 + 3 + 1 + 5))
    return launch


def pipeline() -> Launch:
    x = random(14).integers(0, 100, (10, N)).astype(np.float32)
    arrived = x.copy()
    arrived[3:, 1::2] = 0
    return Launch([np.zeros(N, np.float32), x, 10], {0: arrived[:, ::-1].sum(axis=0)}, block=(N, 1, 1))


def copies() -> Launch:
    x = ints(15, 4 * N)
    shared = np.zeros(512, np.int32)
    shared[: 4 * N] = x
    shared[12:16] = 0  # thread 3's copy is left out: its bytes are zero
    pairs = x[: 2 * N].view(np.uint8).reshape(N, 8).copy()
    pairs[np.arange(8) >= (T % 9)[:, None]] = 0
    shared[256 : 256 + 2 * N] = pairs.ravel().view(np.int32)
    shared[384 : 384 + N] = x[:N]
    return Launch([np.zeros(448, np.int32), x], {0: shared[:448]}, block=(N, 1, 1))


CASES = {
    **{
        f.__name__: f
        for f in (vectors, constants, large_parameter, hints, generic, dynamic, transpose, structures, pipeline, copies)
    },
    "bytes": bytes_,
}
ONLY = dict.fromkeys(("pipeline", "copies"), ("sm_80", "sm_86", "sm_89", "sm_90", "sm_120"))
