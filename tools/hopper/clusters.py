"""Measures clusters, and instructions beside copies and products: python tools/hopper/clusters.py OUT (CuPy, an H100)

Writes OUT/others.csv, membars.csv and between.csv, a row for each interval of the kernels in the sources of that name,
and OUT/clusters.csv: clocks of each CTA's first warp, from the kernels in clusters.cu. `--counters` launches those of
clusters.cu six times each, and copies of units.cu, for the profiler, and writes OUT/launched.csv: which they were.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from measure import TURNS, tensor_map
from steps import SHARED, Steps

HERE = Path(__file__).parent
SIZES, TIMES = (1, 2, 4, 8), 6
i = np.int32
ROWS = (
    "nothing prefetch_l2 prefetch_l1 discard priority relaxed acquire acquire_l1 cached fence_gpu fence_sc"
    " fence_cluster fence_cta isspacep isspacep_many dependents_wait dependents_launch sleep"
)


def others(bench: Steps, big: Any) -> None:
    """Instructions in a row, prefetches, sleeps, registers handed over."""
    bench.source("others.cu")
    for name in ROWS.split():
        for threads in (32, 128):
            for count in (1, 2, 4, 8, 16):
                bench.go(f"row_{name}", threads, i(count), big, count=count)
    for nanoseconds in (0, 1, 10, 20, 40, 64, 100, 200, 500, 1000, 2000, 5000, 20000):
        for threads in (32, 128):
            bench.go("sleeps", threads, i(nanoseconds), big, nanoseconds=nanoseconds)
    for size in (128, 1024, 8192, 32768):
        for count in (0, 1, 2, 4, 8, 16):
            bench.go("prefetch_bulk", 32, i(count), big, i(size), i(0), count=count, bytes=size)
    for rows in (8, 64, 256):
        made = np.frombuffer(tensor_map(big, (1024, 65536), (64, rows), "128").tobytes(), "V128")[0]
        for count in (0, 1, 2, 4, 8, 16):
            bench.go("prefetch_tensor", 32, i(count), big, i(128 * rows), i(rows), made, count=count, rows=rows)
    for count in (0, 1, 2, 4, 8):
        bench.go("prefetch_map", 32, i(count), big, i(0), i(0), made, count=count)
    for delay in (0, 500, 1000, 3000):
        bench.go("gives", 384, i(delay), big, delay=delay)


def membars(bench: Steps, big: Any) -> None:
    """Fences of the GPU by several warps, and meetings of clusters."""
    bench.source("membars.cu")
    for what in (0, 1, 2, 3, 6, 8, 9, 16, 17, 32, 33):
        for threads in (32, 64, 128, 256):
            for apart in (0,) if threads == 32 else (0, 8, 30, 100, 300, 600, 700, 1000):
                for beside in (8, 1) if (threads, apart) == (64, 0) else (8,):
                    bench.go(f"membars_{what}", threads, big, i(apart), i(beside), apart=apart, beside=beside)
    for size in SIZES[1:]:
        for what in (0, 2, 8, 64, 128):
            for threads in (32, 128, 256):
                for apart in (0,) if threads == 32 else (0, 8, 30, 100, 300):
                    bench.go(f"meets_{what}_{size}", threads, big, i(apart), i(8), ctas=size, apart=apart)


def between(bench: Steps, big: Any) -> None:
    """What the CTAs of a cluster send each other."""
    bench.source("between.cu")
    for size in SIZES[1:]:
        for what in range(6):
            for threads in (32, 128, 256, 512):
                for count in (1, 4, 8, 16, 32):
                    bench.go(f"between_{what}_{size}", threads, i(count), big, i(0), ctas=size, count=count)
        for what in (6, 7):
            for told in (1024, 8192, 32768, 65536, 131072):
                bench.go(f"between_{what}_{size}", 128, i(1), big, i(told), ctas=size, bytes=told)


def launches() -> Iterator[tuple[str, int, int, int, int]]:
    """Kernels of clusters.cu: name, CTAs, threads, bytes of shared memory, delay."""
    for size in SIZES:
        for name in ("empty", "begins", "meets", "meets_once"):
            for threads, shared in ((32, 0), (160, 0), (256, 0), (288, 98304)):
                for clusters in (1, 2) if name == "empty" else (1,):
                    yield f"{name}_{size}", size * clusters, threads, shared, 0
        for name in ("late", "late_meets"):
            yield f"{name}_{size}", size, 256, 0, 4000
    yield "empty_1", 2, 256, 0, 0


def clusters(code: Any, kernels: Any = launches) -> Iterator[tuple[tuple[str, int, int, int, int], np.ndarray]]:
    """Launch each so often; what it wrote."""
    for name, ctas, threads, shared, delay in kernels():
        function = code.get_function(name)
        function.max_dynamic_shared_size_bytes = SHARED
        found = []
        for _ in range(TIMES):
            out = cupy.zeros((16, 16), cupy.uint32)
            function((ctas,), (threads,), (out, i(delay)), shared_mem=shared)
            cupy.cuda.Device().synchronize()
            found.append(cupy.asnumpy(out)[:ctas])
        yield (name, ctas, threads, shared, delay), np.array(found)


def copies(big: Any) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Kernels of units.cu whose counters differ by what copies do: name, what it was told, its arguments."""
    for size in (128, 1024, 8192):
        for count in (1, 5):
            yield "bulk_load", f"bytes={size} count={count}", (big, i(size), i(count), i(0))
            for reduce in (0, 1):
                told = f"bytes={size} count={count} reduce={reduce}"
                yield "bulk_store", told, (big, i(size), i(count), i(reduce))
    for inner, rows, swizzle in ((64, 64, "128"), (64, 64, "none"), (16, 64, "32"), (16, 64, "none"), (8, 64, "none")):
        made = cupy.asarray(np.tile(tensor_map(big, (1024, 8192), (inner, rows), swizzle), TURNS))
        size = inner * rows * 2
        for count in (1, 5):
            told = f"inner={inner} rows={rows} swizzle={swizzle} count={count}"
            yield "tensor_load", told, (made, i(2), i(size), i(count), i(rows), i(0), i(0))
            yield "tensor_store", told, (made, i(size), i(count), i(rows))
    for kernel in ("row_nothing", "row_arrive", "row_expect", "row_arrive_all", "row_test", "row_fence_async"):
        for count in (1, 9):
            yield kernel, f"count={count}", (i(count),)


def main(to: Path, counters: bool) -> None:
    """The command."""
    options = ("--std=c++17", "-arch=sm_90a")
    code = cupy.RawModule(code=(HERE / "clusters.cu").read_text(encoding="utf-8"), options=options, backend="nvrtc")
    big = cupy.zeros(1 << 28, cupy.uint8)
    rows: list[dict[str, Any]] = []
    if counters:
        units = cupy.RawModule(code=(HERE / "units.cu").read_text(encoding="utf-8"), options=options, backend="nvrtc")
        cupy.cuda.profiler.start()
        for (name, ctas, threads, shared, _), _ in clusters(code):
            rows.append({"kernel": name, "told": f"ctas={ctas} threads={threads} shared={shared}", "times": TIMES})
        for name, told, args in copies(big):
            function = units.get_function(name)
            function.max_dynamic_shared_size_bytes = SHARED
            function((1,), (32,), (cupy.zeros((16, TURNS), cupy.uint32), *args), shared_mem=SHARED)
            cupy.cuda.Device().synchronize()
            rows.append({"kernel": name, "told": told, "times": 1})
        cupy.cuda.profiler.stop()
        named = "launched.csv"
    else:
        for part in (others, membars, between):
            bench = Steps()
            part(bench, big)
            _write(to / f"{part.__name__}.csv", bench.rows)
        for (name, ctas, threads, shared, _), found in clusters(code):
            for cta in range(ctas):
                for k in np.flatnonzero(found[:, cta].any(axis=0)):
                    told = f"ctas={ctas} threads={threads} shared={shared} cta={cta} clock={k}"
                    clocks = found[:, cta, k]
                    rows.append({"kernel": name, "told": told, "clocks": " ".join(map(str, clocks))})
        named = "clusters.csv"
    _write(to / named, rows)


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--counters" in sys.argv)
