"""What the kernels in `kernels.py` must compute, with NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from launches import Launch
from numpy.typing import NDArray

import gpuemu

SCRATCH = [0, 0]
"""Triton's kernels take two more pointers, to memory that these do not use."""


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def floats(*shape: int, seed: int = 0, kind: type = np.float32) -> NDArray:
    return rng(seed).standard_normal(shape).astype(kind)


def bfloat16(values: NDArray) -> NDArray:
    """The bits of float32 values, rounded to nearest even; as uint16."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bfloat16(bits: NDArray) -> NDArray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def cut_to_tf32(values: NDArray) -> NDArray:
    return (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def vector_add() -> Launch:
    x, y = floats(600), floats(600, seed=1)
    return Launch([x, y, np.zeros(600, np.float32), 600, *SCRATCH], {2: x + y}, grid=(3, 1, 1))


def softmax() -> Launch:
    x = floats(5, 200)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return Launch(
        [x, np.zeros_like(x), 200, 200, *SCRATCH], {1: e / e.sum(axis=1, keepdims=True)}, (5, 1, 1), tolerance=1e-5
    )


def layer_norm() -> Launch:
    x, w, b = (
        floats(4, 300, kind=np.float16),
        floats(300, seed=1, kind=np.float16),
        floats(300, seed=2, kind=np.float16),
    )
    wide = x.astype(np.float64)
    mean, deviation = wide.mean(axis=1), np.sqrt(wide.var(axis=1) + 1e-5)
    wanted = (wide - mean[:, None]) / deviation[:, None] * w + b
    args = [x, w, b, np.zeros_like(x), np.zeros(4, np.float32), 300, 1e-5, *SCRATCH]
    return Launch(args, {3: wanted, 4: mean}, (4, 1, 1), tolerance={3: 1e-3, 4: 1e-5})


def matmul(a: NDArray, b: NDArray, out: type, tile: tuple[int, int], tolerance: float, values: tuple = ()) -> Launch:
    left, right = values or (a, b)
    m, k = a.shape
    n = b.shape[1]
    wide = np.int64 if left.dtype.kind == "i" else np.float64
    wanted = left.astype(wide) @ right.astype(wide)
    grid = (math.ceil(m / tile[0]) * math.ceil(n / tile[1]), 1, 1)
    return Launch([a, b, np.zeros((m, n), out), m, n, k, k, n, n, *SCRATCH], {2: wanted}, grid, tolerance=tolerance)


def matmul_f16() -> Launch:
    return matmul(floats(80, 96, kind=np.float16), floats(96, 112, seed=1, kind=np.float16), np.float16, (64, 64), 1e-3)


def matmul_bf16() -> Launch:
    a, b = bfloat16(floats(40, 80)), bfloat16(floats(80, 72, seed=1))
    return matmul(a, b, np.float32, (32, 64), 1e-5, (from_bfloat16(a), from_bfloat16(b)))


def matmul_tf32() -> Launch:
    return matmul(floats(48, 80), floats(80, 40, seed=1), np.float32, (32, 32), 2e-3)


def matmul_f32() -> Launch:
    return matmul(floats(24, 48), floats(48, 40, seed=1), np.float32, (16, 16), 1e-5)


def matmul_tf32x3() -> Launch:
    return matmul(floats(48, 80), floats(80, 40, seed=1), np.float32, (32, 32), 1e-5)


def matmul_f64() -> Launch:
    return matmul(floats(24, 48, kind=np.float64), floats(48, 40, seed=1, kind=np.float64), np.float64, (16, 16), 1e-13)


def matmul_i8() -> Launch:
    a, b = (rng(s).integers(-128, 128, shape).astype(np.int8) for s, shape in ((0, (40, 80)), (1, (80, 48))))
    return matmul(a, b, np.int32, (32, 32), 0)


def tiles() -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """A, B, C, and what C must become: larger than whole tiles of 64 x 64."""
    a, b = floats(80, 128, kind=np.float16), floats(128, 112, seed=1, kind=np.float16)
    return a, b, np.zeros((80, 112), np.float16), a.astype(np.float64) @ b


def matmul_by_descriptor() -> Launch:
    a, b, c, wanted = tiles()
    scratch = np.zeros(4 * 384, np.uint8)
    return Launch([a, b, c, 80, 112, 128, scratch, 0], {2: wanted}, (2, 2, 1), tolerance=1e-3)


def matmul_by_given_descriptor() -> Launch:
    a, b, c, wanted = tiles()
    args = []
    for array in (a, b, c):
        rows, columns = array.shape
        args += [gpuemu.TensorMap(array, (64, 64), swizzle=128), rows, columns, columns, 1]

    def check(_: list) -> None:
        np.testing.assert_allclose(c.astype(np.float64), wanted, rtol=0, atol=1e-3 * np.abs(wanted).max())

    return Launch([*args, 128, *SCRATCH], {}, (2, 2, 1), checks=[check])


def matmul_e4m3() -> Launch:
    """e4m3 in uint8; sums of 14 bits are what the hardware has."""
    codes = [rng(s).integers(0x20, 0x48, shape).astype(np.uint8) for s, shape in ((0, (64, 128)), (1, (128, 128)))]
    codes = [c | (rng(2).integers(0, 2, c.shape) << 7).astype(np.uint8) for c in codes]
    a, b = (
        np.where(c & 0x80, -1.0, 1.0) * (1 + (c & 7) / 8) * 2.0 ** ((c >> 3 & 15).astype(np.int64) - 7) for c in codes
    )
    out = np.zeros((64, 128), np.float32)
    return Launch([*codes, out, 128, 128, *SCRATCH], {2: a @ b.T}, (1, 2, 1), tolerance=4e-3)


def attention(heads: int, n: int, d: int, causal: bool) -> Launch:
    q, k, v = (floats(heads, n, d, seed=s, kind=np.float16) for s in range(3))
    scale = 1 / math.sqrt(d)
    score = q.astype(np.float64) @ k.astype(np.float64).swapaxes(1, 2) * scale
    if causal:
        score = np.where(np.tril(np.ones((n, n), bool)), score, -np.inf)
    e = np.exp(score - score.max(axis=2, keepdims=True))
    wanted = e / e.sum(axis=2, keepdims=True) @ v
    args = [q, k, v, np.zeros_like(q), np.float32(scale), n, *SCRATCH]
    return Launch(args, {3: wanted}, (n // 64, heads, 1), tolerance=1e-3)


def flash_attention() -> Launch:
    return attention(2, 128, 32, True)


def flash_attention_full() -> Launch:
    return attention(1, 64, 64, False)


def histogram() -> Launch:
    x = rng().integers(0, 64, 900).astype(np.int32)
    return Launch(
        [x, np.zeros(64, np.int32), 900, *SCRATCH], {1: np.bincount(x, minlength=64).astype(np.int32)}, (2, 1, 1)
    )


def atomics() -> Launch:
    n = 300
    i = np.arange(n)
    x = rng().integers(-50, 50, n).astype(np.float32)
    added = np.bincount(i % 7, x).astype(np.float32)
    largest = np.array([max(0, x[k::5].max()) for k in range(5)], np.float32)
    bits = np.array([np.bitwise_or.reduce(1 << (i[k::3] % 29)) for k in range(3)], np.int32)
    args = [x, np.zeros(7, np.float32), np.zeros(5, np.float32), np.zeros(3, np.int32), np.zeros(n, np.int32)]
    return Launch(
        [*args, np.zeros(2, np.int32), n, *SCRATCH],
        {1: added, 2: largest, 3: bits, 4: i.astype(np.int32), 5: np.array([0, 3], np.int32)}, (3, 1, 1),
    )  # fmt: skip


def transpose() -> Launch:
    x = floats(50, 100, kind=np.float16)
    return Launch([x, np.zeros((100, 50), np.float16), 50, 100, *SCRATCH], {1: x.T}, (2, 2, 1))


def scan() -> Launch:
    x = (1 + 0.01 * floats(2, 512)).astype(np.float32)
    sums, products = np.cumsum(x, axis=1, dtype=np.float64), np.cumprod(x[:, ::-1].astype(np.float64), axis=1)[:, ::-1]
    return Launch(
        [x, *(np.zeros_like(x) for _ in range(3)), *SCRATCH],
        {1: sums, 2: products, 3: np.maximum.accumulate(x, axis=1)}, (2, 1, 1), tolerance={1: 1e-5, 2: 1e-5},
    )  # fmt: skip


def sort() -> Launch:
    x = rng().integers(-1000, 1000, (3, 64)).astype(np.int32)
    ordered = np.sort(x, axis=1)
    return Launch(
        [x, np.zeros_like(x), np.zeros((3, 8), np.int32), *SCRATCH], {1: ordered, 2: ordered[:, :-9:-1]}, (3, 1, 1)
    )


def reductions() -> Launch:
    x = rng().permutation(32 * 64).reshape(32, 64).astype(np.float32)
    out = np.concatenate([x.sum(axis=0), x.min(axis=0), x.max(axis=1)])
    where = np.concatenate([x.argmax(axis=1), x.argmin(axis=1), np.bitwise_xor.reduce(x.astype(np.int32), axis=1)])
    return Launch([x, np.zeros(160, np.float32), np.zeros(96, np.int32), *SCRATCH], {1: out, 2: where.astype(np.int32)})


def conv2d() -> Launch:
    height, width, channels, filters = 9, 11, 16, 16
    x, w = floats(height, width, channels, kind=np.float16), floats(3, 3, channels, filters, seed=1, kind=np.float16)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), axis=(0, 1))
    wanted = np.einsum("hwcyx,yxcf->hwf", windows, w.astype(np.float64))
    out = np.zeros((height - 2, width - 2, filters), np.float32)
    return Launch([x, w, out, height, width, channels, filters, *SCRATCH], {2: wanted}, (1, 1, 1), tolerance=1e-5)


def philox(seed: int, offsets: NDArray) -> NDArray:
    """The first word of Philox4x32-10 with key (seed, 0) and counter (offset, 0, 0, 0)."""
    c = [offsets.astype(np.uint64), *(np.zeros(len(offsets), np.uint64) for _ in range(3))]
    k = [np.uint64(seed), np.uint64(0)]
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [second >> np.uint64(32) ^ c[1] ^ k[0], second & low, first >> np.uint64(32) ^ c[3] ^ k[1], first & low]
        k = [(k[0] + np.uint64(0x9E3779B9)) & low, (k[1] + np.uint64(0xBB67AE85)) & low]
    return np.stack(c)


def uniform(words: NDArray) -> NDArray:
    signed = words.astype(np.uint32).view(np.int32).astype(np.int64)
    return np.where(signed < 0, -signed - 1, signed) * 4.6566127342e-10


def random_numbers() -> Launch:
    n, seed = 256, 42
    words = philox(seed, np.arange(n))
    u1, u2 = np.maximum(uniform(words[0]), 1e-7), uniform(words[1])
    normal = np.sqrt(-2 * np.log(u1)) * np.cos(2 * math.pi * u2)
    kept = (uniform(philox(seed + 1, np.arange(n))[0]) > 0.5).astype(np.int8)
    args = [seed, np.zeros(n, np.int32), np.zeros(n, np.float32), np.zeros(n, np.float32), np.zeros(n, np.int8), 0.5]
    return Launch(
        [*args, *SCRATCH],
        {1: words[0].astype(np.uint32).view(np.int32), 2: uniform(words[0]), 3: normal, 4: kept}, (2, 1, 1),
        tolerance={2: 1e-7, 3: 1e-6},
    )  # fmt: skip


def math_f32() -> Launch:
    n = 256
    x = (3 * floats(n)).astype(np.float32)
    v = x.astype(np.float64)
    each = np.frompyfunc
    wanted = [
        np.sin(v), np.cos(v), np.log(np.abs(v) + 1), each(math.erf, 1, 1)(v).astype(float), 1 / (1 + np.exp(-v)),
        1 / np.sqrt(np.abs(v)), np.tanh(v), np.abs(v) ** 1.7, np.floor(v) + np.ceil(2 * v), np.arctan2(v, v + 1),
        v / (v * v + 1), np.sqrt(np.abs(v)), np.expm1(v), v * v + v, np.trunc(v + np.copysign(0.5, v)),
        each(math.lgamma, 1, 1)(v).astype(float),
    ]  # fmt: skip
    out = np.zeros((len(wanted), n), np.float32)

    def exact(args: list) -> None:
        np.testing.assert_array_equal(out[10], (x / (x * x + np.float32(1))).astype(np.float32))
        np.testing.assert_array_equal(out[11], np.sqrt(np.abs(x)))

    launch = Launch([x, out, n, *SCRATCH], {}, (2, 1, 1))

    def each_row(args: list) -> None:
        for row, values in enumerate(wanted):
            np.testing.assert_allclose(out[row], values, rtol=3e-5, atol=3e-6, err_msg=f"row {row}")

    launch.checks.append(each_row)
    launch.checks.append(exact)
    return launch


def math64() -> Launch:
    n = 256
    v = 3 * floats(n, kind=np.float64)
    each = np.frompyfunc
    totals = np.repeat(v.reshape(2, 128).sum(axis=1), 128)
    wanted = [
        np.sin(v), np.log(np.abs(v)), np.sqrt(np.abs(v)), 1 / v, each(math.erf, 1, 1)(v).astype(float),
        np.fmod(v, 0.3), np.cbrt(v), totals + v, np.exp(v),
    ]  # fmt: skip
    out = np.zeros((len(wanted), n))
    launch = Launch([v, out, n, *SCRATCH], {}, (2, 1, 1))

    def each_row(args: list) -> None:
        for row, values in enumerate(wanted):
            np.testing.assert_allclose(out[row], values, rtol=1e-13, atol=1e-14, err_msg=f"row {row}")

    launch.checks.append(each_row)
    return launch


def integers() -> Launch:
    n = 256
    a = rng(1).integers(-(2**31), 2**31, n).astype(np.int32)
    b = rng(2).integers(-(2**31), 2**31, n).astype(np.int32)
    b[::3] >>= 20
    b[b == 0] = 7
    wide_a, wide_b = a.astype(np.int64), b.astype(np.int64)
    quotient = np.trunc(wide_a / wide_b).astype(np.int64)
    divisor = wide_b + (1 << 33)
    product = wide_a * wide_b
    long_quotient = np.array(
        [abs(int(p)) // int(d) * (1 if p >= 0 else -1) for p, d in zip(product, divisor, strict=True)]
    )
    ua, ub = a.view(np.uint32), b.view(np.uint32)
    popc = np.array([int(u).bit_count() for u in ua])
    clz = np.array([32 - int(u).bit_length() for u in ub])
    brev = np.array([int(f"{u:032b}"[::-1], 2) for u in ua], np.uint32).view(np.int32)
    wanted = [
        quotient, wide_a - quotient * wide_b, ua.astype(np.uint64) * ub >> np.uint64(32), long_quotient,
        (popc + clz).astype(np.int32) + brev, (a << (b & 15)) ^ (a >> (b & 7)),
        a.astype(np.int8).astype(np.int64) + b.astype(np.uint8) + a.astype(np.int16),
        np.minimum(a, b) * np.int32(3) + np.abs(b),
    ]  # fmt: skip
    with np.errstate(over="ignore"):
        return Launch(
            [a, b, np.zeros((8, n), np.int64), n, *SCRATCH],
            {2: np.stack([w.astype(np.int64) for w in wanted])},
            (2, 1, 1),
        )


def eight_bits(values: NDArray, table: NDArray) -> NDArray:
    """The number of the nearest entry of a table of a small float format, ties to even, beyond it the largest."""
    finite = np.flatnonzero(np.isfinite(table[:128]))
    size = np.minimum(np.abs(values.astype(np.float64)), table[finite].max())
    upper = np.clip(np.searchsorted(table[finite], size), 1, len(finite) - 1)
    below, above = size - table[upper - 1], table[upper] - size
    number = np.where((below < above) | ((below == above) & (upper % 2 == 1)), upper - 1, upper)
    return (number | (np.signbit(values) * 128)).astype(np.uint8)


def e5m2() -> NDArray:
    return (np.arange(256, dtype=np.uint16) << 8).view(np.float16).astype(np.float64)


def e4m3() -> NDArray:
    number = np.arange(256)
    exponent, fraction = number >> 3 & 15, number & 7
    size = np.where(exponent == 0, fraction / 8 * 2.0**-6, (1 + fraction / 8) * 2.0 ** (exponent - 7.0))
    size[(exponent == 15) & (fraction == 7)] = np.nan
    return np.where(number & 128, -size, size)


def conversions() -> Launch:
    n = 256
    x = (20 * floats(n)).astype(np.float32)
    x[:4] = 0.0, 1e-7, -60000.0, 1.125
    x = np.where(np.abs(x) < 100, x, np.sign(x) * 100).astype(np.float32)
    eight = eight_bits(x, e5m2())
    brain = bfloat16(x)
    return Launch(
        [x, np.zeros(n, np.float16), np.zeros(n, np.uint16), np.zeros(n, np.uint8), np.zeros(n, np.int8),
         np.zeros(n, np.int64), np.zeros(n, np.float32), *SCRATCH],
        {1: x.astype(np.float16), 2: brain, 3: eight, 4: x.astype(np.int8), 5: x.astype(np.int64),
         6: e5m2()[eight].astype(np.float32) + from_bfloat16(brain)}, (2, 1, 1),
    )  # fmt: skip


def conversions_e4m3() -> Launch:
    n = 256
    x = (20 * floats(n)).astype(np.float32)
    x[:6] = 0.0, 1e-7, -1000.0, 1.1875, 0.003, 448
    eight = eight_bits(x, e4m3())
    back = e4m3()[eight]
    return Launch(
        [x, np.zeros(n, np.uint8), np.zeros(n, np.float32), *SCRATCH],
        {1: eight, 2: (back * back).astype(np.float32)},
        (2, 1, 1),
    )


def collatz(n: int) -> int:
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def control() -> Launch:
    x = np.array([3, 7, 9, 27 + 1, 11, 0, 97], np.int32)
    wanted = [
        -1 if v % 3 == 0 else collatz(v) if v % 3 == 1 else sum(collatz(i) for i in range(0, v, 2)) for v in x.tolist()
    ]
    out = np.full(8, -5, np.int32)
    return Launch([x, out, 7, *SCRATCH], {1: np.array([*wanted, -5], np.int32)}, (8, 1, 1))


def gather() -> Launch:
    table, index = floats(100, 32), rng().integers(0, 100, 32).astype(np.int32)
    tile = table[index]
    joined = np.empty((2, 32, 32), np.float32)
    joined[0, :, 0::2], joined[0, :, 1::2] = tile[:, 1::2], tile[:, 0::2]
    joined[1] = tile[:, np.arange(32) ^ 3]
    return Launch(
        [table, index, np.zeros((32, 32), np.float32), np.zeros_like(joined), *SCRATCH], {2: tile[:, ::-1], 3: joined}
    )


def printing() -> Launch:
    x = floats(64)
    return Launch([x, np.zeros(64, np.float32), *SCRATCH], {1: x * 2})


def inline_assembly() -> Launch:
    x, y = (rng(s).integers(0, 256, 256).astype(np.uint8) for s in range(2))
    difference = np.abs(x.astype(np.int32) - y).astype(np.uint8)
    return Launch([x, y, np.zeros(256, np.uint8), *SCRATCH], {2: difference})


CASES: dict[str, Callable[[], Launch]] = {
    name: globals()[name]
    for name in (
        "vector_add", "softmax", "layer_norm", "matmul_f16", "matmul_bf16", "matmul_tf32", "matmul_f32", "matmul_tf32x3",
        "matmul_f64", "matmul_i8", "matmul_by_descriptor", "matmul_by_given_descriptor", "matmul_e4m3", "flash_attention", "flash_attention_full", "histogram", "atomics", "transpose", "scan",
        "sort", "reductions", "conv2d", "random_numbers", "math64", "integers", "conversions", "conversions_e4m3",
        "control", "gather", "printing", "inline_assembly",
    )
}  # fmt: skip
CASES["math"] = math_f32
