"""A device for tests of the library: it notes what is asked of it, and its kernels are Python functions."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from gpuemu.programs.protocol import BASE, NOT_FOUND, Chip, Copy, DeviceError, Function, LaunchRequest, MemoryKind

ATTRIBUTES = {
    1: 1024, 2: 1024, 3: 1024, 4: 64, 5: 2**31 - 1, 6: 65535, 7: 65535, 8: 49152, 9: 65536, 10: 32, 11: 2**31 - 1,
    12: 65536, 14: 512, 16: 132, 30: 512, 31: 1, 33: 1, 38: 62914560, 39: 2048, 40: 3, 41: 1, 51: 32, 75: 9, 76: 0,
    81: 233472, 82: 65536, 83: 1, 89: 1, 95: 1, 97: 232448, 106: 32, 111: 1024, 115: 1, 120: 1,
}  # fmt: skip


SEVEN = bytes.fromhex("c7 41 0c 07 00 00 00 31 c0 c3")
"""mov dword ptr [rcx + 12], 7; xor eax, eax; ret"""


class FakeDevice:
    """Kernels: name → (sizes of the parameters, function of the device and the parameters' values).

    A kernel in `host_code` has a last parameter that this machine code fills in.
    """

    host_code: ClassVar[dict[str, bytes]] = {"fills": SEVEN}

    def __init__(self, heap: Any, kernels: dict[str, tuple[str, Callable[..., None]]]):
        self.heap = heap
        self.asked: list[tuple[Any, ...]] = []
        self.kernels_of_tests = kernels
        self.names: list[str] = []
        self.places: dict[int, tuple[int, int]] = {}
        self.variables: dict[str, tuple[int, int]] = {}
        self.fault = 0
        self.now_ms = 0.0
        self.recorded: dict[int, float] = {}
        self.text = b""

    def view(self, address: int, count: int, dtype: Any = np.int32) -> Any:
        start, offset = max((start, offset) for start, (offset, _) in self.places.items() if start <= address)
        place = offset + address - start
        return self.heap[place : place + count * np.dtype(dtype).itemsize].view(dtype)

    def chip(self) -> Chip:
        return Chip("Fake GPU", 1 << 30, bytes(range(16)), ATTRIBUTES)

    def allocate(self, address: int, size: int, heap_offset: int, kind: MemoryKind) -> None:
        self.asked.append(("allocate", size, kind))
        self.places[address] = heap_offset, size

    def free(self, address: int) -> None:
        self.asked.append(("free", self.places.pop(address)[1]))

    def copy(self, copy: Copy) -> None:
        self.asked.append(("copy", copy.size, copy.direction, copy.stream))

    def fill(self, to: int, to_span: int, size: int, stream: int) -> None:
        self.asked.append(("fill", size))

    def load(self, image: bytes) -> int:
        if b"unloadable" in image:
            raise DeviceError(209)
        self.asked.append(("load", len(image)))
        return 1

    def link(self, images: Sequence[bytes]) -> bytes:
        self.asked.append(("link", [len(image) for image in images]))
        return b"\x7fELF" + bytes(60)

    def unload(self, module: int) -> None:
        self.asked.append(("unload", module))

    def function(self, module: int, name: str) -> Function:
        for plain, (parameters, _) in self.kernels_of_tests.items():
            if plain in name:
                self.names.append(plain)
                at, places = 0, []
                for one in parameters:
                    size = struct.calcsize(one)
                    at = -(-at // size) * size
                    places.append((at, size))
                    at += size
                code = self.host_code.get(plain, b"")
                known = tuple(places[: len(places) - bool(code)])
                return Function(len(self.names), 16, 1024, 8, 0, 512, 90, 90, (0, 0, 0), known, at, code)
        raise DeviceError(NOT_FOUND)

    def kernels(self, module: int) -> list[str]:
        return list(self.kernels_of_tests)

    def variable(self, module: int, name: str, is_managed: bool = False) -> tuple[int, int]:
        if name not in self.variables:
            self.variables[name] = BASE + 4096 * (1 + len(self.variables)), 64
            self.places[self.variables[name][0]] = 4096 * len(self.variables), 64
        return self.variables[name]

    def launch(self, launch: LaunchRequest) -> None:
        name = self.names[launch.function - 1]
        self.asked.append(("launch", name, launch.grid, launch.block, launch.stream))
        parameters, work = self.kernels_of_tests[name]
        self.now_ms += 1.5
        work(self, *struct.unpack("@" + parameters, launch.arguments))

    def synchronize(self, stream: int) -> None:
        self.asked.append(("synchronize", stream))
        if self.fault:
            raise DeviceError(self.fault)

    def record(self, event: int, stream: int) -> None:
        self.recorded[event] = self.now_ms

    def wait(self, stream: int, event: int) -> None:
        self.asked.append(("wait", stream))

    def elapsed(self, first: int, second: int) -> float:
        return self.recorded[second] - self.recorded[first]

    def clock(self) -> int:
        return int(self.now_ms * 1e6)

    def occupancy(self, function: int, threads: int, dynamic_shared_bytes: int) -> int:
        return min(2048 // threads, 233472 // (1024 + 1024 + dynamic_shared_bytes))

    def clusters(self, function: int, block: Any, cluster: Any, dynamic_shared_bytes: int) -> int:
        return 132 // int(np.prod(cluster))

    def limit(self, which: int, value: int) -> None:
        self.asked.append(("limit", which, value))

    def printed(self) -> bytes:
        text, self.text = self.text, b""
        return text

    def close(self) -> None:
        pass


def build(folder: Path, source: str, *options: str, name: str = "program") -> Path:
    """An executable of a CUDA source by the plain command that users type."""
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed, and programs are built with it")
    file = folder / f"{name}.cu"
    file.write_text(source, encoding="utf-8")
    command = ["nvcc", "-arch=sm_90", *options, str(file), "-o", str(folder / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / name
