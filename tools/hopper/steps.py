"""Measures single steps of pipelines on one SM: python tools/hopper/steps.py OUT (CuPy, an H100 or H200)

Writes OUT/steps.csv, a row for each interval between clock reads of the kernels in steps.cu and beside.cu, and
OUT/producers.csv, those of producers.cu.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from measure import TURNS, WARM, tensor_map

SHARED = 160 * 1024
i = np.int32


class Steps:
    """Kernels and rows."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def source(self, *names: str) -> None:
        """The kernels of these files are those that are launched next."""
        text = "".join(
            (Path(__file__).parent / part).read_text(encoding="utf-8") for part in ("steps_common.cuh", *names)
        )
        self.module = cupy.RawModule(code=text, options=("--std=c++17", "-arch=sm_90a"), backend="nvrtc")

    def go(self, kernel: str, threads: int, *args: Any, ctas: int = 1, **told: Any) -> None:
        """A row for each interval that it times."""
        function = self.module.get_function(kernel)
        function.max_dynamic_shared_size_bytes = SHARED
        out = cupy.zeros((16, TURNS), cupy.uint32)
        function((ctas,), (threads,), (out, *args), shared_mem=SHARED)
        cupy.cuda.Device().synchronize()
        for what, turns in enumerate(cupy.asnumpy(out)):
            if turns.any():
                self.rows.append({
                    "kernel": kernel, "threads": threads, "told": " ".join(f"{k}={v}" for k, v in told.items()),
                    "what": what, "cycles": int(np.median(turns[WARM:])), "least": int(turns[WARM:].min()),
                    "most": int(turns[WARM:].max()), "first": int(turns[0]),
                })  # fmt: skip


def steps(bench: Steps, big: Any) -> None:
    """Fences, mbarriers, tensor maps, copies, groups of products, products beside other warps."""
    bench.source("steps.cu")
    for kernel in ("fence_none", "fence_shared", "fence_async", "fence_block"):
        for threads in (32, 128, 256):
            for stores in (0, 1, 4, 8):
                bench.go(kernel, threads, i(stores), stores=stores)
    for threads in (32, 128, 256):
        bench.go("given", threads)
    for swizzle, rows in (("128", 64), ("128", 16), ("none", 64)):
        made = cupy.asarray(tensor_map(big, (1024, 8192), (64, rows), swizzle))
        maps = cupy.zeros(128 * TURNS, cupy.uint8)
        for threads in (32, 128, 256):
            bench.go("map_made", threads, made, maps, i(128 * rows), rows=rows, swizzle=swizzle)
    made = cupy.asarray(tensor_map(big, (1024, 8192), (64, 64), "128"))
    for threads in (32, 128, 256):
        for copies in (1, 2, 4):
            bench.go("stepwise", threads, made, i(8192), i(copies), copies=copies)
    for threads in (128, 256):
        bench.go("ahead", threads)
    for kernel in ("beside_loads", "beside_stores", "beside_copies", "beside_bulk"):
        for groups in (0, 8):
            for count in (0, 16, 64):
                bench.go(kernel, 256, big, i(groups), i(count), groups=groups, count=count)
    for each in (1, 2, 4):
        for keep in (0, 1):
            for threads in (128, 256):
                for count in (4, 16):
                    bench.go(f"groups_{each}_{keep}", threads, i(count), count=count)
    for rows in (16, 64, 128):
        made = cupy.asarray(tensor_map(big, (1024, 8192), (64, rows), "128"))
        for threads in (128, 256):
            bench.go("stored", threads, made, i(rows), i(0), rows=rows)


def beside(bench: Steps, big: Any) -> None:
    """Arithmetic beside products, loads beside stores by tensor maps, stores with conflicts before fences."""
    bench.source("products.cuh", "beside.cu")
    for columns in (64, 128, 256):
        for a in "sr":
            for how in range(9) if a == "s" else (0, 3, 4):
                for products in (0, 1):
                    for threads in (128, 256):
                        bench.go(f"busy_{columns}_{a}_{how}", threads, i(products), big, products=products)
    for rows in (16, 64, 128):
        made = cupy.asarray(tensor_map(big, (1024, 8192), (64, rows), "128"))
        for order in (0, 1, 2):
            bench.go("turned", 32, made, i(rows), i(order), rows=rows, order=order)
    for kernel in ("crowded_none", "crowded_fence", "crowded_block"):
        for threads in (32, 128, 256):
            for ways in (1, 8, 32):
                for count in (4, 16):
                    bench.go(kernel, threads, i(ways), i(count), ways=ways, count=count)


def producers(bench: Steps, big: Any) -> None:
    """Boxes asked for by one thread, step after step; boxes of lines of 16 to 128 bytes; another CTA's memory."""
    bench.source("producers.cu")
    for inner in (8, 16, 32, 64):
        for rows in (8, 64, 128, 256):
            made = np.frombuffer(tensor_map(big, (1024, 65536), (inner, rows), "none").tobytes(), "V128")[0]
            told = {"inner": inner, "rows": rows}
            for each in (1, 2, 4):
                for count in (1, 4, 8, 16):
                    if 2 * inner * rows * each <= SHARED:
                        args = made, i(2 * inner * rows), i(count), i(rows)
                        bench.go(f"asks_{each}", 32, *args, steps=count, **told)
            for kernel in ("sends_stores", "sends_sums"):
                for count in (1, 4, 8):
                    bench.go(kernel, 32, made, i(count), i(rows), count=count, **told)
    bench.go("others", 32, ctas=2)


def write(bench: Steps, path: Path) -> None:
    """The rows, as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, bench.rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(bench.rows)


def main() -> None:
    """The command."""
    big = cupy.zeros(1 << 28, cupy.uint8)
    for name, parts in (("steps.csv", (steps, beside)), ("producers.csv", (producers,))):
        bench = Steps()
        for part in parts:
            part(bench, big)
        write(bench, Path(sys.argv[1]) / name)


if __name__ == "__main__":
    main()
