"""Launches every kernel on this machine's GPU, for the profiler to count: see README.md. Needs CuPy, cuda.bindings.

ncu ... python -m validation.hopper.measure kernels.cubin 9               # nine launches of each are profiled
python -m validation.hopper.measure kernels.cubin 0 results.csv           # a digest of what each computes
"""

from __future__ import annotations

import csv
import ctypes
import hashlib
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from validation.hopper.launches import Array, Tiles, launches

_TYPES = {"f16": "FLOAT16", "h16": "FLOAT16", "bf16": "BFLOAT16", "tf32": "FLOAT32", "f32": "FLOAT32"}
BEFORE = 1


def tensor_map(driver: Any, tiles: Tiles, pointer: int) -> bytes:
    """The 128 bytes of a map."""
    array, each = tiles.array, tiles.array.make().itemsize
    d, kind = driver, _TYPES.get(array.kind, "UINT8")
    swizzle = f"{tiles.swizzle}B" if tiles.swizzle else "NONE"
    error, made = d.cuTensorMapEncodeTiled(
        getattr(d.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{kind}"), 2, pointer,
        [d.cuuint64_t(array.columns), d.cuuint64_t(array.rows)], [d.cuuint64_t(array.columns * each)],
        [d.cuuint32_t(tiles.bytes // each), d.cuuint32_t(tiles.rows)], [d.cuuint32_t(1)] * 2,
        d.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(d.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
        d.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
        d.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )  # fmt: skip
    if error != d.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{error} for {tiles}")
    return np.array([int(word) for word in made.opaque], np.uint64).tobytes()


def main(cubin: str, profiled: int, results: str = "") -> None:
    """Launch all; the profiler sees `profiled` of each."""
    cupy: Any = import_module("cupy")
    driver: Any = import_module("cuda.bindings.driver")
    cupy.zeros(1)
    error, module = driver.cuModuleLoadData(Path(cubin).read_bytes())
    found = []
    for launch in launches():
        error, function = driver.cuModuleGetFunction(module, launch.name.encode())
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        driver.cuFuncSetAttribute(function, attribute, launch.shared)
        buffers: dict[Array, Any] = {}
        given: list[Any] = []
        for argument in launch.args:
            array = argument.array if isinstance(argument, Tiles) else argument
            if isinstance(array, Array) and array not in buffers:
                buffers[array] = cupy.asarray(array.make())
            if isinstance(argument, Tiles):
                map_at = cupy.cuda.alloc_pinned_memory(256)  # aligned
                data = tensor_map(driver, argument, buffers[argument.array].data.ptr)
                ctypes.memmove(map_at.ptr, data, len(data))
                given.append((map_at, map_at.ptr))
            else:
                word = ctypes.c_uint64(buffers[argument].data.ptr if isinstance(argument, Array) else argument)
                given.append((word, ctypes.addressof(word)))
        pointers = (ctypes.c_uint64 * len(given))(*[at for _, at in given])
        for number in range(BEFORE + profiled):
            if number == BEFORE:
                cupy.cuda.profiler.start()
            error = driver.cuLaunchKernel(
                function, launch.ctas, 1, 1, launch.threads, 1, 1, launch.shared, 0, ctypes.addressof(pointers), 0
            )[0]
            if error != driver.CUresult.CUDA_SUCCESS:
                raise RuntimeError(f"{error} at {launch.name}")
            cupy.cuda.Device().synchronize()
            if number == 0:
                outs = [cupy.asnumpy(b) for a, b in buffers.items() if a.zeros]
                digest = hashlib.sha256(b"".join(out.tobytes() for out in outs)).hexdigest()[:16]
                some = float(np.abs(outs[0].reshape(-1).view(f"u{outs[0].itemsize}") != 0).mean())
                found.append((launch.name, digest, round(some, 3)))
        if profiled:
            cupy.cuda.profiler.stop()
    if results:
        with Path(results).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([("name", "digest", "not_zero"), *found])
    print(len(found), "launches")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
