"""CuPy as far as `measure` uses it, on the emulator: launches execute, and clocks count instructions."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import gpuemu

MULTIPROCESSORS = 1
__version__ = "0.0"


class _Kernel:
    def __init__(self, path: str, name: str):
        self.path, self.name = path, name
        self.max_dynamic_shared_size_bytes = 48 * 1024

    def __call__(self, grid: tuple[int], block: tuple[int], args: tuple[Any, ...], *, shared_mem: int) -> None:
        assert shared_mem <= self.max_dynamic_shared_size_bytes
        out, inputs, iterations = args
        waiting = inputs.copy()
        waiting[-1] = 0  # nobody's clock runs on while others wait
        gpuemu.trace_kernel(
            Path(self.path), kernel=self.name, grid=(grid[0], 1, 1), block=(block[0], 1, 1),
            dynamic_shared_bytes=shared_mem, args=[out, waiting, int(iterations)],
        )  # fmt: skip


class RawModule:
    def __init__(self, *, path: str):
        self.path = path

    def get_function(self, name: str) -> _Kernel:
        return _Kernel(self.path, name)


uint32 = np.uint32
zeros = np.zeros
asarray = np.asarray
asnumpy = np.array


class CUDARuntimeError(Exception):
    pass


class CUDADriverError(Exception):
    pass


def _properties(_: int) -> dict[str, Any]:
    return {"name": b"NVIDIA Fake 1", "major": 9, "minor": 0, "multiProcessorCount": MULTIPROCESSORS}


cuda = SimpleNamespace(
    Device=lambda: SimpleNamespace(id=0),
    driver=SimpleNamespace(CUDADriverError=CUDADriverError),
    runtime=SimpleNamespace(
        getDeviceCount=lambda: 1, getDeviceProperties=_properties, runtimeGetVersion=lambda: 13000,
        driverGetVersion=lambda: 13000, deviceSynchronize=lambda: None, CUDARuntimeError=CUDARuntimeError,
    ),
)  # fmt: skip
