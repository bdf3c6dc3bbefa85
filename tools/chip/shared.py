"""Launches the kernel of shared.cu for the profiler, which sees the third launch of three: see README.md. Needs CuPy.

ncu ... python tools/chip/shared.py shared.cubin
"""

from __future__ import annotations

import sys
from importlib import import_module
from itertools import product
from typing import Any

SMS, THREADS, BYTES = 132, 512, 1 << 17


def main(cubin: str) -> None:
    """Each three times, and a line that says what the profiler saw."""
    cupy: Any = import_module("cupy")
    kernel = cupy.RawModule(path=cubin).get_function("shared_stream")
    data, out = cupy.zeros(64 << 20, cupy.uint8), cupy.zeros(SMS * 4 * THREADS, cupy.float32)
    for resident, sharing, lag, meets in product((1, 2, 4), (1, 2, 4, 8), (0, 30, 60, 120, 250, 1000), (0, 1)):
        if sharing == 1 and (lag or meets):
            continue
        size = BYTES * sharing // resident
        for number in range(3):
            cupy.cuda.Device().synchronize()
            if number == 2:
                cupy.cuda.profiler.start()
            kernel((SMS * resident,), (THREADS,), (data, out, *map(cupy.int32, (sharing, size, lag, meets))))
            cupy.cuda.Device().synchronize()
        cupy.cuda.profiler.stop()
        print(resident, sharing, lag, meets, size, sep=",", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
