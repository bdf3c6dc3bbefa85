"""The driver's functions that compiled code calls: printf, assert, malloc and free.

A call is `CALL.ABS` to an address without code. Arguments are in registers from R4 on, 64-bit ones in even pairs. R20
and R21 contain the return address, and the result goes to R4 and R5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.device_printf import FormatError, parse_format
from gpuemu.sass.machine.environment import Environment, ExecutionError
from gpuemu.sass.machine.memory.storage import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES, Memory
from gpuemu.sass.machine.operands import Site

HEAP_BYTES = 8 << 20
"""Total bytes that malloc may allocate: the driver's default (cudaLimitMallocHeapSize)."""
HEAP = "the heap"
HEAP_ALIGNMENT = 16
_LEAST_GAP, _MOST_GAP = 64, 2048
"""Unused bytes after a block, which detect an access past its end: as many as the block has, within these limits."""
_WITH_GAPS = (HEAP_ALIGNMENT + _LEAST_GAP) // HEAP_ALIGNMENT
"""Factor by which gaps increase the size of the smallest blocks."""
_RETURN_ADDRESS = 20
_MOST_STRING_BYTES = 1 << 16


def add_heap(memory: Memory, codeless: Mapping[int, str]) -> None:
    """Give a launch whose code calls malloc a heap, after its other buffers."""
    if "malloc" in codeless.values():
        memory.add_buffer(HEAP, np.zeros(_WITH_GAPS * HEAP_BYTES, dtype=np.uint8))


class SystemCalls:
    """The driver's functions for one launch; the heap persists over all of its CTAs."""

    def __init__(self, environment: Environment):
        self._environment = environment
        self._registers = environment.lanes.registers
        self._heap_used = 0
        self._heap_end = 0
        self._blocks: dict[int, int] = {}
        self._freed: dict[int, list[int]] = {}
        self._functions: dict[str, Callable[[Site, int], None]] = {
            "vprintf": self._print,
            "__assertfail": self._assert,
            "malloc": self._allocate,
            "free": self._free,
        }

    def call(self, name: str, site: Site, lanes: NDArray[np.bool_]) -> NDArray[np.uint64]:
        """Call the function for each of `lanes`, in order; return the return addresses of all lanes.

        Raises ExecutionError for a failed assertion and for invalid arguments of the function.
        """
        function = self._functions.get(name)
        if function is None:
            raise site.unsupported(f"a call of {name}, which has no code in this cubin")
        for lane in np.flatnonzero(lanes).tolist():
            function(site, lane)
        low, high = (self._registers[_RETURN_ADDRESS + k].astype(np.uint64) for k in (0, 1))
        return np.asarray(low | high << np.uint64(32))

    # -- arguments and memory -------------------------------------------------------------------------------

    def _word(self, register: int, lane: int) -> int:
        return int(self._registers[register, lane])

    def _pair(self, register: int, lane: int) -> int:
        return self._word(register, lane) | self._word(register + 1, lane) << 32

    def _return(self, value: int, lane: int, words: int) -> None:
        for k in range(words):
            self._registers[4 + k, lane] = np.uint32(value >> 32 * k & 0xFFFFFFFF)

    def _bytes(self, site: Site, address: int, lane: int) -> NDArray[np.uint8]:
        """Return memory from a generic address to the end of its buffer, or of the shared or local memory."""
        memory = self._environment.memory
        if LOCAL_WINDOW <= address < LOCAL_WINDOW + memory.local_bytes:
            start = lane * memory.local_pitch
            return np.asarray(memory.local[1][start + address - LOCAL_WINDOW : start + memory.local_bytes])
        if SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW_BYTES:
            offset = address - SHARED_WINDOW - memory.shared_base
            if 0 <= offset < memory.shared_bytes:
                return np.asarray(memory.shared[1][offset:])
        for buffer in memory.buffers:
            if buffer.start <= address < buffer.start + buffer.bytes:
                buffer.is_read = True
                return np.asarray(buffer.views[1][address - buffer.start :])
        found = f"the address {address:#x} as an argument of a function of the driver"
        raise ExecutionError(site.instruction, lane, found, "Pass an address in memory")

    def _string(self, site: Site, address: int, lane: int) -> str:
        data = self._bytes(site, address, lane)[:_MOST_STRING_BYTES].tobytes()
        end = data.find(b"\0")
        return data[: end if end >= 0 else len(data)].decode("utf-8", errors="replace")

    # -- the functions --------------------------------------------------------------------------------------

    def _print(self, site: Site, lane: int) -> None:
        """int vprintf(const char *format, void *arguments): return the number of arguments, or -1 without a format."""
        format_address, at = self._pair(4, lane), self._pair(6, lane)
        if format_address == 0:
            self._return(-1, lane, 1)
            return
        try:
            layout = parse_format(self._string(site, format_address, lane))
        except FormatError as error:
            right = "Use a conversion such as %d, %5.2f or %s"
            raise ExecutionError(site.instruction, lane, f"printf with {error}", right) from None
        data = self._bytes(site, at, lane)[: layout.argument_bytes].tobytes() if layout.argument_bytes else b""
        if len(data) < layout.argument_bytes:
            found = f"{len(data)} bytes of arguments for a format that takes {layout.argument_bytes}"
            raise ExecutionError(site.instruction, lane, found, "Pass as many arguments as the format takes")
        self._environment.printer(layout.text(data, lambda address: self._string(site, address, lane)))
        self._return(layout.arguments, lane, 1)

    def _assert(self, site: Site, lane: int) -> None:
        """void __assertfail(const char *message, const char *file, unsigned line, const char *function, size_t)."""
        message, file, function = (self._string(site, self._pair(k, lane), lane) for k in (4, 6, 10))
        found = f"the failed assertion '{message}' in {file}:{self._word(8, lane)}, {function}"
        error = ExecutionError(site.instruction, lane, found, "Fix the kernel or the arguments that break it")
        error.is_assertion = True
        raise error

    def _allocate(self, site: Site, lane: int) -> None:
        """void *malloc(size_t size): return a block of the heap, or null if the heap is full.

        Freed blocks are reused last, so that their old owners do not seem to race with the new ones.
        """
        heap = next(buffer for buffer in self._environment.memory.buffers if buffer.name == HEAP)
        asked = self._pair(4, lane)
        size = _aligned(max(1, asked))
        freed = self._freed.get(size)
        if self._heap_used + size <= HEAP_BYTES:
            address = heap.start + self._heap_end
            self._heap_used += size
            self._heap_end += size + min(max(size, _LEAST_GAP), _MOST_GAP)
        elif freed:
            address = freed.pop()
        else:
            address = 0
        if address:
            self._blocks[address] = size
            if self._environment.observer is not None:
                self._environment.observer.allocates(site, lane, address, asked)
        self._return(address, lane, 2)

    def _free(self, site: Site, lane: int) -> None:
        """void free(void *block)."""
        address = self._pair(4, lane)
        if address == 0:
            return
        size = self._blocks.pop(address, None)
        if size is None:
            found, right = f"free of {address:#x}", "Free a block that malloc returned, and free it once"
            error = ExecutionError(site.instruction, lane, found, right)
            error.title = "Malloc/Free error: free of an unallocated block"
            raise error
        if self._environment.observer is not None:
            self._environment.observer.frees(site, lane, address)
        self._freed.setdefault(size, []).append(address)


def _aligned(size: int) -> int:
    """Return the heap bytes that a size occupies."""
    return -(-size // HEAP_ALIGNMENT) * HEAP_ALIGNMENT
