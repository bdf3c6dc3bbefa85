"""The memory of a launch: buffers in global memory, a CTA's shared memory, its lanes' local memory.

Generic addresses (LD, ST, ATOM, QSPC) reach all three. The two windows below select the CTA's shared memory and the
lane's own local memory; everything else is global. Compiled code finds the windows as follows:
- sm_75 to sm_89: the 64 bits at c[0x0][0x18] are SHARED_WINDOW. Code extracts the shared address from the low 24 bits
  of a generic one, so these bits of the window's start must be 0.
- sm_90: SR_SWINHI is SHARED_WINDOW >> 32. Code places it above a 32-bit shared address, so the window's low 32 bits
  must be 0.
- All: the 64 bits at c[0x0][0x20] are LOCAL_WINDOW. c[0x0][0x28] is the initial stack pointer, the bytes of local
  memory of a lane, because the stack grows down to 0. Addresses from CONSTANT_WINDOW on are constants.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.errors import GpuemuError
from gpuemu.sass.machine.lanes import Lanes

if TYPE_CHECKING:
    from gpuemu.sass.machine.recording.patterns import Place
    from gpuemu.sass.machine.scheduling.cluster_state import Cluster

GLOBAL_START = 0x7F00_0000_0000
"""The address of the first buffer."""
BUFFER_ALIGNMENT = 1 << 21
"""Every buffer starts at a multiple of this, so the low digits of an address are its offset in the buffer."""
BUFFER_GAP = 1 << 16
"""Minimum number of bytes between two buffers that belong to neither."""
LOCAL_WINDOW = 0x7FFC_0000_0000
SHARED_WINDOW = 0x7FFE_0000_0000
CONSTANT_WINDOW = 0x7FFF_0000_0000
"""Generic address of the constant bank of `__constant__` variables."""
PARAMETER_WINDOW = 0x7FFF_8000_0000
"""Generic address of the kernel's parameters, which tensor maps use."""
WINDOW_BYTES = 1 << 24
"""Length of the shared window and of the local one."""
_MOST_PLACES = 1 << 14
_ALLOCATOR = 64
"""Byte of shared memory from which code keeps its words about tensor memory."""
WRITTEN = 0xFF
"""Shadow value of a byte of shared memory that has been written."""

Views = dict[int, NDArray[Any]]
"""One piece of memory as arrays of its units of 1, 2, 4, 8, 16 and 32 bytes; a partial last unit is omitted."""
UNITS: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
    16: np.dtype("V16"),
    32: np.dtype("V32"),
}


def views(data: NDArray[np.uint8]) -> Views:
    """Return the views of a one-dimensional array of bytes."""
    return {size: data[: len(data) // size * size].view(unit) for size, unit in UNITS.items()}


def buffer_start(end: int | None) -> int:
    """Return the address of a buffer after one that ends before `end`, or of the first."""
    if end is None:
        return GLOBAL_START
    return -(-(end + BUFFER_GAP) // BUFFER_ALIGNMENT) * BUFFER_ALIGNMENT


class Buffer:
    """A piece of global memory that starts at `start`; `name` is its name in messages.

    `is_read`: whether a lane has loaded, copied or atomically changed bytes of it. Plain stores do not count.
    """

    def __init__(self, name: str, start: int, data: NDArray[np.uint8]):
        self.is_read = False
        self.name = name
        self.start = start
        self.bytes = len(data)
        self.views = views(data)


@dataclass(frozen=True)
class Device:
    """Data that a program keeps on the device from launch to launch, changed in place by its kernels.

    `arrays`: bytes by their device addresses, for pointers in byte arguments and in memory. Arrays that are arguments
    have addresses from `GLOBAL_START` on. `sections`: variables and constants of the module, by the section's name in
    the cubin.
    """

    arrays: Mapping[int, NDArray[np.uint8]] = field(default_factory=dict)
    sections: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)

    def copy(self) -> Device:
        """Return the same contents in new memory. A section that is in one of the arrays is in its copy."""
        arrays = {start: array.copy() for start, array in self.arrays.items()}
        copies = {array.ctypes.data: arrays[start] for start, array in self.arrays.items()}
        sections = {
            name: copies[data.ctypes.data][: len(data)] if data.ctypes.data in copies else data.copy()
            for name, data in self.sections.items()
        }
        return Device(arrays, sections)


class Memory:
    """All memory of a launch; shared and local memory are those of the CTA that executes.

    `shared_base` is the shared address of the CTA's first byte of shared memory (0x400 on sm_90, whose first bytes the
    driver reserves). Local memory is zero in a new CTA. Shared memory counts as unwritten, or with `zero_shared` as
    zero, and so do the bytes in `system_wrote`. `noise`: the seed of the random bits in unwritten shared memory, or
    None for zeros.
    """

    def __init__(
        self,
        shared_bytes: int,
        shared_base: int,
        local_bytes_per_lane: int,
        lanes: Lanes,
        zero_shared: bool = False,
        system_wrote: slice = slice(0),
        spread: int = 0,
        noise: int | None = None,
        allocates_tensors: bool = False,
    ):
        self._unwritten: Any = 0
        if noise is not None:
            self._unwritten = np.random.default_rng(noise).integers(0, 256, shared_bytes, np.uint8)
        self.shared_bytes = shared_bytes
        self.shared_base = shared_base
        self.local_bytes = local_bytes_per_lane
        self.buffers: list[Buffer] = []
        self.shared = views(np.zeros(shared_bytes, dtype=np.uint8))
        self.written = views(np.zeros(shared_bytes, dtype=np.uint8))
        # A lane's frame is padded to a multiple of the widest unit, so that no unit of a view crosses two frames. The
        # multiple is odd, because a variable of many lanes at power-of-two distances would have few sets of a cache.
        self.local_pitch = (-(-local_bytes_per_lane // 16) | 1) * 16
        self.local = views(np.zeros(self.local_pitch * lanes.count, dtype=np.uint8))
        self.zero_shared = zero_shared
        self.cluster: Cluster | None = None
        """The cluster of the CTA, if clusters have several CTAs."""
        self.rank = 0
        self.tensor: dict[int, Any] = {}
        """The CTA's tensor memory under its rank, 0, once it has used any; those of a cluster are in its state."""
        self._spread = spread
        self.system_wrote = system_wrote
        self._allocates_tensors = allocates_tensors
        self.all_written = zero_shared or shared_bytes == 0
        """Whether every byte of shared memory is known to be written, so that reads need no check."""
        self.places_written: set[tuple[int, int, tuple[bytes, bytes]]] = set()
        """Accesses whose bytes are known to be written; see note_written."""
        self._noted = 0

    @property
    def reserved(self) -> int:
        """Bytes before the arrays, which the system reserves, and in which code keeps its words about tensor memory."""
        return int(self.system_wrote.stop) if self._allocates_tensors else 0

    def new_cta(self) -> None:
        """Clear the previous CTA's shared and local memory."""
        self.shared[1][:] = self._unwritten
        self.written[1][:] = 0
        self.written[1][self.system_wrote] = WRITTEN
        self.local[1][:] = 0
        self.forget_written()

    def start_tensor_memory(self) -> None:
        """Begin a CTA without tensor memory, and with the words that the code of tcgen05.alloc expects.

        They are in shared memory that the system reserves, from byte 64 on: at 8 an mbarrier for one arrival, by which
        two CTAs take turns; at 16 the parity that the CTA waits for first, which is over for the first of them. CTAs of
        a pair change these words before they know that the other has begun, so they exist before it begins.
        """
        self.tensor = {}
        if not self._allocates_tensors:
            return
        others = {} if self.cluster is None else self.cluster.shared
        changed = others.pop(self.rank, None)
        if changed is None:
            self._write_allocator(self.shared, self.rank)
        else:
            self.shared[1][:], self.written[1][:] = changed[0][1], changed[1][1]
        for rank in () if self.cluster is None else range(len(self.cluster.numbers)):
            if rank not in self.cluster.begun and rank not in others:  # type: ignore[union-attr]
                shared, written = (views(np.zeros(self.shared_bytes, np.uint8)) for _ in range(2))
                self._write_allocator(shared, rank)
                written[1][self.system_wrote] = WRITTEN
                others[rank] = shared, written

    def _write_allocator(self, shared: Views, rank: int) -> None:
        one = -1 & (1 << 20) - 1
        shared[1][self.system_wrote] = 0
        shared[8][(_ALLOCATOR + 8) // 8] = one << 1 | one << 43
        shared[4][(_ALLOCATOR + 16) // 4] = 1 - rank % 2

    def forget_written(self) -> None:
        """Forget which bytes of shared memory are written, because it is that of a new CTA."""
        self.all_written = self.zero_shared or self.shared_bytes == 0
        self.places_written.clear()
        self._noted = 0

    def put_away(self) -> tuple[Any, ...]:
        """Return a CTA's shared and local memory for `bring_back`; others of its cluster still use the shared one."""
        local = self.local[1].copy() if self.local[1].any() else None
        shared, written = self.shared[1].copy(), self.written[1].copy()
        if self.cluster is not None:
            self.cluster.shared[self.rank] = views(shared), views(written)
        places = self.places_written.copy()
        return shared, written, local, self.all_written, places, self.cluster, self.rank, self.tensor

    def bring_back(self, kept: tuple[Any, ...]) -> None:
        """Restore the shared and local memory of a CTA from `put_away`."""
        shared, written, local, self.all_written, places, self.cluster, self.rank, self.tensor = kept
        if self.cluster is not None:
            del self.cluster.shared[self.rank]
        self.shared[1][:] = shared
        self.written[1][:] = written
        self.local[1][:] = 0 if local is None else local
        self.places_written = set(places)

    def belongs(self, place: Place, plain: bool) -> tuple[Place, int | None]:
        """Convert addresses relative to the first CTA's shared memory to those of the CTA that owns the memory.

        The second result is the rank of that CTA if it is another one. In `plain` addresses, those of LDS and STS, rank
        0 means the CTA itself.
        """
        rank = (place.base + place.pattern.low + self.shared_base & 0xFFFFFFFF) // WINDOW_BYTES
        own = rank == self.rank or (plain and rank == 0)
        return place.moved(-rank * WINDOW_BYTES), None if own else rank

    def add_buffer(self, name: str, array: NDArray[Any], fixed: bool = False) -> int:
        """Give an array a device address, and return it. The kernel's stores modify the array itself.

        Addresses depend only on the sizes of the buffers added before. Buffers that are not `fixed` are further apart
        by the memory's `spread`, in alignments. Raises GpuemuError for an array that the kernel could not write in
        place.
        """
        if not isinstance(array, np.ndarray):
            raise _refused(name, f"a {type(array).__name__}", "expected a NumPy array")
        if array.dtype.hasobject:
            raise _refused(name, "an array of Python objects", "expected an array of numbers")
        if not array.flags.c_contiguous:
            raise _refused(
                name,
                "an array that is not C-contiguous",
                "Pass it through np.ascontiguousarray(...)",
            )
        if not array.flags.writeable:
            raise _refused(name, "a read-only array", "Pass a writable one, because a kernel may store to it")
        data = array.reshape(-1).view(np.uint8) if array.size else np.zeros(0, dtype=np.uint8)
        ordinary = [buffer for buffer in self.buffers if buffer.start < LOCAL_WINDOW]
        start = buffer_start(ordinary[-1].start + ordinary[-1].bytes if ordinary else None)
        if not fixed:
            start += self._spread * (len(ordinary) + 1) * BUFFER_ALIGNMENT
        if start + len(data) > LOCAL_WINDOW:
            raise _refused(name, f"{len(data)} bytes", "expected at most 1 TB for all buffers")
        self.buffers.insert(len(ordinary), Buffer(name, start, data))
        return start

    def add_at(self, address: int, array: NDArray[np.uint8]) -> None:
        """Give an array a known device address, before the buffers with addresses from here."""
        number = bisect([buffer.start for buffer in self.buffers], address)
        self.buffers.insert(number, Buffer(f"the memory at {address:#x}", address, array))

    def place(self, name: str, array: NDArray[np.uint8]) -> int:
        """Return the device address of an array, and make it a buffer if it is not one yet."""
        start = array.__array_interface__["data"][0]
        for buffer in self.buffers:
            if buffer.bytes == len(array) > 0 and buffer.views[1].__array_interface__["data"][0] == start:
                return buffer.start
        return self.add_buffer(name, array)

    def note_written(self, place: tuple[int, int, tuple[bytes, bytes]]) -> None:
        """Note that all bytes of an access, given by its base, size and pattern, are written: no further check."""
        if len(self.places_written) >= _MOST_PLACES:
            self.places_written.clear()
        self.places_written.add(place)
        self._noted += 1
        if self._noted % 64 == 0:  # this costs more than some of the checks that it saves
            self.all_written = bool(self.written[1].min() == WRITTEN)

    def add_constants(self, data: NDArray[np.uint8]) -> None:
        """Give `__constant__` variables their generic address, after all other memory, as code compares with it."""
        self.buffers.append(Buffer("the constant variables", CONSTANT_WINDOW, data))

    def add_parameters(self, data: NDArray[np.uint8]) -> None:
        """Give the kernel's parameters their generic address, after all other memory."""
        self.buffers.append(Buffer("the parameters", PARAMETER_WINDOW, data))


def _refused(name: str, found: str, right: str) -> GpuemuError:
    return GpuemuError.one("launch", None, name, found, right)
