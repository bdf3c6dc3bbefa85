"""Turns the arguments of a Triton launch into the parameters of its kernel.

A tensor is a pointer into its storage. Views, and several arguments that share memory, are therefore the same as on a
GPU. A tensor descriptor is the driver's tensor map where the compiler uses one, else pointer, shape and strides.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.errors import GpuemuError
from gpuemu.sass.machine.memory.arguments import Pointer
from gpuemu.sass.machine.memory.tensor_map import PACKED, TYPES, TensorMap

_NUMBERS: dict[str, Any] = {
    "i1": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u1": np.uint8, "u8": np.uint8,
    "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "fp16": np.float16, "fp32": np.float32, "f32": np.float32,
    "fp64": np.float64,
}  # fmt: skip
_MAP_TYPES = (
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16", "tf32", "tf32.ftz", "b4x16",
    "b4x16_p64",
)  # fmt: skip
"""The element types behind the compiler's numbers, which are PTX's."""
_SWIZZLES = (0, 32, 64, 128)
_TF32 = "tf32"


class HostArray(np.ndarray[Any, Any]):
    """A NumPy array with the interface of a tensor: it has an address."""

    def data_ptr(self) -> int:
        """The address of the first element in this process."""
        return int(self.__array_interface__["data"][0])


class Arguments:
    """The parameters of one launch. Each storage is one array, even if several tensors lie in it.

    `kept`: the arrays keep their tensors alive, for a launch that executes after the program has gone on.
    """

    def __init__(self, kernel: str, descriptors: Sequence[Mapping[str, Any]] | None, kept: bool = False):
        self._kernel = kernel
        self._kept = kept
        self._descriptors = iter(descriptors or ())
        self._has_maps = bool(descriptors)
        self._storages: dict[tuple[int, int], NDArray[np.uint8]] = {}
        self.found: list[Any] = []

    def add(self, kind: Any, value: Any) -> None:
        """Append the parameters for a value, by its type in Triton's signature."""
        if isinstance(kind, tuple):
            for inner, part in zip(kind, value, strict=True):
                self.add(inner, part)
        elif kind == "constexpr":
            return
        elif kind.startswith("tensordesc"):
            self._add_descriptor(value)
        elif kind.startswith("*"):
            self.found.append(self.pointer(value))
        elif kind == "bf16":
            self.found.append(np.uint16(np.float32(value).view(np.uint32) >> np.uint32(16)))
        elif kind in _NUMBERS:
            self.found.append(_number(kind, value))
        else:
            right = "expected a tensor, a number or a tensor descriptor"
            raise GpuemuError.one(self._kernel, None, "argument", f"one of Triton's type {kind}", right)

    def pointer(self, value: Any) -> Any:
        if value is None or isinstance(value, int):
            return np.uint64(value or 0)
        address = value.data_ptr()
        storage = self._storage(value)
        return Pointer(storage, address - storage.__array_interface__["data"][0])

    def _storage(self, value: Any) -> NDArray[np.uint8]:
        """All bytes of the memory that a tensor lies in."""
        start, size = _reach(value)
        if (start, size) not in self._storages:
            memory: Any = (ctypes.c_uint8 * size).from_address(start) if size else ()
            if self._kept and size:
                memory.owner = value
            self._storages[start, size] = np.asarray(memory, np.uint8)
        return self._storages[start, size]

    def _add_descriptor(self, value: Any) -> None:
        shape, strides = [int(n) for n in value.shape], [int(n) for n in value.strides]
        nan, tf32 = value.padding == "nan", bool(getattr(value, "round_f32_to_tf32", False))
        if not self._has_maps:
            self.found.append(self.pointer(value.base))
            self.found += [*map(np.int64, (*shape, *strides)), np.uint8(nan), np.uint8(tf32)]
        else:
            self.found.append(self._map(next(self._descriptors), value, shape, strides, nan, tf32))
        self.found += [*map(np.int32, shape), *map(np.int64, strides)]

    def _map(
        self, told: Mapping[str, Any], value: Any, shape: list[int], strides: list[int], nan: bool, tf32: bool
    ) -> TensorMap:
        size = int(told["elem_size"])
        pointer = self.pointer(value.base)
        assert isinstance(pointer, Pointer)
        kind = _TF32 if tf32 else _MAP_TYPES[int(told["elem_type"])]
        steps, box = [n * size for n in strides], [int(n) for n in told["block_size"]]
        if kind in PACKED:  # 16 elements of 4 bits at once
            size = TYPES[kind]
            shape, steps[-1] = [*shape[:-1], shape[-1] // size], size
            box[-1] //= 2 * size
        view: NDArray[Any] = np.ndarray(shape, np.dtype(f"u{size}"), pointer.array.data, pointer.offset, steps)
        form: dict[str, Any] = {
            "swizzle": _SWIZZLES[int(told["swizzle"])], "type": kind, "fill": "nan" if nan else 0,
        }  # fmt: skip
        if not told.get("is_im2col"):
            return TensorMap(view, box, **form)
        pixels, channels = box
        corners = value.pixel_box_lower_corner, value.pixel_box_upper_corner
        return TensorMap.im2col(view, *corners, channels, pixels, steps=value.element_strides, **form)


def _number(kind: str, value: Any) -> Any:
    made = _NUMBERS[kind]
    if kind.startswith(("f", "fp")):
        return made(value)
    return np.array(int(value) & ((1 << 8 * np.dtype(made).itemsize) - 1), np.uint64).astype(made)[()]


def _reach(value: Any) -> tuple[int, int]:
    """The address and the size in bytes of the memory that a tensor lies in."""
    if isinstance(value, np.ndarray):
        owner = value
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        reach = sum((n - 1) * step for n, step in zip(owner.shape, owner.strides, strict=True) if owner.size)
        return int(owner.__array_interface__["data"][0]), (reach + owner.itemsize) * bool(owner.size)
    while not hasattr(value, "untyped_storage") and hasattr(value, "base"):  # a tensor that Triton reinterprets
        value = value.base
    if hasattr(value, "untyped_storage"):
        storage = value.untyped_storage()
        if storage.device.type != "cpu":
            found = f"a tensor on {storage.device.type}"
            raise GpuemuError.one("launch", None, "argument", found, "Move it to the CPU")
        return int(storage.data_ptr()), int(storage.nbytes())
    return int(value.data_ptr()), int(value.nbytes)
