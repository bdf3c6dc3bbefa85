"""A program in Python that does with a device what the library in a process does."""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpuemu
from gpuemu.programs.device import EmulatedDevice, Maker
from gpuemu.programs.journal import Journal, LaunchRecord
from gpuemu.programs.protocol import (
    BASE,
    DEVICE_BYTES,
    PAGE_BYTES,
    Copy,
    Direction,
    Function,
    LaunchRequest,
    MemoryKind,
)
from gpuemu.programs.settings import Settings
from gpuemu.sass.tools.toolchain import compile_cuda

MEBIBYTE = 1 << 20
NO_RESERVE = 0x4000
"""MAP_NORESERVE, which Python's mmap has no name for."""
SOURCE = Path(__file__).with_name("kernels.cu")


def new_heap(more: int = 64 * MEBIBYTE) -> tuple[NDArray[np.uint8], int]:
    """A heap, and its file, which begins with the device's own part. Next to nothing of it is there."""
    file = os.memfd_create("heap")
    os.ftruncate(file, DEVICE_BYTES + more)
    return np.frombuffer(mmap.mmap(file, DEVICE_BYTES + more, flags=mmap.MAP_SHARED | NO_RESERVE), np.uint8), file


class Program:
    """A process on an emulated device: memory, copies and launches by names."""

    def __init__(self, cubin: bytes, arch: str = "sm_90", **settings: Any):
        self.heap, file = new_heap()
        self.maker = Maker(Settings(gpuemu.load_arch(arch), **settings))
        self.device: EmulatedDevice = self.maker(1, self.heap, file)
        self.module = self.device.load(cubin)
        self._next = DEVICE_BYTES

    @property
    def journal(self) -> Journal:
        return self.maker.journal

    @property
    def launches(self) -> list[LaunchRecord]:
        return self.journal.launches

    def allocate(self, values: Any, kind: MemoryKind = MemoryKind.DEVICE) -> int:
        """Memory with these values, copied there."""
        data = np.asarray(values)
        address = BASE + self._next
        self.device.allocate(address, data.nbytes, self._next, kind)
        self._next += -(-data.nbytes // PAGE_BYTES) * PAGE_BYTES
        self.write(address, data)
        return address

    def write(self, address: int, values: Any) -> None:
        data = np.asarray(values)
        self.device.copy(Copy(address, data.nbytes, 64, data.nbytes, data.nbytes, Direction.HOST_TO_DEVICE, 0, True))
        self.host(address, data.dtype, data.size)[:] = data.reshape(-1)

    def read(self, address: int, kind: Any, count: int) -> NDArray[Any]:
        size = count * np.dtype(kind).itemsize
        self.device.copy(Copy(64, size, address, size, size, Direction.DEVICE_TO_HOST, 0, True))
        return self.host(address, kind, count).copy()

    def host(self, address: int, kind: Any, count: int) -> NDArray[Any]:
        """The bytes as they are, without a call."""
        size = count * np.dtype(kind).itemsize
        return self.heap[address - BASE : address - BASE + size].view(kind)

    def function(self, name: str) -> Function:
        (symbol,) = [one for one in self.device.kernels(self.module) if one == name]
        return self.device.function(self.module, symbol)

    def launch(
        self, name: str, grid: int, block: int, form: str, *values: Any, shared: int = 0, stream: int = 0
    ) -> None:
        """`form`: the parameters as `struct` has them."""
        self.device.launch(
            LaunchRequest(
                self.function(name).number, (grid, 1, 1), (block, 1, 1), (0, 0, 0), shared, False, stream,
                struct.pack(f"@{form}", *values),
            )
        )  # fmt: skip


def compiled(arch: str = "sm_90") -> bytes:
    return compile_cuda(SOURCE, arch, "nvrtc")
