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
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120")
AMPERE_AND_LATER = ARCHITECTURES[1:]
HOPPER, BLACKWELL = ("sm_90",), ("sm_100",)

Arguments = tuple[list[Any], int, Any]
"""The arguments of a launch, which of them is the output, and what must be in it afterwards."""


@dataclass(frozen=True)
class Named:
    """A number of a kernel's layout: its `name` in the trace, its `macro` in the source, its value and other values.

    `dynamic_shared_bytes` of the launch for a value, where it has such.
    """

    name: str
    macro: str
    values: tuple[int, ...]
    dynamic_shared_bytes: Callable[[int], int] | None = None


@dataclass(frozen=True)
class Boxed:
    """An array that the kernel gets as a tensor map, of boxes of so many elements of each axis; `swizzle` in bytes."""

    array: Any
    box: tuple[int, ...]
    swizzle: int = 128


def passed(given: list[Any]) -> list[Any]:
    """The arguments as the emulator takes them."""
    from gpuemu import TensorMap

    return [TensorMap(x.array, x.box, swizzle=x.swizzle) if isinstance(x, Boxed) else x for x in given]


@dataclass(frozen=True)
class Example:
    """A kernel and one launch of it; `about` is a line for the trace.

    `options`: of the compiler. `tolerance`: how far a result may be from the expected one. `timed_ctas`: how many
    of the first CTAs the trace has, 0 for as many as live on an SM at once.
    """

    source: str
    kernel: str
    about: str
    block: tuple[int, int, int]
    arguments: Callable[[], Arguments]
    grid: tuple[int, int, int] = (1, 1, 1)
    dynamic_shared_bytes: int = 0
    architectures: tuple[str, ...] = ARCHITECTURES
    named: Named | None = None
    swizzle: tuple[int, int, int] | None = None
    """swizzle<bits, base, shift> of its shared addresses in bytes, which macro BITS = 0 of the source takes away."""
    options: tuple[str, ...] = ()
    tolerance: float = 0.0
    timed_ctas: int = 0


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


def _tiled_product(width: int = 32, size: int = 0, slip: bool = False) -> Callable[[], Arguments]:
    """M N, or M M for the kernel with the slip; `size` is the block's at run time, 0 where it is no argument."""

    def arguments() -> Arguments:
        m, n = _numbers(5, width, width), _numbers(6, width, width)
        return [m, n, np.zeros_like(m), width, *([size] if size else [])], 2, m @ (m if slip else n)

    return arguments


def _bounded_transpose(height: int, width: int) -> Callable[[], Arguments]:
    def arguments() -> Arguments:
        tile = _numbers(7, height, width)
        return [tile, np.zeros((width, height), np.float32), width, height], 1, tile.T

    return arguments


def _pair_reduction() -> Arguments:
    data = _numbers(8, 2, 512)
    return [data, np.zeros(2, np.float32)], 1, data.sum(axis=1)


def _bounded_product(m: int, n: int, k: int) -> Callable[[], Arguments]:
    def arguments() -> Arguments:
        a, b = _numbers(9, m, k), _numbers(10, k, n)
        return [a, b, np.zeros((m, n), np.float32), m, n, k], 2, a @ b

    return arguments


def _half_product(inner: int) -> Callable[[], Arguments]:
    def arguments() -> Arguments:
        a, b = _numbers(11, 128, inner, kind=np.float16), _numbers(12, inner, 256, kind=np.float16)
        c = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16)
        return [a, b, np.zeros_like(c), inner], 2, c

    return arguments


def _toy_matrices() -> Arguments:
    """What ldmatrix.x2 gives of a 4x16 tile, rows r and r + 4 of a matrix being the same."""
    tile = np.arange(4 * 16, dtype=np.float16).reshape(4, 16)
    pairs, lane = tile.view(np.uint32), np.arange(32)
    expected = [pairs[lane // 4 % 4, 4 * i + lane % 4] for i in range(2)]
    return [tile, np.zeros((2, 32), np.uint32)], 1, np.array(expected)


def _matrices() -> Arguments:
    """What ldmatrix.x4 gives of a 16x32 tile, its two 16x16 parts: register i of a lane is matrix i's pair."""
    tile = np.arange(16 * 32, dtype=np.float16).reshape(16, 32)
    pairs = tile.reshape(16, 16, 2).view(np.uint32)[:, :, 0]
    lane = np.arange(32)
    expected = [
        pairs[8 * (i % 2) + lane // 4, 8 * part + 4 * (i // 2) + lane % 4] for part in range(2) for i in range(4)
    ]
    return [tile, np.zeros((8, 32), np.uint32)], 1, np.array(expected)


def _hopper_product(boxed: bool, rows: int = 128, a_rows: int = 128) -> Callable[[], Arguments]:
    """A B' with A of 128 x 512 and B of `rows` x 512, side by side in parts of 128 columns."""

    def arguments() -> Arguments:
        a, b = _numbers(13, 128, 512, kind=np.float16), _numbers(14, rows, 512, kind=np.float16)
        exact = a.astype(np.float32) @ b.T.astype(np.float32)
        c = np.ascontiguousarray(exact.reshape(128, -1, 128).swapaxes(0, 1))
        operands = [Boxed(a, (a_rows, 64)), Boxed(b, (128, 64))] if boxed else [a, b]
        return [*operands, np.zeros_like(c), 512], 2, c

    return arguments


def _attention() -> Arguments:
    """64 queries, 256 keys and values, a head of 64."""
    given = np.random.default_rng(15)
    q, k, v = (given.standard_normal((rows, 64)).astype(np.float16) for rows in (64, 256, 256))
    weights = np.exp(q.astype(np.float64) @ k.T.astype(np.float64) / 8)
    out = (weights / weights.sum(axis=1, keepdims=True) @ v).astype(np.float32)
    scale = float(np.log2(np.e) / 8)
    return [*(Boxed(x, (64, 64)) for x in (q, k, v)), np.zeros_like(out), 256, scale], 3, out


def _tiles_of(memory: str) -> Callable[[int], int] | None:
    return (lambda pitch: 2 * 16 * pitch * 4) if memory == "dynamic" else None


def _nn_bytes(pad: int) -> int:
    return 2 * (128 * (32 + pad) + 32 * (256 + pad))


_WARP = (32, 1, 1)
_WRITTEN_D, _WRITTEN_E = "virtual_threads_as_written.cu", "tiled_as_written.cu"
_WIDTH = 32
_RING = 4 * 2 * 128 * 64 * 2
_FOR_HOPPER = ("-arch=sm_90a",)
_GRID = (_WIDTH // 16, _WIDTH // 16, 1)
_V1_TO_V5 = (
    ("v1_global", "fragments straight from global memory and back, no shared memory", ARCHITECTURES),
    ("v2_shared_memory", "A, B and C through shared memory, rows of 32 bytes: two-way conflicts", ARCHITECTURES),
    ("v3_padded", "v2 with the rows of A and B padded to 48 bytes: clean loads, worse stores", ARCHITECTURES),
    ("v4_ldmatrix", "v2 with ldmatrix, mma and the result's shuffles written out", AMPERE_AND_LATER),
    ("v5_swizzle", "v4 with every shared index swizzled (Swizzle<1, 3, 3>): no conflicts left", AMPERE_AND_LATER),
)
_GENERIC = (
    ("v4_generic", "v4 with a generic pointer shuffled in place of stmatrix, as it was published", _WARP, (16, 16, 16)),
    ("v5_generic", "v5 so, on WMMA fragments and without the barrier behind its stores", _WARP, (16, 16, 16)),
    ("v4_generic_k32", "v4_generic in two steps of 16", _WARP, (16, 16, 32)),
    ("v4_generic_row", "v4_generic by four warps, 16x64 results in rows of 128 bytes", (128, 1, 1), (16, 64, 16)),
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
        Example(f"{name}.cu", name, about, _WARP, _product(16, 16, 16, np.float16), architectures=where,
                named=Named("pitch", "PITCH", (24, 40, 56)) if name == "v3_padded" else None,
                swizzle=(1, 4, 3) if name == "v5_swizzle" else None)
        for name, about, where in _V1_TO_V5
    ),
    *(
        Example("generic_stores.cu", name, about, block, _product(*sizes, np.float16), architectures=AMPERE_AND_LATER)
        for name, about, block, sizes in _GENERIC
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
            named=Named("padding", "PAD", (8, 24, 40), lambda pad: 384 * (32 + pad) * 2) if name == "padded" else None,
        )
        for name, what, pitch in (("plain", "unpadded", 32), ("padded", "and 8 more", 40), ("swizzled", "swizzled", 32))
    ),
    *(
        Example("virtual_threads.cu", f"transpose_{name}", about, (1024, 1, 1), _transpose(32),
                named=Named("pitch", "PITCH", (33, 35, 37)) if name == "padded" else None)
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
            (16, 16, 1), _tiled_product(), grid=(2, 2, 1),
            dynamic_shared_bytes=2 * 16 * 17 * 4 if memory == "dynamic" else 0,
            named=Named("pitch", "PITCH", (17, 19, 21), _tiles_of(memory)) if layout == "padded" else None,
        )
        for layout, what in (
            ("straight", "rows"), ("conflict", "roles of x and y swapped"), ("padded", "swapped, rows of 17 words"),
        )
        for memory in ("static", "dynamic")
    ),
    *(
        Example("gemm_nn.cu", f"gemm_nn_{name}", f"128x256 half-precision product, B row-major, K = 64, {what}",
                (256, 1, 1), _half_product(64), dynamic_shared_bytes=_nn_bytes(pad),
                named=Named("padding", "PAD", (8, 24, 40), _nn_bytes) if pad else None)
        for name, what, pad in (("plain", "rows unpadded", 0), ("padded", "rows and 8 halves more", 8))
    ),
    *(
        Example("toy_ldmatrix.cu", f"toy_ldmatrix_{name}", f"ldmatrix for a machine of 4 banks of 16 bytes, {what}",
                _WARP, _toy_matrices)
        for name, what in (("plain", "straight"), ("swizzled", "groups XORed by row"))
    ),
    *(
        Example(_WRITTEN_D, f"written_transpose_{name}", f"48x80 transpose with bounds over a grid, {what}",
                (1024, 1, 1), _bounded_transpose(48, 80), grid=(3, 2, 1))
        for name, what in (
            ("plain", "as published"), ("padded", "rows of 33 words"), ("v2", "virtual threads, n = 2"),
            ("v4", "virtual threads, n = 4"), ("v8", "virtual threads, n = 8"),
        )
    ),
    *(
        Example(_WRITTEN_D, f"written_reduction_{name}", f"sum of 512 numbers, two loads a thread, {what}",
                (256, 1, 1), _pair_reduction, grid=(2, 1, 1))
        for name, what in (("plain", "as published"), ("v4", "virtual threads, n = 4"))
    ),
    *(
        Example(_WRITTEN_D, f"written_matmul_{name}", f"40x50x70 float product with bounds, {what}",
                (1024, 1, 1), _bounded_product(40, 50, 70), grid=(2, 2, 1))
        for name, what in (("plain", "as published"), ("v4", "virtual threads, n = 4"))
    ),
    Example(_WRITTEN_E, "tiled_none", f"float product of width {_WIDTH} without shared memory", (16, 16, 1),
            _tiled_product(_WIDTH), grid=_GRID),
    *(
        Example(_WRITTEN_E, f"written_{name}", f"tiled product of width {_WIDTH}, the block's size at run time, {what}",
                (16, 16, 1), _tiled_product(_WIDTH, 16), grid=_GRID, dynamic_shared_bytes=2 * 16 * 17 * 4)
        for name, what in (("straight", "rows"), ("conflict", "swapped"), ("padded", "swapped and padded"))
    ),
    *(
        Example("hopper.cu", name, f"128x128x512 half-precision product: {about}", (threads, 1, 1),
                _hopper_product(boxed), dynamic_shared_bytes=_RING, architectures=HOPPER, options=_FOR_HOPPER)
        for name, about, threads, boxed in (
            ("product_mma", "cp.async, ldmatrix, mma", 256, False),
            ("product_wgmma", "cp.async, wgmma", 256, False),
            ("product_tma", "TMA into a ring of mbarriers, wgmma", 256, True),
            ("product_warpgroups", "the same by a producer's and two consumers' warpgroups", 384, True),
        )
    ),
    Example("hopper_cluster.cu", "product_multicast", "two such products by a cluster, each of A's boxes for both CTAs",
            (384, 1, 1), _hopper_product(True, 256, 64), grid=(2, 1, 1), dynamic_shared_bytes=_RING,
            architectures=HOPPER, options=_FOR_HOPPER, timed_ctas=1),
    Example("hopper.cu", "attention", "64 queries, 256 keys, a head of 64: TMA, wgmma with P in registers", (128, 1, 1),
            _attention, dynamic_shared_bytes=5 * 64 * 64 * 2, architectures=HOPPER, options=_FOR_HOPPER,
            tolerance=2e-4),
    Example("blackwell.cu", "product_tcgen05", "128x128x512 half-precision product: TMA, tcgen05 in tensor memory",
            (128, 1, 1), _hopper_product(True), dynamic_shared_bytes=_RING, architectures=BLACKWELL,
            options=("-arch=sm_100a",)),
    Example(_WRITTEN_E, "written_padded_slip", "the padded static kernel as published, which computes M M",
            (16, 16, 1), _tiled_product(_WIDTH, slip=True), grid=_GRID),
)  # fmt: skip
