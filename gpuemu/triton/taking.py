"""Record the launches of a Triton file's `launch(...)`: machine code and arguments, without executing any of it.

Buffers have shapes and types here, and no contents. They lie in protected memory, so that a read or a write on the host
ends the process with a segmentation fault.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.launch_config import LaunchConfig
from gpuemu.sass.machine.memory.arguments import Pointer
from gpuemu.sass.machine.memory.tensor_map import TensorMap
from gpuemu.triton.emulated import Device
from gpuemu.triton.launch import Launch
from gpuemu.triton.script import run_script
from gpuemu.triton.wheel import check_triton

_PROT_NONE, _MAP_NORESERVE = 0, 0x4000
_UNWRITTEN = 0xA5
"""The first bytes of memory that was allocated and not filled."""
_LOOKED_AT = 1 << 20
"""The number of bytes of scratch memory that are compared with that."""


@dataclass(frozen=True)
class Buffer:
    """An array without its contents; `strides` and `size` in bytes."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    size: int

    def on_the_host(self) -> NDArray[Any]:
        """An array of this shape and type in protected memory. Raises MemoryError."""
        library = ctypes.CDLL(None, use_errno=True)
        library.mmap.restype = ctypes.c_void_p
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        size = ctypes.c_size_t(max(1, self.size))
        address = library.mmap(None, size, _PROT_NONE, flags, -1, ctypes.c_long(0))
        if address in (None, ctypes.c_void_p(-1).value):
            raise MemoryError
        memory: Any = (ctypes.c_uint8 * max(1, self.size)).from_address(address)
        return np.ndarray(self.shape, np.dtype(self.dtype), memory, 0, self.strides)


@dataclass
class _Draw:
    """The arguments of `launch`, and the launches that it has made."""

    inputs: list[tuple[int, int, int]]
    """The address and the bytes of each buffer, and the number of its argument."""
    launches: list[dict[str, Any]] = field(default_factory=list)
    scratch: list[dict[str, Any]] = field(default_factory=list)
    kept: list[NDArray[np.uint8]] = field(default_factory=list)
    """Scratch memory, kept so that no other memory gets its address."""


class Recorder(Device):
    """Record launches; their arguments become numbers of the problem's arguments.

    A benchmark of the candidate's own has no times and no launches that count, so an autotuner takes its first
    configuration that compiles.
    """

    def __init__(self, arch: Architecture):
        super().__init__(arch, False, False, 1)
        self.cubins: list[bytes] = []
        self.draw = _Draw([])

    def begin_draw(self, arrays: Sequence[Any], sizes: Sequence[int]) -> None:
        """Begin a draw with arrays of these sizes in bytes. Whatever is no array has no memory."""
        self.draw = _Draw(
            [
                (array.__array_interface__["data"][0], sizes[number], number)
                for number, array in enumerate(arrays)
                if isinstance(array, np.ndarray)
            ]
        )

    def benchmark(self, call: Callable[[], Any]) -> float:
        before, self.benchmarking = self.benchmarking, True
        try:
            call()
        finally:
            self.benchmarking = before
        return 1.0

    def launch(self, config: LaunchConfig, registers: int) -> Launch:
        if self.benchmarking:
            return Launch.of(config, registers)
        cubin, kernel = cast(Cubin, config.code), config.kernel or ""
        if cubin.content not in self.cubins:
            self.cubins.append(cubin.content)
        self.draw.launches.append(
            {
                "cubin": self.cubins.index(cubin.content), "kernel": kernel, "grid": config.grid,
                "block": config.block, "cluster": None, "shared_bytes": config.dynamic_shared_bytes,
                "args": [self._plain(kernel, number, one) for number, one in enumerate(config.args)],
            }
        )  # fmt: skip
        return Launch.of(config, registers)

    def _plain(self, kernel: str, number: int, argument: Any) -> dict[str, Any]:
        if isinstance(argument, TensorMap):
            right = "Make the descriptor in the kernel (tl.make_tensor_descriptor)"
            raise GpuemuError.one("judge", None, kernel, "a tensor descriptor from the host", right)
        if isinstance(argument, bytes):
            return {"bits": argument.hex()}
        if isinstance(argument, tuple):
            return {"members": [self._plain(kernel, number, one) for one in argument]}
        if not isinstance(argument, Pointer):
            scalar = np.asarray(argument)
            return {"type": scalar.dtype.name, "bits": scalar.tobytes().hex()}
        if not len(argument.array):
            self.draw.scratch.append({"bytes": 0, "zeros": True})
            self.draw.kept.append(argument.array)
            return {"scratch": len(self.draw.scratch) - 1, "offset": 0}
        address = argument.array.__array_interface__["data"][0] + argument.offset
        for start, size, which in self.draw.inputs:
            if start <= address < start + max(1, size):
                return {"input": which, "offset": address - start}
        return {"scratch": self.scratch(kernel, number, argument.array), "offset": argument.offset}

    def scratch(self, kernel: str, number: int, memory: NDArray[np.uint8]) -> int:
        """The number of the scratch memory that an argument points into. Raises GpuemuError."""
        start = memory.__array_interface__["data"][0]
        known = [one.__array_interface__["data"][0] for one in self.draw.kept]
        if start not in known:
            head = memory[:_LOOKED_AT]
            zeros = not memory.any()
            if not zeros and (head != _UNWRITTEN).any():
                found = f"argument {number} is memory that the host has filled"
                right = "Pass the problem's buffers, zeros (np.zeros) or memory without values (np.empty)"
                raise GpuemuError.one("judge", None, kernel, found, right)
            self.draw.kept.append(memory)
            self.draw.scratch.append({"bytes": len(memory), "zeros": zeros})
            known.append(start)
        return known.index(start)


def take(file: str, arch: Architecture, draws: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """The launches of `launch(...)`, which a Triton file defines, for each draw of its arguments.

    A draw is a list of Buffers and numbers. The answer has cubins (bytes), launches and scratch memory in the form of
    `gpuemu.studies.judge.inside`. Raises GpuemuError.
    """
    check_triton()
    from gpuemu.triton.driver import active

    device = Recorder(arch)
    taken = []
    with active(device), _without_values():
        names = run_script(file, name="judged")
        if not callable(names.get("launch")):
            raise GpuemuError.one(
                file,
                None,
                "",
                "there is no function launch",
                "Define launch(...), which takes the problem's arguments and launches the kernel",
            )
        for draw in draws:
            given = [one.on_the_host() if isinstance(one, Buffer) else one for one in draw]
            device.begin_draw(given, [one.size if isinstance(one, Buffer) else 0 for one in draw])
            names["launch"](*given)
            taken.append(device.draw)
    return {
        "cubins": device.cubins, "launches": [one.launches for one in taken], "scratch": [one.scratch for one in taken],
    }  # fmt: skip


@contextmanager
def _without_values() -> Iterator[None]:
    """A context in which memory that is allocated and not filled differs from memory of zeros."""

    def marking(make: Any) -> Any:
        def made(*args: Any, **words: Any) -> Any:
            found = make(*args, **words)
            _mark(found)
            return found

        return made

    with ExitStack() as stack:
        places: list[Any] = [np]
        try:
            import torch

            places.append(torch)
        except ImportError:
            pass
        for place in places:
            for name in ("empty", "empty_like"):
                before = getattr(place, name)
                stack.callback(setattr, place, name, before)
                setattr(place, name, marking(before))
        yield


def _mark(array: Any) -> None:
    size = math.prod(array.shape) * array.itemsize
    if size:
        pointer = array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else array.data_ptr()
        ctypes.memset(pointer, _UNWRITTEN, min(size, _LOOKED_AT))
