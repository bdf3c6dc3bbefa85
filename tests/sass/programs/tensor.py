"""What the kernels of `tensor.cu` must compute. Whole numbers keep every sum exact."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from launches import Launch
from numpy.typing import NDArray

Shape = tuple[int, int, int]
AMPERE = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_120")


def random(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def product(
    kernel: str, shape: Shape, kind: type, stored: Callable[[NDArray], NDArray], low: int, high: int
) -> Callable[[], Launch]:
    """D = A B + C of whole numbers; B is stored column by column; `stored`: the numbers as the kernel reads them."""

    def launch() -> Launch:
        m, n, k = shape
        a, b = random(1).integers(low, high, (m, k)), random(2).integers(low, high, (k, n))
        c = random(3).integers(-50, 50, (m, n)).astype(kind)
        expected = (a @ b + c).astype(kind)
        arguments = [np.zeros((m, n), kind), stored(a), stored(np.ascontiguousarray(b.T)), c]
        return Launch(arguments, {0: expected}, block=(32, 1, 1), kernel=kernel)

    return launch


def as_type(kind: type) -> Callable[[NDArray], NDArray]:
    return lambda x: x.astype(kind)


def brain(x: NDArray) -> NDArray:
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def nibbles(x: NDArray) -> NDArray:
    pairs = (x & 15).astype(np.uint8).reshape(len(x), -1, 2)
    return (pairs[:, :, 0] | pairs[:, :, 1] << 4).copy().view(np.int32)


def bits() -> Launch:
    a, b = (random(s).integers(0, 2, (8, 128)) for s in (4, 5))
    c = random(6).integers(0, 100, (8, 8)).astype(np.int32)
    expected = (a[:, None, :] ^ b[None, :, :]).sum(axis=2) + c
    packed = [np.packbits(x.astype(np.uint8), axis=1, bitorder="little").view(np.int32) for x in (a, b)]
    return Launch([np.zeros((8, 8), np.int32), *packed, c], {0: expected}, block=(32, 1, 1))


def fragments(matrix: NDArray) -> NDArray:
    """An 8x8 matrix of 16 bits as the words of the lanes."""
    return np.ascontiguousarray(matrix).view(np.uint32).reshape(32)


def through_shared(arch_has_stores: bool) -> Callable[[], Launch]:
    def launch() -> Launch:
        rows = random(7).integers(0, 1 << 16, (4, 8, 8)).astype(np.uint16)
        expected = np.zeros(288, np.uint32)
        expected[:128] = np.stack([fragments(m) for m in rows], axis=1).ravel()
        expected[128:192] = np.stack([fragments(m.T) for m in rows[:2]], axis=1).ravel()
        expected[192:224] = fragments(rows[0])
        if arch_has_stores:
            expected[224:] = np.concatenate([fragments(m) for m in rows[:2]])
        given = rows.reshape(32, 8).view(np.uint32)
        return Launch([np.zeros(288, np.uint32), given], {0: expected}, block=(32, 1, 1), kernel="through_shared")

    return launch


CASES = {
    "half_half": product("half_half", (16, 16, 16), np.float16, as_type(np.float16), -8, 8),
    "half_float": product("half_float", (16, 16, 16), np.float32, as_type(np.float16), -100, 100),
    "half_tall": product("half_tall", (32, 8, 16), np.float32, as_type(np.float16), -100, 100),
    "half_broad": product("half_broad", (8, 32, 16), np.float32, as_type(np.float16), -100, 100),
    "signed_bytes": product("signed_bytes", (16, 16, 16), np.int32, as_type(np.int8), -128, 128),
    "unsigned_bytes": product("unsigned_bytes", (8, 32, 16), np.int32, as_type(np.uint8), 0, 256),
    "signed_nibbles": product("signed_nibbles", (8, 8, 32), np.int32, nibbles, -8, 8),
    "unsigned_nibbles": product("unsigned_nibbles", (8, 8, 32), np.int32, nibbles, 0, 16),
    "brain": product("brain", (16, 16, 16), np.float32, brain, -100, 100),
    "tf32": product("tf32", (16, 16, 8), np.float32, as_type(np.float32), -500, 500),
    "doubles": product("doubles", (8, 8, 4), np.float64, as_type(np.float64), -1000, 1000),
    "bits": bits,
    "through_shared": through_shared(False),
    "through_shared_and_back": through_shared(True),
}
ONLY = {
    **dict.fromkeys(("signed_nibbles", "unsigned_nibbles"), ("sm_75", "sm_80", "sm_86", "sm_89")),
    **dict.fromkeys(("brain", "tf32", "doubles"), AMPERE),
    "through_shared": AMPERE[:3],
    "through_shared_and_back": AMPERE[3:],
}
