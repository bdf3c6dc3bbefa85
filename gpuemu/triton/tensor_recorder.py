"""Record launches whose arguments are torch's tensors in protected memory, and the tensors that a solution returns."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode

from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError
from gpuemu.sass.machine.memory.arguments import Pointer
from gpuemu.triton.taking import Buffer, Recorder

MOST_VALUES_BYTES = 128 << 20
"""The most bytes of weights and tables of a solution."""


@dataclass
class _Memory:
    """Scratch memory of a call. `values`: the host has filled it before the call."""

    start: int
    size: int
    zeros: bool = False
    values: NDArray[np.uint8] | None = None
    number: int | None = None
    """Its number among the scratch memory of the answer, once a launch or an output uses it."""
    kept: Any = None


@dataclass
class _Call:
    """One call of the solution: its memory by address."""

    memory: dict[int, _Memory] = field(default_factory=dict)

    def at(self, address: int) -> _Memory | None:
        """The memory that an address lies in."""
        found = self.memory.get(address)
        if found is not None:
            return found
        return next((m for m in self.memory.values() if m.start <= address < m.start + max(1, m.size)), None)


class _Seen(TorchDispatchMode):  # type: ignore[misc]
    """Keep the storages of all tensors that are made before a call."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: dict[int, Any] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        torch.utils._pytree.tree_map_only(torch.Tensor, self.keep, (args, found))
        return found

    def keep(self, tensor: Any) -> None:
        if tensor.device.type == "cpu" and tensor.layout == torch.strided and type(tensor) in _PLAIN:
            storage = tensor.untyped_storage()
            if storage.nbytes():
                self.storages[storage.data_ptr()] = storage


_PLAIN = (torch.Tensor, torch.nn.Parameter)


class TensorRecorder(Recorder):
    """Record launches whose arguments are torch's tensors."""

    def __init__(self, arch: Architecture, file: str):
        super().__init__(arch)
        self.file = file
        self.call = _Call()
        self.values: list[NDArray[np.uint8]] = []
        self.seen = _Seen()

    def begin(self, buffers: Sequence[Buffer]) -> list[Any]:
        """Begin a draw. Returns the storages of its inputs."""
        arrays = [one.on_the_host() for one in buffers]
        self.begin_draw(arrays, [one.size for one in buffers])
        self.call = _Call(
            {
                start: _Memory(start, storage.nbytes(), values=_bytes_of(start, storage.nbytes()), kept=storage)
                for start, storage in self.seen.storages.items()
            }
        )
        return [torch.from_numpy(one).untyped_storage() for one in arrays]

    def allocate(self, like: Any, zeros: bool) -> Any:
        """A tensor in protected memory of its own, shaped as `like`."""
        size = like.untyped_storage().nbytes()
        if not size:
            return torch.empty(like.shape, dtype=like.dtype)
        array = Buffer((size,), (1,), "|u1", size).on_the_host()
        start = array.__array_interface__["data"][0]
        self.call.memory[start] = _Memory(start, size, zeros, kept=array)
        return tensor_in(torch.from_numpy(array).untyped_storage(), like.dtype, 0, like.shape, like.stride())

    def zeroed(self, address: int, size: int) -> bool:
        """Fill memory with zeros, unless that is a part of it, or a launch has used it already."""
        memory = self.call.memory.get(address)
        if memory is None or memory.values is not None or memory.number is not None or size != memory.size:
            return False
        memory.zeros = True
        return True

    def pointer_to(self, address: int) -> Pointer | None:
        """A pointer into the memory of a draw, or None if the address is in none."""
        for start, size, _ in self.draw.inputs:
            if start <= address < start + max(1, size):
                return Pointer(_bytes_of(start, size), address - start)
        found = self.call.at(address)
        return None if found is None else Pointer(_bytes_of(found.start, found.size), address - found.start)

    def scratch(self, kernel: str, number: int, memory: NDArray[np.uint8]) -> int:
        """The number of the scratch memory that an argument points into."""
        found = self.call.at(memory.__array_interface__["data"][0])
        if found is None:
            what = f"argument {number} is memory that no tensor owns, or that was filled during the call"
            right = "Allocate it with torch.empty or torch.zeros, or fill it before the call"
            raise GpuemuError.one("judge", None, kernel, what, right)
        return self._numbered(found)

    def _numbered(self, memory: _Memory) -> int:
        if memory.number is None:
            memory.number = len(self.draw.scratch)
            told: dict[str, Any] = {"bytes": memory.size, "zeros": memory.zeros}
            if memory.values is not None:
                told["values"] = self._value(memory.values)
            self.draw.scratch.append(told)
        return memory.number

    def _value(self, values: NDArray[np.uint8]) -> int:
        for number, one in enumerate(self.values):
            if one is values or (len(one) == len(values) and np.array_equal(one, values)):
                return number
        if sum(map(len, self.values)) + len(values) > MOST_VALUES_BYTES:
            right = f"expected at most {MOST_VALUES_BYTES:,} bytes"
            raise GpuemuError.one(self.file, None, "", "its weights and tables are larger than that", right)
        self.values.append(values.copy())
        return len(self.values) - 1

    def output(self, tensor: Any) -> dict[str, Any]:
        """A tensor that the solution returned, in the form of the answer."""
        if type(tensor) not in _PLAIN or tensor.layout != torch.strided or tensor.device.type != "cpu":
            found = f"found that it returns an object of {type(tensor).__module__}.{type(tensor).__qualname__}"
            raise GpuemuError.one(self.file, None, "", found, "Return a torch.Tensor")
        start, size = tensor.untyped_storage().data_ptr(), tensor.untyped_storage().nbytes()
        told: dict[str, Any] = {
            "offset": tensor.storage_offset(), "shape": list(tensor.shape), "strides": list(tensor.stride()),
            "dtype": str(tensor.dtype).removeprefix("torch."),
        }  # fmt: skip
        if not size:
            return told
        for where, _, which in self.draw.inputs:
            if where == start:
                return {**told, "input": which}
        memory = self.call.at(start)
        if memory is None:
            found = "found that it returns memory that no kernel could have written"
            raise GpuemuError.one(self.file, None, "", found, "Return a tensor of this call")
        return {**told, "scratch": self._numbered(memory)}


def _bytes_of(start: int, size: int) -> NDArray[np.uint8]:
    memory: Any = (ctypes.c_uint8 * size).from_address(start)
    return np.asarray(memory, np.uint8)


def tensor_in(storage: Any, dtype: Any, offset: int, shape: Sequence[int], strides: Sequence[int]) -> Any:
    """A tensor in a storage."""
    return torch.empty(0, dtype=dtype).set_(storage, offset, tuple(shape), tuple(strides))
