"""The requests of the library in the program's process, and the `Device` that answers them.

Each process of the program has a socket and a heap of its own. The heap is a file in memory that gpuemu and the process
both map. The process maps it at the device's addresses, so that a device pointer is a valid host pointer. The process
does copies and fills itself, after gpuemu has answered the request. By then, gpuemu must have executed every earlier
launch that reads or writes these bytes.

A request is its number and the length of its fields (two u32), then the fields. An answer is a status (a CUresult), the
length of what kernels printed and the length of the fields (three u32), the device's clock (u64), then both. Numbers
are little-endian; `text` and `bytes` are a u32 length and the content; `dim` is three u32. The C++ header is made from
this file (see `header`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

BASE = 0x7000_0000_0000
"""The device address of the heap's first byte. x86-64 Linux places nothing else of a process there."""
HEAP_BYTES = 1 << 40
"""Untouched parts take no memory."""
DEVICE_BYTES = 1 << 36
"""The `Device` places variables of modules in this first part of the heap. The library in the process places the
program's allocations in the rest."""
PAGE_BYTES = 1 << 21
"""Allocations start at multiples of this size. A GPU maps whole pages, so accesses within the last page succeed."""


class Request(IntEnum):
    """Fields of the request → fields of the answer."""

    HELLO = 1  # u32 process → Chip: text name, u64 memory_bytes, bytes uuid, u32 count, count x (u32, i32) attributes
    ALLOCATE = 2  # u64 address, u64 bytes, u64 heap_offset, u32 MemoryKind →
    FREE = 3  # u64 address →
    COPY = 4  # u64 to, u64 to_span, u64 source, u64 source_span, u64 bytes, u32 Direction, u64 stream, u32 waits →
    FILL = 5  # u64 to, u64 to_span, u64 bytes, u64 stream →
    LOAD = 6  # bytes image → u32 module
    UNLOAD = 7  # u32 module →
    FUNCTION = 8  # u32 module, text name → Function: 12 x u32, u32 count, count x (u32 offset, u32 bytes), bytes code
    KERNELS = 9  # u32 module → u32 count, count x text
    VARIABLE = 10  # u32 module, text name, u32 is_managed → u64 address, u64 bytes
    LAUNCH = 11  # u32 function, dim grid, dim block, dim cluster, u32 shared, u32 cooperative, u64 stream, bytes →
    SYNCHRONIZE = 12  # u64 stream or ALL_STREAMS →
    RECORD = 13  # u64 event, u64 stream →
    WAIT = 14  # u64 stream, u64 event →
    ELAPSED = 15  # u64 first, u64 second → f32 milliseconds
    OCCUPANCY = 16  # u32 function, u32 threads, u32 dynamic_shared → u32 blocks
    CLUSTERS = 17  # u32 function, dim block, dim cluster, u32 dynamic_shared → u32 clusters
    LIMIT = 18  # u32 CUlimit, u64 value →
    REFUSED = 19  # text: the function that is not provided, and why → (the process ends)
    LINK = 20  # u32 count, count x bytes image → bytes cubin


ALL_STREAMS = (1 << 64) - 1
DEFAULT_STREAM = 0
"""The legacy default stream. A per-thread default stream has a number of its own, as created streams have."""


class MemoryKind(IntEnum):
    """The kind of memory that the program asked for. All of it is in the heap, and kernels reach it at its address."""

    DEVICE = 1
    MANAGED = 2
    PINNED = 3
    REGISTERED = 4  # host memory whose pages the process has replaced by pages of the heap, at `heap_offset`


class Direction(IntEnum):
    """The sides of a copy. Managed memory counts as the device's, and pinned memory as the host's."""

    HOST_TO_HOST = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3


class DeviceError(Exception):
    """An error code for the program. CUresult and cudaError_t have the same numbers.

    FAULTS are errors of kernels. They stay for the rest of the process, and the library returns them from every later
    call. A fault may come late, from the first request that needs the launch.
    """

    def __init__(self, code: int, text: str = ""):
        super().__init__(text or f"error {code}")
        self.code = code


INVALID_VALUE, OUT_OF_MEMORY, NO_IMAGE, INVALID_PTX, INVALID_IMAGE, NOT_FOUND = 1, 2, 209, 218, 200, 500
NOT_SUPPORTED = 801
ILLEGAL_ADDRESS, TIMEOUT, ASSERT, STACK, ILLEGAL_INSTRUCTION, MISALIGNED, ADDRESS_SPACE, INVALID_PC, FAILED = (
    700, 702, 710, 714, 715, 716, 717, 718, 719,
)  # fmt: skip
FAULTS = frozenset((700, 702, *range(710, 720)))


@dataclass(frozen=True)
class Chip:
    """The answers to device queries. `attributes` maps numbers of CUdevice_attribute (and cudaDeviceAttr) to values."""

    name: str
    memory_bytes: int
    uuid: bytes
    attributes: dict[int, int]


@dataclass(frozen=True)
class Function:
    """The attributes of a kernel, with sizes in bytes. `number` identifies the kernel in a launch.

    `ptx_version` and `binary_version` are the compute capability times ten (90), of PTX as of machine code.
    `parameters`: offset and size of each that the program sets. `cluster`: the sizes of __cluster_dims__, or zeros.
    `host_code` fills in further parameters, up to `parameter_bytes` (0: there are none). See sass/image/host_code.py.
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
    parameter_bytes: int = 0
    host_code: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class LaunchRequest:
    """A launch of the program. `arguments`: the bytes of all parameters in the layout of Function.parameters.

    The library has checked the configuration against the limits of chip and kernel. `cluster` is zeros if the launch
    sets none.
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
    """A copy of `size` bytes, which the process does after the answer. The spans are larger if rows have gaps.

    `waits`: the call returns after the copy, as cudaMemcpy does.
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

    Work in one stream happens in order, and `wait` orders streams by events. The legacy default stream waits for all
    others, and they wait for it. The library sends operations, also those of graphs, in an order that respects this. A
    device may do each operation immediately, or later if no program can notice.
    """

    def chip(self) -> Chip: ...

    def allocate(self, address: int, size: int, heap_offset: int, kind: MemoryKind) -> None:
        """Bytes [address, address + size) are now `heap[heap_offset:]`. New bytes are zero."""

    def free(self, address: int) -> None:
        """Finish the work that uses the memory. The process frees the pages after the answer."""

    def copy(self, copy: Copy) -> None:
        """Finish the work that the bytes depend on, and the work that depends on them."""

    def fill(self, to: int, to_span: int, size: int, stream: int) -> None:
        """Like `copy`, for cudaMemset."""

    def load(self, image: bytes) -> int:
        """Load a fat binary, a cubin or PTX (text with or without a final NUL), and return the module's number."""

    def unload(self, module: int) -> None: ...

    def link(self, images: Sequence[bytes]) -> bytes:
        """One cubin of several images (cuLinkComplete)."""

    def function(self, module: int, name: str) -> Function:
        """Raises DeviceError(NOT_FOUND)."""

    def kernels(self, module: int) -> list[str]:
        """The names (symbols) of all kernels of a module."""

    def variable(self, module: int, name: str, is_managed: bool = False) -> tuple[int, int]:
        """Address and size of a __device__, __constant__ or __managed__ variable. Raises DeviceError(NOT_FOUND).

        `is_managed`: the host reads and writes it without a call, as it does managed memory.
        """

    def launch(self, launch: LaunchRequest) -> None: ...

    def synchronize(self, stream: int) -> None:
        """Finish all work of the stream, or of ALL_STREAMS. Its results are then in the heap."""

    def record(self, event: int, stream: int) -> None: ...

    def wait(self, stream: int, event: int) -> None: ...

    def elapsed(self, first: int, second: int) -> float:
        """Emulated milliseconds between two events that were recorded."""

    def clock(self) -> int:
        """The emulated nanoseconds of the host. The server asks after each request, and the program's clocks follow."""

    def occupancy(self, function: int, threads: int, dynamic_shared_bytes: int) -> int:
        """The number of resident CTAs per SM."""

    def clusters(
        self, function: int, block: tuple[int, int, int], cluster: tuple[int, int, int], dynamic_shared_bytes: int
    ) -> int:
        """The number of resident clusters on the chip."""

    def limit(self, which: int, value: int) -> None:
        """cudaDeviceSetLimit. The limits are in bytes: 0 stack per thread, 1 printf buffer, 2 malloc heap."""

    def printed(self) -> bytes:
        """The text that kernels have printed since the last call. The server asks after each request that waits."""

    def close(self) -> None:
        """The process has ended."""


class DeviceMaker(Protocol):
    """Makes the device of a process when the process begins to use CUDA."""

    def __call__(self, process: int, heap: NDArray[np.uint8], file: int) -> Device:
        """`file` is the descriptor of the heap's file."""


def header() -> str:
    """The C++ header with the numbers of this file."""
    lines = ["#pragma once", "#include <cstdint>"]
    for name in ("BASE", "HEAP_BYTES", "DEVICE_BYTES", "PAGE_BYTES", "ALL_STREAMS", "DEFAULT_STREAM"):
        lines.append(f"constexpr uint64_t {name} = {globals()[name]:#x};")
    for kind in (Request, MemoryKind, Direction):
        values = ", ".join(f"{one.name} = {one.value}" for one in kind)
        lines.append(f"enum class {kind.__name__} : uint32_t {{ {values} }};")
    return "\n".join(lines) + "\n"
