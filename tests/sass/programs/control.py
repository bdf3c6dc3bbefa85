"""What the kernels of `control.cu` must compute."""

from __future__ import annotations

import numpy as np
from launches import Launch
from numpy.typing import NDArray

T = np.arange(32)
BODY = np.dtype([("x", "f4"), ("y", "f4"), ("z", "f4"), ("tag", "i4"), ("weights", "f8", 3)])


def random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def wrapped(x: int) -> int:
    return (x + (1 << 31)) % (1 << 32) - (1 << 31)


def structs() -> Launch:
    bodies = np.zeros(33, BODY)
    for name in ("x", "y", "z"):
        bodies[name] = random(1).integers(-100, 100, 33)
    bodies["tag"] = random(2).integers(0, 1 << 30, 33)
    bodies["weights"] = random(3).integers(-100, 100, (33, 3))
    given, extra, n = bodies[:32].copy(), bodies[32], 7
    expected = given.copy()
    for t in range(32):
        k = n + t
        expected[t]["x"] += extra["y"] * k
        expected[t]["weights"][k % 3] = extra["weights"][(k + 1) % 3] - given[t]["weights"][0]
        expected[t]["tag"] ^= extra["tag"]
    out = np.zeros(32 * BODY.itemsize, np.uint8)
    arguments = [out, given.view(np.uint8), extra.tobytes(), n]
    return Launch(arguments, {0: expected.view(np.uint8).ravel()}, block=(32, 1, 1))


def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def recursion() -> Launch:
    expected = [fibonacci(5 + t % 4) for t in T] + [2 * (t % 4) + 3 for t in T] + [int(t % 16 % 2 == 0) for t in T]
    return Launch([np.zeros(96, np.int32), 5], {0: np.array(expected, np.int32)}, block=(32, 1, 1))


def quicksort() -> Launch:
    data = random(4).integers(-1000, 1000, (32, 20)).astype(np.int32)
    return Launch([data, 20], {0: np.sort(data, axis=1)}, block=(32, 1, 1))


def virtuals() -> Launch:
    x = random(5).integers(-30, 30, 32).astype(np.float32)
    return Launch([np.zeros(32, np.float32), x, 2], {0: np.where(T % 2, x * x, 5 * x * x)}, block=(32, 1, 1))


def pointers() -> Launch:
    a, b = (random(s).integers(-30, 30, 32) for s in (6, 7))
    b = np.abs(b)
    a = np.abs(a)
    which = T * 7 % 3
    functions = [lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x ** (y % 5)]
    rows = [
        wrapped(int(functions[w](int(x), int(y)) + functions[(w + 2) % 3](int(y), int(x))))
        for x, y, w in zip(a, b, which, strict=True)
    ]
    arrays = [x.astype(np.int32) for x in (a, b, which)]
    return Launch([np.zeros(32, np.int32), *arrays], {0: np.array(rows, np.int32)}, block=(32, 1, 1))


def switching() -> Launch:
    given = random(8).integers(-(1 << 20), 1 << 20, 32)
    how = np.resize([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1000, 50, -1], 32)

    def one(r: int, case: int) -> int:
        match case:
            case 0:
                return r + 1
            case 1:
                return 3 * r ^ 0x55
            case 2:
                return r ^ 0x55
            case 3:
                for i in range(7):
                    r += i * r
                return r
            case 4:
                return -r
            case 5:
                return int(r / 3)
            case 6:
                return (r % (1 << 32)).bit_count()
            case 7:
                while r & 1:
                    r >>= 1
                    if r == -1:
                        return -99
                return r
            case 8:
                return r * r
            case 9:
                return ~r
            case 10:
                return r << 3
            case 11:
                return -5
        return 2 if case == 1000 else 0

    expected = [wrapped(one(int(r), int(case))) for r, case in zip(given, how, strict=True)]
    assert -99 not in expected
    arguments = [np.full(32, -5, np.int32), given.astype(np.int32), how.astype(np.int32)]
    return Launch(arguments, {0: np.array(expected, np.int32)}, block=(32, 1, 1))


def loops() -> Launch:
    counts, n = random(9).integers(0, 30, 32), 25
    expected = np.full(64, -1, np.int32)
    for t in range(32):
        s = 0
        for i in range(int(counts[t])):
            if i % 3 == 0:
                continue
            for j in range(i, n + 1):
                if (j ^ t) & 8:
                    s += j
                    if s > 1000:
                        break
                else:
                    s -= 1
            if s > 1000:
                break
        expected[t] = s
        if s < 0:
            continue
        v, steps = int(counts[t]) + 1, 0
        while True:
            v, steps = 3 * v + 1 if v & 1 else v >> 1, steps + 1
            if v == 1 or steps >= 200:
                break
        expected[32 + t] = steps
    return Launch([np.full(64, -1, np.int32), counts.astype(np.int32), n], {0: expected}, block=(32, 1, 1))


def lambdas() -> Launch:
    x, n = random(10).integers(-100, 100, 32), 9
    first = (x * n + T) * n + T
    second = 2 * (n + x) + 0 * x
    return Launch(
        [np.zeros(64, np.int32), x.astype(np.int32), n],
        {0: np.concatenate([first, second]).astype(np.int32)},
        block=(32, 1, 1),
    )


def local_arrays() -> Launch:
    given, n = random(11).integers(-1000, 1000, 64), 20
    expected = []
    for t in range(32):
        h = [int(given[i * t & 63]) for i in range(64)]
        stack = []
        for i in range(n):
            k = h[i & 63] * 7 & 63
            h[k], h[k + t & 63] = h[k + t & 63], h[k]
            stack.append(k)
        s = 0
        for v in h:
            s = s * 31 + v
        for v in reversed(stack):
            s = s * 3 + v
        expected.append(wrapped(s))
    return Launch(
        [np.zeros(32, np.int32), given.astype(np.int32), n], {0: np.array(expected, np.int32)}, block=(32, 1, 1)
    )


def spills() -> Launch:
    given = random(12).integers(0, 1 << 32, (48, 32), dtype=np.uint64).astype(np.uint32)
    r: list[NDArray] = list(given)
    for _ in range(3):
        for i in range(48):
            r[i] = r[i] * r[(i * 7 + 1) % 48] + r[(i * 5 + 3) % 48]
    return Launch([np.zeros((48, 32), np.uint32), given], {0: np.array(r)}, block=(32, 1, 1))


def places() -> Launch:
    grid, block = (2, 3, 2), (5, 3, 2)
    z, y, x, tz, ty, tx = np.indices((*grid[::-1], *block[::-1]))
    expected = tx + 10 * ty + 100 * tz + 1000 * x + 10000 * y + 100000 * z
    return Launch([np.zeros(expected.size, np.int32)], {0: expected.ravel().astype(np.int32)}, grid, block)


def scaled(kernel: str, factor: int, kind: type) -> Launch:
    x = random(13).integers(-1000, 1000, 32).astype(kind)
    return Launch([np.zeros(32, kind), x], {0: x * kind(factor)}, block=(32, 1, 1), kernel=kernel)


CASES = {
    **{f.__name__: f for f in (structs, recursion, quicksort, virtuals, pointers, switching, loops, lambdas)},
    **{f.__name__: f for f in (local_arrays, spills, places)},
    "template_int": lambda: scaled("_Z6scaledILi3EiEvPT0_PKS0_", 3, np.int32),
    "template_short": lambda: scaled("_Z6scaledILi5EsEvPT0_PKS0_", 5, np.int16),
}
