"""What the library in the program's process asks of gpuemu, and the `Device` that answers.

Each process of the program has a socket and a heap of its own. The heap is a file in memory that gpuemu and the process
both map; in the process it lies at the device's addresses, so that a device pointer is a valid host pointer. Copies
and fills are done by the process itself, in the heap, after gpuemu has answered the request: then every earlier launch
that reads or writes these bytes must have happened.

A request is its number and the length of its fields (two u32), then the fields. An answer is a status (a CUresult), the
length of what kernels printed and the length of the fields (three u32), the device's clock (u64), then both. Numbers
are little-endian; `text` and `bytes` are a u32 length and the content; `dim` is three u32. The C++ header is made from
this file (see `header`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

BASE = 0x7000_0000_0000
"""The device address of the heap's first byte. Nothing else of a process lies there on x86-64 Linux."""
HEAP_BYTES = 1 << 40
"""Nearly all of it is never touched, and takes no memory."""
DEVICE_BYTES = 1 << 36
"""The first part of the heap belongs to the `Device`: it places variables of modules there. The rest is for the
program's allocations, which the library in its process places."""
PAGE_BYTES = 1 << 21
"""Allocations start at multiples of it. A GPU maps whole pages, so accesses up to the end of the last page succeed."""


class Request(IntEnum):
    """Fields of the request → fields of the answer."""

    HELLO = 1  # u32 process → Chip: text name, u64 memory_bytes, bytes uuid, u32 count, count x (u32, i32) attributes
    ALLOCATE = 2  # u64 address, u64 bytes, u64 heap_offset, u32 MemoryKind →
    FREE = 3  # u64 address →
    COPY = 4  # u64 to, u64 to_span, u64 source, u64 source_span, u64 bytes, u32 Direction, u64 stream, u32 waits →
    FILL = 5  # u64 to, u64 to_span, u64 bytes, u64 stream →
    LOAD = 6  # bytes image → u32 module
    UNLOAD = 7  # u32 module →
    FUNCTION = 8  # u32 module, text name → Function: 11 x u32, u32 count, count x (u32 offset, u32 bytes)
    KERNELS = 9  # u32 module → u32 count, count x text
    VARIABLE = 10  # u32 module, text name → u64 address, u64 bytes
    LAUNCH = 11  # u32 function, dim grid, dim block, dim cluster, u32 shared, u32 cooperative, u64 stream, bytes →
    SYNCHRONIZE = 12  # u64 stream or ALL_STREAMS →
    RECORD = 13  # u64 event, u64 stream →
    WAIT = 14  # u64 stream, u64 event →
    ELAPSED = 15  # u64 first, u64 second → f32 milliseconds
    OCCUPANCY = 16  # u32 function, u32 threads, u32 dynamic_shared → u32 blocks
    CLUSTERS = 17  # u32 function, dim block, dim cluster, u32 dynamic_shared → u32 clusters
    LIMIT = 18  # u32 CUlimit, u64 value →
    REFUSED = 19  # text: the function that is not provided, and why → (the process ends)


ALL_STREAMS = (1 << 64) - 1
DEFAULT_STREAM = 0
"""The legacy default stream. A per-thread default stream has a number of its own, as created streams have."""


class MemoryKind(IntEnum):
    """Where the program asked for memory; all of it is in the heap, and kernels reach it at its address."""

    DEVICE = 1
    MANAGED = 2
    PINNED = 3
    REGISTERED = 4  # host memory whose pages the process has replaced by pages of the heap, at `heap_offset`


class Direction(IntEnum):
    """Which side of a copy is the host's. Managed memory counts as the device's, pinned memory as the host's."""

    HOST_TO_HOST = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3


class DeviceError(Exception):
    """An error that the program gets as a code (a CUresult: the same numbers as cudaError_t).

    FAULTS, what a kernel did, stay for the rest of the process: the library returns them from every later call. They
    may come late, from the first request that needs the launch to be done.
    """

    def __init__(self, code: int, text: str = ""):
        super().__init__(text or f"error {code}")
        self.code = code


INVALID_VALUE, OUT_OF_MEMORY, NO_IMAGE, INVALID_PTX, INVALID_IMAGE, NOT_FOUND = 1, 2, 209, 218, 200, 500
ILLEGAL_ADDRESS, TIMEOUT, ASSERT, STACK, ILLEGAL_INSTRUCTION, MISALIGNED, ADDRESS_SPACE, INVALID_PC, FAILED = (
    700, 702, 710, 714, 715, 716, 717, 718, 719,
)  # fmt: skip
FAULTS = frozenset((700, 702, *range(710, 720)))
COOPERATIVE_TOO_LARGE = 720


@dataclass(frozen=True)
class Chip:
    """What device queries find. `attributes`: CUdevice_attribute (the numbers of cudaDeviceAttr, too) → value."""

    name: str
    memory_bytes: int
    uuid: bytes
    attributes: dict[int, int]


@dataclass(frozen=True)
class Function:
    """A kernel, as `Device.function` finds it; sizes in bytes. `number` names it in a launch.

    `ptx_version` and `binary_version` are the compute capability times ten (90), of PTX as of machine code.
    `parameters`: offset and size of each. `cluster`: what __cluster_dims__ says, else zeros.
    """

    number: int
    registers: int
    static_shared_bytes: int
    constant_bytes: int
    local_bytes: int
    max_threads: int
    ptx_version: int
    binary_version: int
    cluster: tuple[int, int, int] = (0, 0, 0)
    parameters: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Launch:
    """A launch as the program asked for it. `arguments`: the bytes of all parameters, as Function.parameters says.

    The library has checked the configuration against the chip's limits and the kernel's. `cluster` is zeros where the
    launch does not say.
    """

    function: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    dynamic_shared_bytes: int
    is_cooperative: bool
    stream: int
    arguments: bytes = field(repr=False)


@dataclass(frozen=True)
class Copy:
    """A copy of `size` bytes, which the process does after the answer; the spans differ from it for rows with gaps.

    `waits`: the call returns when the copy is done, as cudaMemcpy does.
    """

    to: int
    to_span: int
    source: int
    source_span: int
    size: int
    direction: Direction
    stream: int
    waits: bool


class Device(Protocol):
    """The emulated GPU of one process. Every method may raise DeviceError.

    Work in one stream happens in order; `wait` orders streams by events; the legacy default stream waits for all others
    and they for it. The library sends operations in an order that respects this (a graph's, too, when it is launched),
    so a device may do each at once. It may also do work later, as long as no program can notice.
    """

    def chip(self) -> Chip: ...

    def allocate(self, address: int, size: int, heap_offset: int, kind: MemoryKind) -> None:
        """Bytes [address, address + size) are `heap[heap_offset:]` from now on; zero where they are new."""

    def free(self, address: int) -> None:
        """Work that uses the memory has to be done first; the process gives the pages back after the answer."""

    def copy(self, copy: Copy) -> None:
        """Work that the bytes depend on, or that depends on them, has to be done first."""

    def fill(self, to: int, to_span: int, size: int, stream: int) -> None:
        """As `copy`, for cudaMemset."""

    def load(self, image: bytes) -> int:
        """A module of a fat binary, a cubin or PTX (text with or without a NUL at its end); its number."""

    def unload(self, module: int) -> None: ...

    def function(self, module: int, name: str) -> Function:
        """Raises DeviceError(NOT_FOUND)."""

    def kernels(self, module: int) -> list[str]:
        """The names (symbols) of all kernels of a module."""

    def variable(self, module: int, name: str) -> tuple[int, int]:
        """Address and size of a __device__, __constant__ or __managed__ variable. Raises DeviceError(NOT_FOUND)."""

    def launch(self, launch: Launch) -> None: ...

    def synchronize(self, stream: int) -> None:
        """Everything in the stream (or in ALL_STREAMS) is done, and in the heap, when this returns."""

    def record(self, event: int, stream: int) -> None: ...

    def wait(self, stream: int, event: int) -> None: ...

    def elapsed(self, first: int, second: int) -> float:
        """Emulated milliseconds between two events that were recorded."""

    def clock(self) -> int:
        """Emulated nanoseconds that the program's host has waited for, asked for after each request: the program's own
        clocks advance by them.
        """

    def occupancy(self, function: int, threads: int, dynamic_shared_bytes: int) -> int:
        """CTAs that live on one SM at once."""

    def clusters(
        self, function: int, block: tuple[int, int, int], cluster: tuple[int, int, int], dynamic_shared_bytes: int
    ) -> int:
        """Clusters that live on the chip at once."""

    def limit(self, which: int, value: int) -> None:
        """cudaDeviceSetLimit: 0 the stack of a thread, 1 the buffer of printf, 2 the heap of malloc; in bytes."""

    def printed(self) -> bytes:
        """What kernels have printed since the last call; asked for after each request that waits."""

    def close(self) -> None:
        """The process has ended."""


class DeviceMaker(Protocol):
    """Makes the device of a process that has begun to use CUDA."""

    def __call__(self, process: int, heap: NDArray[np.uint8], file: int) -> Device:
        """`file` is the descriptor of the file that the heap is."""


def header() -> str:
    """The C++ header with the numbers of this file."""
    lines = ["#pragma once", "#include <cstdint>"]
    for name in ("BASE", "HEAP_BYTES", "DEVICE_BYTES", "PAGE_BYTES", "ALL_STREAMS", "DEFAULT_STREAM"):
        lines.append(f"constexpr uint64_t {name} = {globals()[name]:#x};")
    for kind in (Request, MemoryKind, Direction):
        values = ", ".join(f"{one.name} = {one.value}" for one in kind)
        lines.append(f"enum class {kind.__name__} : uint32_t {{ {values} }};")
    return "\n".join(lines) + "\n"
