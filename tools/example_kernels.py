"""The example kernels: sources in traces/src/, how each is launched, and what it must compute.

`tools/record_traces.py` records their traces, and the tests run them on every architecture.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SOURCES = Path(__file__).resolve().parent.parent / "traces" / "src"
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90")
AMPERE_AND_LATER = ARCHITECTURES[1:]

Arguments = tuple[list[Any], int, Any]
"""The arguments of a launch, which of them is the output, and what must be in it afterwards."""


@dataclass(frozen=True)
class Example:
    """A kernel and one launch of it; `about` is a line for the trace."""

    source: str
    kernel: str
    about: str
    block: tuple[int, int, int]
    arguments: Callable[[], Arguments]
    grid: tuple[int, int, int] = (1, 1, 1)
    dynamic_shared_bytes: int = 0
    architectures: tuple[str, ...] = ARCHITECTURES


def _numbers(seed: int, *shape: int, kind: Any = np.float32) -> Any:
    """Small whole numbers, so that every order of summation gives the same floats."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(kind)


def _product(m: int, n: int, k: int, kind: Any, transposed: bool = False) -> Callable[[], Arguments]:
    """C = A B, or A B' in float where B comes `transposed`."""

    def arguments() -> Arguments:
        a, b = _numbers(1, m, k, kind=kind), _numbers(2, *((n, k) if transposed else (k, n)), kind=kind)
        exact = a.astype(np.float64) @ (b.T if transposed else b).astype(np.float64)
        c = exact.astype(np.float32 if transposed else kind)
        return [a, b, np.zeros_like(c)], 2, c

    return arguments


def _transpose(size: int) -> Callable[[], Arguments]:
    def arguments() -> Arguments:
        tile = _numbers(3, size, size)
        return [tile, np.zeros_like(tile)], 1, tile.T

    return arguments


def _reduction() -> Arguments:
    data = _numbers(4, 2, 256)
    return [data, np.zeros(2, np.float32)], 1, data.sum(axis=1)


def _tiled_product() -> Arguments:
    m, n = _numbers(5, 32, 32), _numbers(6, 32, 32)
    return [m, n, np.zeros_like(m), 32], 2, m @ n


def _matrices() -> Arguments:
    """What ldmatrix.x4 gives of a 16x32 tile, its two 16x16 parts: register i of a lane is matrix i's pair."""
    tile = np.arange(16 * 32, dtype=np.float16).reshape(16, 32)
    pairs = tile.reshape(16, 16, 2).view(np.uint32)[:, :, 0]
    lane = np.arange(32)
    expected = [
        pairs[8 * (i % 2) + lane // 4, 8 * part + 4 * (i // 2) + lane % 4] for part in range(2) for i in range(4)
    ]
    return [tile, np.zeros((8, 32), np.uint32)], 1, np.array(expected)


_WARP = (32, 1, 1)
_V1_TO_V5 = (
    ("v1_global", "fragments straight from global memory and back, no shared memory", ARCHITECTURES),
    ("v2_shared_memory", "A, B and C through shared memory, rows of 32 bytes: two-way conflicts", ARCHITECTURES),
    ("v3_padded", "v2 with the rows of A and B padded to 48 bytes: clean loads, worse stores", ARCHITECTURES),
    ("v4_ldmatrix", "v2 with ldmatrix, mma and the result's shuffles written out", AMPERE_AND_LATER),
    ("v5_swizzle", "v4 with every shared index swizzled (Swizzle<1, 3, 3>): no conflicts left", AMPERE_AND_LATER),
)
_TRANSPOSES = (
    ("plain", "32x32 float transpose by 1024 threads, columns 32 ways in conflict"),
    ("padded", "the transpose with rows of 33 words"),
    ("v2", "the transpose by virtual threads, n = 2"),
    ("v4", "the transpose by virtual threads, n = 4"),
    ("v8", "the transpose by virtual threads, n = 8"),
    ("v16", "the transpose by virtual threads, n = 16"),
)
EXAMPLES = (
    *(
        Example(f"{name}.cu", name, about, _WARP, _product(16, 16, 16, np.float16), architectures=where)
        for name, about, where in _V1_TO_V5
    ),
    Example("xor_tile.cu", "xor_tile_plain", "ldmatrix from rows of 32 halves", _WARP, _matrices),
    Example("xor_tile.cu", "xor_tile_swizzled", "ldmatrix from rows of 32 halves, columns XORed", _WARP, _matrices),
    Example(
        "toy_transpose.cu", "toy_transpose_plain", "4x4 transpose for a machine of 4 banks", (16, 1, 1), _transpose(4)
    ),
    Example(
        "toy_transpose.cu", "toy_transpose_swizzled", "4x4 transpose, columns XORed by row", (16, 1, 1), _transpose(4)
    ),
    *(
        Example(
            "gemm_tile.cu", f"gemm_tile_{name}", f"128x256x32 half-precision tile step, rows of 32 halves {what}",
            (256, 1, 1), _product(128, 256, 32, np.float16, transposed=True), dynamic_shared_bytes=384 * pitch * 2,
        )
        for name, what, pitch in (("plain", "unpadded", 32), ("padded", "and 8 more", 40), ("swizzled", "swizzled", 32))
    ),
    *(
        Example("virtual_threads.cu", f"transpose_{name}", about, (1024, 1, 1), _transpose(32))
        for name, about in _TRANSPOSES
    ),
    Example(
        "virtual_threads.cu", "reduction_plain", "tree sum of 256 numbers", (256, 1, 1), _reduction, grid=(2, 1, 1)
    ),
    Example(
        "virtual_threads.cu", "reduction_v4", "the reduction by virtual threads, n = 4", (256, 1, 1), _reduction,
        grid=(2, 1, 1),
    ),
    Example(
        "virtual_threads.cu", "matmul_plain", "32x32 float tile product", (1024, 1, 1), _product(32, 32, 32, np.float32)
    ),
    Example(
        "virtual_threads.cu", "matmul_v4", "the tile product by virtual threads, n = 4", (1024, 1, 1),
        _product(32, 32, 32, np.float32),
    ),
    *(
        Example(
            "tiled_matmul.cu", f"tiled_{layout}_{memory}", f"16x16 tiled float product, {what}, {memory} shared memory",
            (16, 16, 1), _tiled_product, grid=(2, 2, 1),
            dynamic_shared_bytes=2 * 16 * 17 * 4 if memory == "dynamic" else 0,
        )
        for layout, what in (
            ("straight", "rows"), ("conflict", "roles of x and y swapped"), ("padded", "swapped, rows of 17 words"),
        )
        for memory in ("static", "dynamic")
    ),
)  # fmt: skip
