"""The grids that are measured and emulated: a kernel of kernels.cu, a launch, and its data.

A buffer is written as on the command line, `zeros:f32:1024`. `below:N:1024` are whole numbers from 0 to N - 1.
`rows:R:M` are the R + 1 starts of sparse rows of M / 2 to 3 M / 2 entries each. The module needs only NumPy, here and
beside a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MIB = 1 << 20


@dataclass(frozen=True)
class Grid:
    """A launch: extents in CTAs and threads, `shared` dynamic bytes, arguments in the kernel's order."""

    family: str
    kernel: str
    grid: tuple[int, int]
    block: tuple[int, int]
    args: tuple[str, ...]
    shared: int = 0

    @property
    def name(self) -> str:
        """A name that no other grid has."""
        numbers = [self.args[0].rpartition(":")[2], *(arg[4:] for arg in self.args if arg.startswith("i32:"))]
        return f"{self.kernel}_{'_'.join(dict.fromkeys(numbers))}_{self.grid[0]}x{self.grid[1]}"


def argument(text: str) -> NDArray[Any] | np.generic:
    """The value of an argument's text. Raises KeyError for an unknown kind."""
    kind, _, rest = text.partition(":")
    if kind in ("i32", "f32"):
        return np.int32(rest) if kind == "i32" else np.float32(rest)
    random = np.random.default_rng(7)
    if kind == "below":
        most, _, count = rest.partition(":")
        return np.resize(random.integers(0, int(most), min(int(count), MIB)).astype(np.int32), int(count))
    if kind == "rows":
        rows, _, mean = rest.partition(":")
        each = random.integers(int(mean) // 2, int(mean) * 3 // 2 + 1, int(rows))
        return np.concatenate([[0], np.cumsum(each)]).astype(np.int32)
    form, _, count = rest.partition(":")
    dtype = {"f32": np.float32, "f16": np.float16, "i32": np.int32}[form]
    if kind == "zeros":
        return np.zeros(int(count), dtype)
    return np.resize((random.random(MIB // 4, dtype=np.float32) - np.float32(0.5)).astype(dtype), int(count))


def grids() -> list[Grid]:
    """All grids, in the order of the measurements."""
    return [*_streams(), *_sums(), *_rows(), *_transposes(), *_neighbours(), *_unequal(), *_products(), *_attention()]


def _streams() -> list[Grid]:
    made: list[Grid] = []
    data: tuple[str, ...]
    for n, threads in ((1 << 18, 256), (1 << 20, 128), (1 << 22, 256), (3 << 21, 1024), (1 << 24, 256), (1 << 26, 512)):
        data = f"random:f32:{n}", f"random:f32:{n}", f"zeros:f32:{n}", f"i32:{n}"
        made.append(Grid("add", "add", (n // threads, 1), (threads, 1), data))
    for n in (1 << 16, 1 << 19, 1 << 21, 1 << 24):
        data = f"random:f32:{4 * n}", f"zeros:f32:{4 * n}", f"i32:{n}"
        made.append(Grid("copy", "copy4", (n // 256, 1), (256, 1), data))
    for n, ctas in ((1 << 18, 132), (1 << 20, 264), (1 << 22, 1056), (1 << 23, 132)):
        data = *[f"random:f32:{4 * n}"] * 2, f"zeros:f32:{4 * n}", "f32:2", f"i32:{n}"
        made.append(Grid("persistent stream", "triad_stride", (ctas, 1), (512, 1), data))
    for n in (1 << 20, 1 << 23, 1 << 26):
        made.append(
            Grid("in place", "scale_in_place", (n // 256, 1), (256, 1), (f"random:f32:{n}", "f32:2", f"i32:{n}"))
        )
    for n in (1 << 18, 1 << 21, 1 << 24):
        made.append(Grid("fill", "fill", (n // 256, 1), (256, 1), (f"zeros:f32:{4 * n}", f"i32:{n}")))
    for step, n in ((2, 1 << 22), (8, 1 << 20), (8, 1 << 23), (32, 1 << 20)):
        data = f"random:f32:{n * step}", f"zeros:f32:{n}", f"i32:{step}", f"i32:{n}"
        made.append(Grid("strides", "every", (n // 256, 1), (256, 1), data))
    for source, n in ((1 << 18, 1 << 20), (1 << 22, 1 << 22), (1 << 26, 1 << 22)):
        data = f"random:f32:{source}", f"below:{source}:{n}", f"zeros:f32:{n}", f"i32:{n}"
        made.append(Grid("gather", "gather", (n // 256, 1), (256, 1), data))
    for n in (1 << 19, 1 << 22, 1 << 25):
        data = f"random:f16:{2 * n}", f"zeros:f16:{2 * n}", f"i32:{n}"
        made.append(Grid("gelu", "half_gelu", (n // 256, 1), (256, 1), data))
    for n in (1 << 18, 1 << 22, 1 << 25):
        data = *[f"random:f32:{n}"] * 2, f"zeros:f32:{n}", f"i32:{n}"
        made.append(Grid("options", "options", (n // 128, 1), (128, 1), data))
    return made


def _sums() -> list[Grid]:
    made: list[Grid] = []
    data: tuple[str, ...]
    for n, ctas in ((1 << 16, 64), (1 << 20, 264), (1 << 22, 1056), (1 << 24, 528)):
        made.append(Grid("sum", "sum_all", (ctas, 1), (256, 1), (f"random:f32:{4 * n}", "zeros:f32:1", f"i32:{n}")))
    for n in (1 << 16, 1 << 20, 1 << 22):
        made.append(
            Grid("one address", "count_hits", (n // 256, 1), (256, 1), (f"below:9:{n}", "zeros:i32:2", f"i32:{n}"))
        )
    for n, ctas in ((1 << 20, 132), (1 << 24, 264), (1 << 24, 1056)):
        made.append(
            Grid("histogram", "histogram", (ctas, 1), (512, 1), (f"below:256:{n}", "zeros:i32:256", f"i32:{n}"))
        )
    for bins, n in ((64, 1 << 18), (4096, 1 << 20), (1 << 20, 1 << 22)):
        data = f"below:{bins}:{n}", f"zeros:i32:{bins}", f"i32:{n}"
        made.append(Grid("global histogram", "histogram_global", (n // 256, 1), (256, 1), data))
    for rows, columns in ((1024, 1024), (8192, 4096), (65536, 1024)):
        data = f"random:f32:{rows * columns}", f"zeros:f32:{columns}", f"i32:{rows}", f"i32:{columns}"
        made.append(Grid("column sums", "column_sums", (columns // 256, rows // 64), (256, 1), data))
    return made


def _rows() -> list[Grid]:
    made: list[Grid] = []
    data: tuple[str, ...]
    for rows, columns, threads in (
        (66, 4096, 256),
        (132, 4096, 256),
        (133, 4096, 256),
        (4096, 1024, 256),
        (8192, 4096, 512),
        (16384, 512, 128),
    ):
        data = f"random:f32:{rows * columns}", f"zeros:f32:{rows * columns}", f"i32:{columns}"
        made.append(Grid("softmax", "softmax_row", (rows, 1), (threads, 1), data))
    for rows, columns in ((2048, 768), (8192, 1024), (65536, 768)):
        data = f"random:f32:{rows * columns}", f"zeros:f32:{rows * columns}", f"i32:{columns // 4}", f"i32:{rows}"
        made.append(Grid("layer norm", "norm_warp", (rows // 4, 1), (128, 1), data))
    for rows, columns in ((1024, 1024), (4096, 4096), (16384, 8192)):
        data = f"random:f32:{rows * columns}", f"random:f32:{columns}", f"zeros:f32:{rows}", f"i32:{columns // 4}"
        made.append(Grid("matrix by vector", "matrix_vector", (rows, 1), (128, 1), data))
    for n in (1 << 18, 1 << 22, 1 << 24):
        data = f"below:9:{n}", f"zeros:i32:{n}", f"i32:{n}"
        made.append(Grid("scan", "scan_cta", (n // 512, 1), (512, 1), data, 2048))
    for ctas in (132, 1024, 8192):
        data = f"random:f32:{ctas * 1024}", f"zeros:f32:{ctas * 1024}"
        made.append(Grid("sort", "sort_cta", (ctas, 1), (1024, 1), data))
    return made


def _transposes() -> list[Grid]:
    made: list[Grid] = []
    data: tuple[str, ...]
    for n in (512, 1024, 2048, 4096, 8192):
        data = f"random:f32:{n * n}", f"zeros:f32:{n * n}", f"i32:{n}"
        made.append(Grid("transpose", "transpose_tile", (n // 32, n // 32), (32, 8), data))
        if n != 512:
            made.append(Grid("transpose", "transpose_plain", (n // 32, n // 8), (32, 8), data))
    return made


def _neighbours() -> list[Grid]:
    made: list[Grid] = []
    data: tuple[str, ...]
    for n in (1024, 4096, 8192):
        data = f"random:f32:{n * n}", f"zeros:f32:{n * n}", f"i32:{n}"
        made.append(Grid("stencil", "heat2d", (n // 32, n // 8), (32, 8), data))
    for n in (128, 256, 512):
        data = f"random:f32:{n**3}", f"zeros:f32:{n**3}", f"i32:{n}"
        made.append(Grid("stencil", "heat3d", (n // 32, n // 8), (32, 8), data))
    for n in (512, 2048, 8192):
        data = f"random:f32:{n * n}", "random:f32:25", f"zeros:f32:{n * n}", f"i32:{n}"
        made.append(Grid("convolution", "convolve", (n // 32, n // 16), (32, 16), data))
    for rows, mean in ((8192, 32), (65536, 64), (262144, 32)):
        entries = int(np.asarray(argument(f"rows:{rows}:{mean}"))[-1])
        data = (
            f"rows:{rows}:{mean}", f"below:{rows}:{entries}", f"random:f32:{entries}", f"random:f32:{rows}",
            f"zeros:f32:{rows}", f"i32:{rows}",
        )  # fmt: skip
        made.append(Grid("sparse rows", "sparse_rows", (rows // 4, 1), (128, 1), data))
    for n in (4096, 33792, 65536):
        made.append(
            Grid("bodies", "bodies", (n // 256, 1), (256, 1), (f"random:f32:{4 * n}", f"zeros:f32:{4 * n}", f"i32:{n}"))
        )
    return made


def _unequal() -> list[Grid]:
    made: list[Grid] = []
    data: tuple[str, ...]
    for n, most in ((512, 256), (2048, 256), (4096, 1000)):
        made.append(
            Grid(
                "mandelbrot",
                "mandelbrot",
                (n // 32, n // 8),
                (32, 8),
                (f"zeros:i32:{n * n}", f"i32:{n}", f"i32:{most}"),
            )
        )
    for n in (512, 1024, 2048):
        data = *[f"random:f32:{n * n}"] * 2, f"zeros:f32:{n * n}", f"i32:{n}"
        made.append(Grid("lower product", "lower_product", (n // 32, n // 32), (32, 8), data))
    for ctas in (64, 400, 1056):
        data = f"random:f32:{ctas * 1024}", f"zeros:f32:{ctas * 1024}", f"i32:{ctas}"
        made.append(Grid("longer and longer", "prefix_rows", (ctas, 1), (1024, 1), data))
    for ctas, busy in ((1056, 7), (4224, 32), (16896, 132)):
        data = f"random:f32:{ctas * 256}", f"zeros:f32:{ctas * 256}", f"i32:{busy}"
        made.append(Grid("some leave", "some_leave", (ctas, 1), (256, 1), data))
    for ctas, tiles in ((132, 2000), (264, 5000), (1056, 8000)):
        data = f"random:f32:{tiles * 256}", f"zeros:f32:{tiles * 256}", "zeros:i32:1", f"i32:{tiles}"
        made.append(Grid("queue of tiles", "takes_turns", (ctas, 1), (256, 1), data))
    return made


def _products() -> list[Grid]:
    made: list[Grid] = []
    data: tuple[str, ...]
    for n in (512, 1024, 2048):
        data = *[f"random:f32:{n * n}"] * 2, f"zeros:f32:{n * n}", f"i32:{n}"
        made.append(Grid("FP32 product", "product_plain", (n // 16, n // 16), (16, 16), data))
        made.append(Grid("FP32 product", "product_tile", (n // 32, n // 32), (32, 32), data))
    for n in (1024, 2048, 4096):
        data = *[f"random:f32:{n * n}"] * 2, f"zeros:f32:{n * n}", f"i32:{n}"
        made.append(Grid("FP32 product", "product_registers", (n // 128, n // 128), (256, 1), data))
    for kernel, m, n, stages in (
        ("tensor_64x64", 64, 64, 2),
        ("tensor_128x128", 128, 128, 3),
        ("tensor_128x64", 128, 64, 4),
    ):
        for size in (512, 1024, 2048, 4096):
            data = *[f"random:f16:{size * size}"] * 2, f"zeros:f32:{size * size}", f"i32:{size}"
            shared = 2 * stages * (m * 40 + 32 * (n + 8))
            made.append(Grid("tensor product", kernel, (size // n, size // m), (256, 1), data, shared))
    for size, group in ((2048, 1), (2048, 8), (4096, 8)):
        data = *[f"random:f16:{size * size}"] * 2, f"zeros:f32:{size * size}", f"i32:{size}", f"i32:{group}"
        made.append(Grid("tensor product", "tensor_grouped", ((size // 128) ** 2, 1), (256, 1), data, 56832))
    for size in (512, 1024, 2048):
        data = *[f"random:f16:{size * size}"] * 2, f"zeros:f32:{size * size}", f"i32:{size}"
        made.append(Grid("WMMA from global memory", "tensor_plain", ((size // 16) ** 2 // 4, 1), (128, 1), data))
    return made


def _attention() -> list[Grid]:
    made: list[Grid] = []
    data: tuple[str, ...]
    for heads, n in ((4, 512), (16, 1024), (32, 2048)):
        data = *[f"random:f16:{heads * n * 64}"] * 3, f"zeros:f32:{heads * n * 64}", f"i32:{n}"
        for kernel in ("attention_full", "attention_causal"):
            made.append(Grid("attention", kernel, (n // 64, heads), (128, 1), data, 54528))
    return made
