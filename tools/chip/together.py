"""Launches the kernel of together.cu as rows of h100/together.csv say, for the profiler: see README.md. Needs CuPy.

ncu ... python tools/chip/together.py together.cubin
"""

from __future__ import annotations

import csv
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

ROWS = Path(__file__).with_name("h100") / "together.csv"
LOADS = ("ldg", "ldg_ahead", "copy", "copy_ahead")
SMS, THREADS = 132, 128
SHARED = {1: 180, 2: 100, 4: 50}
"""KiB, so that so many CTAs have a place on an SM."""


def main(cubin: str) -> None:
    """Each three times; the profiler sees the last."""
    cupy: Any = import_module("cupy")
    kernel = cupy.RawModule(path=cubin).get_function("together")
    kernel.max_dynamic_shared_size_bytes = 1024 * SHARED[1]
    with ROWS.open(newline="", encoding="utf-8") as file:
        rows = [{k: v if k == "load" else int(v) for k, v in row.items()} for row in csv.DictReader(file)]
    data, out = cupy.zeros(900 << 20, cupy.uint8), cupy.zeros(SMS * THREADS * 32, cupy.float32)
    for row in rows:
        ctas = SMS * row["resident"] * row["rounds"]
        apart = row["turns"] * row["each"] * 2048 if row["bytes"] == 128 else THREADS * 16 // row["bytes"] * 4096
        numbers = (
            LOADS.index(row["load"]),
            *(row[n] for n in ("turns", "each", "mixed", "sharing", "bytes", "pitch", "compute")),
        )
        for number in range(3):
            cupy.cuda.Device().synchronize()
            if number == 2:
                cupy.cuda.profiler.start()
            kernel(
                (ctas,), (THREADS,), (data, out, *map(cupy.int32, numbers), cupy.int64(apart)),
                shared_mem=1024 * SHARED[row["resident"]],
            )  # fmt: skip
            cupy.cuda.Device().synchronize()
        cupy.cuda.profiler.stop()


if __name__ == "__main__":
    main(sys.argv[1])
