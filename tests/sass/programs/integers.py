"""What the kernels of `integers.cu` must compute."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from launches import Launch
from numpy.typing import NDArray

N = 96
WORD, LONG, GIANT = 1 << 32, 1 << 64, 1 << 128


def signed(x: int, bits: int) -> int:
    x %= 1 << bits
    return x - (1 << bits) if x >> (bits - 1) else x


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def numbers(seed: int, bits: int, nonzero: bool = False) -> list[int]:
    """Numbers of all sizes, as unsigned."""
    choose = np.random.default_rng(seed)
    found = [int.from_bytes(choose.bytes(bits // 8), "little") >> int(choose.integers(0, bits)) for _ in range(N)]
    found = [x if choose.random() < 0.6 else -x % (1 << bits) for x in found]
    return [x or 5 for x in found] if nonzero else found


def array(values: list[int], kind: type) -> NDArray:
    bits = np.dtype(kind).itemsize * 8
    return np.array([x % (1 << bits) for x in values], dtype=f"u{bits // 8}").view(kind)


def launch(kernel: str, rows: Callable[..., list[int]], inputs: list[list[int]], kind: type) -> Launch:
    """Each lane's row of results; unsigned numbers go in, whatever comes out wraps."""
    results = np.array([array(rows(*lane), kind) for lane in zip(*inputs, strict=True)]).T
    out = np.zeros_like(results, order="C")
    arguments = [out, *(array(x, kind) for x in inputs), N]
    return Launch(arguments, {0: results}, (3, 1, 1), (32, 1, 1), kernel=kernel)


def division() -> Launch:
    def rows(a: int, b: int) -> list[int]:
        s, d = signed(a, 32), signed(b, 32)
        return [
            quotient(s, d), s - quotient(s, d) * d, a // b, a % b, quotient(s, 7), s - 10 * quotient(s, 10), a // 1000,
            quotient(s, -3), quotient(s, N), a % N,
        ]  # fmt: skip

    return launch("division", rows, [numbers(1, 32), numbers(2, 32, True)], np.int32)


def reverse(a: int, bits: int) -> int:
    return int(f"{a:0{bits}b}"[::-1], 2)


def wide() -> Launch:
    def rows(a: int, b: int) -> list[int]:
        s, d, shift = signed(a, 64), signed(b, 64), b & 63
        counts = a.bit_count() + 100 * (64 - a.bit_length()) + 10000 * ((b & -b).bit_length())
        return [
            quotient(s, d), s - quotient(s, d) * d, a // b, a % b, quotient(s, 7), s - 1000003 * quotient(s, 1000003),
            a * b, s * d >> 64, a * b >> 64, a << shift, s >> shift, a >> shift, min(s, d), max(a, b), abs(s), counts,
            reverse(a, 64), 1 if s < d else 2 if a < b else 3,
        ]  # fmt: skip

    return launch("wide", rows, [numbers(3, 64), numbers(4, 64, True)], np.int64)


def very_wide() -> Launch:
    def rows(x: int, y: int) -> list[int]:
        a = signed(x << 64 | y, 128)
        b = signed((signed(y, 64) >> 5) * x | 1, 128)
        q = quotient(a, b)
        results = [a + b, a - b, a * b, q, a - q * b, a >> (x & 127), a << (y & 127), int(a < b)]
        return [part for v in results for part in (v % GIANT, v % GIANT >> 64)]

    return launch("very_wide", rows, [numbers(5, 64), numbers(6, 64)], np.uint64)


def parts(x: int, width: int, is_signed: bool = False) -> list[int]:
    found = [x >> i & (1 << width) - 1 for i in range(0, 32, width)]
    return [signed(v, width) for v in found] if is_signed else found


def joined(values: list[int], width: int) -> int:
    return sum((v % (1 << width)) << i * width for i, v in enumerate(values))


def funnel(low: int, high: int, shift: int, left: bool) -> int:
    both = high << 32 | low
    return (both << shift) >> 32 if left else both >> shift


def perm(a: int, b: int, selector: int) -> int:
    pool = parts(a, 8) + parts(b, 8)
    return joined([pool[selector >> 4 * i & 7] for i in range(4)], 8)


def dot(a: list[int], b: list[int]) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def bits() -> Launch:
    def rows(a: int, b: int, c: int) -> list[int]:
        s, d, e = (signed(x, 32) for x in (a, b, c))
        a24, b24 = signed(a, 24), signed(b, 24)
        return [
            a.bit_count(), 32 - a.bit_length(), (a & -a).bit_length(), reverse(a, 32), funnel(a, b, c & 31, True),
            funnel(a, b, c & 31, False), funnel(a, b, min(c & 63, 32), True), funnel(a, b, min(c & 63, 32), False),
            perm(a, b, c & 0x7777), s * d >> 32, a * b >> 32, a24 * b24, (a & 0xFFFFFF) * (b & 0xFFFFFF), abs(s - d) + c,
            abs(a - b) + c, s + d >> 1, s + d + 1 >> 1, a + b >> 1, a + b + 1 >> 1,
            dot(parts(a, 8, True), parts(b, 8, True)) + e, dot(parts(a, 8), parts(b, 8)) + c,
            dot(parts(a, 16, True), parts(b, 8, True)[:2]) + e, dot(parts(a, 16), parts(b, 8)[2:]) + c, s >> (c & 31),
            a & b | ~a & c, a ^ b ^ c, min(s, d, e), abs(s), signed(a, 8) + (b & 0xFFFF) - signed(c, 16),
        ]  # fmt: skip

    return launch("bits", rows, [numbers(7, 32), numbers(8, 32), numbers(9, 32)], np.uint32)


def clamped(x: int, bits: int, is_signed: bool = True) -> int:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    return max(low, min(high, x))


def extracted(a: int, start: int, length: int, is_signed: bool) -> int:
    """PTX's bfe."""
    if length == 0:
        return 0
    sign = a >> min(start + length - 1, 31) & 1 if is_signed else 0
    field = a >> start & (1 << length) - 1 if start < 32 else 0
    for i in range(32):
        if i >= length or start + i > 31:
            field = field & ~(1 << i) | sign << i
    return field


def assembly() -> Launch:
    def rows(a: int, b: int, c: int) -> list[int]:
        s, d, e = (signed(x, 32) for x in (a, b, c))
        pool = parts(a, 8) + parts(b, 8)
        total, difference, length = a + b, a - b, c & 31
        inserted = ((1 << 11) - 1) << length
        return [
            (s * d >> 32) + e, (a * b >> 32) + c, signed(a, 24) * signed(b, 24) + e, extracted(a, b & 255, c & 255, False),
            extracted(a, b & 255, c & 255, True), joined([pool[(c & 3) + i] for i in range(4)], 8),
            joined([pool[c & 3]] * 4, 8), joined([abs(x - y) for x, y in zip(parts(a, 8), parts(b, 8), strict=True)], 8),
            sum(abs(x - y) for x, y in zip(parts(a, 8), parts(b, 8), strict=True)) + c,
            dot(parts(a, 8, True), parts(b, 8)) + e, abs(s - d) + c, funnel(a, b, min(c, 32), True), clamped(s + d, 32),
            clamped(s - d, 32), total, c + a + (total >> 32), difference, c - a - (difference < 0),
            b & ~inserted | a << length & inserted, clamped(s, 8, False), clamped(s, 16),
        ]  # fmt: skip

    return launch("assembly", rows, [numbers(10, 32), numbers(11, 32), numbers(12, 32)], np.uint32)


def video() -> Launch:
    def each(width: int, is_signed: bool, do: Callable[..., int]) -> Callable[[int, int], int]:
        return lambda a, b: joined(
            [do(x, y) for x, y in zip(parts(a, width, is_signed), parts(b, width, is_signed), strict=True)], width
        )

    def saturated(width: int, is_signed: bool, do: Callable[..., int]) -> Callable[[int, int], int]:
        return each(width, is_signed, lambda x, y: clamped(do(x, y), width, is_signed))

    def total(width: int, is_signed: bool) -> Callable[[int, int], int]:
        return lambda a, b: sum(
            abs(x - y) for x, y in zip(parts(a, width, is_signed), parts(b, width, is_signed), strict=True)
        )

    add, sub = (lambda x, y: x + y), (lambda x, y: x - y)
    apart, average = (lambda x, y: abs(x - y)), (lambda x, y: x + y + (x + y >= 0) >> 1)
    functions = [
        each(16, False, add), each(8, False, add), each(16, False, sub), each(8, False, sub), saturated(16, True, add),
        saturated(8, True, add), saturated(16, False, add), saturated(8, False, add), saturated(16, True, sub),
        saturated(8, False, sub), each(16, False, apart), each(8, False, apart), each(8, True, apart), each(16, True, max),
        each(8, False, max), each(8, True, min), each(16, False, min), each(16, True, average), each(8, False, average),
        each(16, False, lambda x, y: x + y >> 1), each(16, True, lambda x, y: -x), saturated(8, True, lambda x, y: -x),
        each(8, True, lambda x, y: abs(x)), saturated(16, True, lambda x, y: abs(x)), each(8, False, lambda x, y: -(x == y)),
        each(16, True, lambda x, y: -(x >= y)), each(8, False, lambda x, y: -(x > y)), each(8, True, lambda x, y: -(x < y)),
        each(16, False, lambda x, y: -(x != y)), each(16, False, lambda x, y: x <= y), each(8, True, lambda x, y: x > y),
        total(16, True), total(8, False),
    ]  # fmt: skip
    a, b = numbers(13, 32), numbers(14, 32)
    b = [x if i % 3 else x & 0xFF00FFFF | y & 0xFF0000 for i, (x, y) in enumerate(zip(b, a, strict=True))]
    return launch("video", lambda x, y: [f(x, y) for f in functions], [a, b], np.uint32)


CASES = {f.__name__: f for f in (division, wide, very_wide, bits, assembly, video)}
