"""torch.utils.cpp_extension.load_inline without a GPU: nvcc compiles a solution's sources, and launches are recorded.

The host code is compiled with the headers of `torch_cpp` instead of PyTorch's: tensors there have shapes and types, and
operators that compute throw their name. Its CUDA runtime records launches. Whatever either lacks is refused by name.
"""

from __future__ import annotations

import ctypes
import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils import cpp_extension
from torch.utils._python_dispatch import _disable_current_modes

from gpuemu.base.errors import GpuemuError
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.image.fat_binary import MAGIC
from gpuemu.sass.launch_config import LaunchConfig
from gpuemu.sass.tools.images import load_image
from gpuemu.triton.left_to_torch import left_to_torch
from gpuemu.triton.tensor_recorder import TensorRecorder

SOURCES = Path(__file__).with_name("torch_cpp")
_HEADERS = (
    "torch/extension.h", "torch/all.h", "torch/library.h", "torch/python.h", "torch/script.h", "torch/torch.h",
    "torch/types.h", "torch/csrc/api/include/torch/cuda.h", "ATen/ATen.h", "ATen/AccumulateType.h", "ATen/Dispatch.h",
    "ATen/core/Tensor.h", "ATen/cuda/CUDAContext.h", "ATen/cuda/CUDAEvent.h", "ATen/cuda/Exceptions.h",
    "ATen/native/cuda/KernelUtils.cuh", "c10/core/ScalarType.h", "c10/cuda/CUDAException.h", "c10/cuda/CUDAFunctions.h",
    "c10/cuda/CUDAGuard.h", "c10/cuda/CUDAMathCompat.h", "c10/cuda/CUDAStream.h", "c10/macros/Macros.h",
    "c10/util/BFloat16.h", "c10/util/Exception.h", "c10/util/Half.h", "c10/util/Optional.h", "pybind11/functional.h",
    "pybind11/pybind11.h", "pybind11/stl.h",
)  # fmt: skip
"""The headers that extensions include. All of them are `binding.h`."""
_TYPES = (
    (0, torch.uint8), (1, torch.int8), (2, torch.int16), (3, torch.int32), (4, torch.int64), (5, torch.float16),
    (6, torch.float32), (7, torch.float64), (11, torch.bool), (15, torch.bfloat16),
)  # fmt: skip
"""The numbers of types of elements in wire.h."""
_NONE, _INTEGER, _REAL, _BOOLEAN, _TENSOR, _TEXT, _LIST = range(7)
_MOST_DIMENSIONS = 16
_ERROR = re.compile(r"^(?:.*?[/(])?([\w.]+)[(:](\d+)\)?:?.*?\b(?:fatal )?error:? *(?:#\d+-?D?:? )?(.*)$", re.MULTILINE)
_MISSING = re.compile(r"undefined symbol: (\w+)")
_CHOSEN = ("-arch", "--gpu-architecture", "-gencode", "--generate-code", "-code", "--gpu-code", "-cudart", "-shared")
_COMPILING_S = 300


class _TensorData(ctypes.Structure):
    _fields_ = (
        ("handle", ctypes.c_int64), ("data", ctypes.c_uint64), ("type", ctypes.c_int32), ("dim", ctypes.c_int32),
        ("sizes", ctypes.c_int64 * _MOST_DIMENSIONS), ("strides", ctypes.c_int64 * _MOST_DIMENSIONS),
    )  # fmt: skip


class _Value(ctypes.Structure):
    pass


_Value._fields_ = (
    ("kind", ctypes.c_int32), ("count", ctypes.c_int32), ("integer", ctypes.c_int64), ("real", ctypes.c_double),
    ("tensor", _TensorData), ("text", ctypes.c_char_p), ("items", ctypes.POINTER(_Value)),
)  # fmt: skip


class _Launched(ctypes.Structure):
    _fields_ = (
        ("kernel", ctypes.c_char_p), ("image", ctypes.c_uint64), ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3), ("cluster", ctypes.c_uint32 * 3), ("shared_bytes", ctypes.c_uint64),
        ("arguments", ctypes.POINTER(ctypes.c_uint64)),
    )  # fmt: skip


_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_TensorData), ctypes.c_int)
_ZERO = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_TensorData))
_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Launched))
_ZERO_MEMORY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64)


class _Host(ctypes.Structure):
    _fields_ = (
        ("allocate", _ALLOCATE), ("zero", _ZERO), ("launch", _LAUNCH), ("zero_memory", _ZERO_MEMORY),
        ("sms", ctypes.c_int32), ("shared_optin_bytes", ctypes.c_int32), ("major", ctypes.c_int32),
        ("minor", ctypes.c_int32),
    )  # fmt: skip


class InlineModule:
    """A compiled extension. Its functions are attributes, as in the module that torch returns."""

    def __init__(self, device: TensorRecorder, name: str, library: ctypes.CDLL):
        self._device, self._name, self._library = device, name, library
        self._cubins: dict[int, Cubin] = {}
        self._tensors: list[Any] = []
        self._failed: BaseException | None = None
        properties, (major, minor) = device.properties, device.capability
        self._host = _Host(
            _ALLOCATE(self._kept(self._allocate)), _ZERO(self._kept(self._zero)), _LAUNCH(self._kept(self._launch)),
            _ZERO_MEMORY(self._kept(self._zero_memory)), properties["multiprocessor_count"],
            properties["max_shared_mem"], major, minor,
        )  # fmt: skip
        library.gpuemu_set_host(ctypes.byref(self._host))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not self._library.gpuemu_has(name.encode()):
            raise AttributeError(f"module '{self._name}' has no attribute '{name}'")
        return lambda *args: self._called(name, args)

    def _kept(self, act: Any) -> Any:
        """A callback of C++, through which no exception passes: it is kept for the end of the call."""

        def called(*args: Any) -> int:
            try:
                act(*args)
            except BaseException as error:
                self._failed = error
                return 1
            return 0

        return called

    def _called(self, name: str, args: Sequence[Any]) -> Any:
        self._tensors, self._failed = [], None
        given = (_Value * max(1, len(args)))(*map(self._to_value, args))
        result, message = _Value(), ctypes.create_string_buffer(1000)
        code = self._library.gpuemu_call(
            name.encode(), given, len(args), ctypes.byref(result), message, ctypes.sizeof(message)
        )
        if self._failed is not None:
            raise self._failed
        told = message.value.decode(errors="replace")
        if code == 2:
            left_to_torch(told)
        if code:
            raise RuntimeError(told)
        return self._from_value(result)

    def _to_value(self, given: Any) -> _Value:
        if isinstance(given, torch.Tensor):
            return _Value(_TENSOR, tensor=self._told(given))
        if isinstance(given, bool):
            return _Value(_BOOLEAN, integer=given)
        if isinstance(given, int):
            return _Value(_INTEGER, integer=given)
        if isinstance(given, float):
            return _Value(_REAL, real=given)
        if isinstance(given, str):
            return _Value(_TEXT, text=given.encode())
        if isinstance(given, list | tuple):
            return _Value(_LIST, len(given), items=(_Value * max(1, len(given)))(*map(self._to_value, given)))
        if given is None:
            return _Value(_NONE)
        raise TypeError(f"{self._name}: no C++ type for {type(given).__name__}")

    def _from_value(self, value: _Value) -> Any:
        if value.kind == _TENSOR:
            told = value.tensor
            owner = self._tensors[told.handle]
            offset = (told.data - owner.untyped_storage().data_ptr()) // owner.element_size()
            return owner.as_strided(tuple(told.sizes[: told.dim]), tuple(told.strides[: told.dim]), offset)
        if value.kind == _LIST:
            return [self._from_value(value.items[n]) for n in range(value.count)]
        return {_NONE: None, _INTEGER: value.integer, _REAL: value.real, _BOOLEAN: bool(value.integer)}[value.kind]

    def _told(self, tensor: Any) -> _TensorData:
        number = next((number for number, dtype in _TYPES if dtype == tensor.dtype), None)
        if number is None or tensor.dim() > _MOST_DIMENSIONS:
            raise TypeError(f"{self._name}: no C++ type for a tensor of {tensor.dtype} with {tensor.dim()} dimensions")
        self._tensors.append(tensor)
        sizes, strides = ((ctypes.c_int64 * _MOST_DIMENSIONS)(*one) for one in (tensor.shape, tensor.stride()))
        return _TensorData(len(self._tensors) - 1, tensor.data_ptr(), number, tensor.dim(), sizes, strides)

    def _allocate(self, told: Any, zeros: int) -> None:
        data = told.contents
        shape, strides = tuple(data.sizes[: data.dim]), tuple(data.strides[: data.dim])
        with _disable_current_modes():  # this is no work of the solution's
            like = torch.empty_strided(shape, strides, dtype=dict(_TYPES)[data.type], device="meta")
            made = self._device.allocate(like, bool(zeros))
        self._tensors.append(made)
        data.handle, data.data = len(self._tensors) - 1, made.data_ptr()

    def _zero(self, told: Any) -> None:
        data = told.contents
        size = self._tensors[data.handle].element_size() * math.prod(data.sizes[: data.dim])
        if not self._device.zeroed(data.data, size):
            left_to_torch("zero_")

    def _zero_memory(self, address: int, size: int) -> None:
        if not self._device.zeroed(address, size):
            left_to_torch("cudaMemset")

    def _launch(self, told: Any) -> None:
        launch = told.contents
        cubin = self._cubin(launch.image)
        name = launch.kernel.decode()
        parameters = cubin.kernel(name).set_parameters
        args = [
            self._argument(ctypes.string_at(launch.arguments[number], one.size))
            for number, one in enumerate(parameters)
        ]
        cluster = tuple(launch.cluster) if launch.cluster[0] else None
        config = LaunchConfig(cubin, name, tuple(launch.grid), tuple(launch.block), cluster, launch.shared_bytes, args)
        self._device.launch(config, cubin.kernel(name).registers_per_thread)

    def _argument(self, data: bytes) -> Any:
        """A parameter's bytes, with Pointers in place of the addresses of known memory."""
        words = [data[at : at + 8] for at in range(0, len(data), 8)]
        known = self._device.pointer_to
        members = tuple(known(int.from_bytes(one, "little")) if len(one) == 8 else None for one in words)
        if not any(one is not None for one in members):
            return data
        if len(members) == 1:
            return members[0]
        return tuple(word if one is None else one for word, one in zip(words, members, strict=True))

    def _cubin(self, image: int) -> Cubin:
        if image not in self._cubins:
            header = ctypes.string_at(image, 16)
            size = int.from_bytes(header[6:8], "little") + int.from_bytes(header[8:16], "little")
            if header[:4] != MAGIC:
                found = "code in a form that gpuemu does not read"
                raise GpuemuError.one(self._name, None, "", found, "Compile it with load_inline")
            content = ctypes.string_at(image, size)
            self._cubins[image] = load_image(content, self._name, self._device.capability).cubin
        return self._cubins[image]


@contextmanager
def loading_inline(device: TensorRecorder) -> Iterator[None]:
    """A context in which load_inline compiles for a device."""

    def load_inline(
        name: str, cpp_sources: Any, cuda_sources: Any = None, *rest: Any, functions: Any = None,
        extra_cuda_cflags: Any = None, extra_include_paths: Any = None, **_: Any,
    ) -> InlineModule:  # fmt: skip
        code = _code(_listed(cpp_sources), _listed(cuda_sources), _named(functions))
        library = _compiled(device, name, code, _listed(extra_cuda_cflags))
        return InlineModule(device, name, library)

    def load(name: str, *_: Any, **__: Any) -> Any:
        raise GpuemuError.one(device.file, None, name, "load(...) of further files", "Give the sources to load_inline")

    before = cpp_extension.load_inline, cpp_extension.load
    cpp_extension.load_inline, cpp_extension.load = load_inline, load
    try:
        yield
    finally:
        cpp_extension.load_inline, cpp_extension.load = before


def _listed(given: Any) -> list[str]:
    if given is None:
        return []
    return [given] if isinstance(given, str) else [str(one) for one in given]


def _named(functions: Any) -> list[str]:
    """The names of the functions to define; a mapping has their descriptions, too."""
    return list(functions) if isinstance(functions, Mapping) else _listed(functions)


def _code(cpp: Iterable[str], cuda: Iterable[str], functions: Sequence[str]) -> dict[str, str]:
    """The files to compile: C++ and CUDA sources are separate, as in torch."""
    head = '#include "binding.h"\n#line 1 "{}"\n'
    defined = "".join(f'  m.def("{name}", &{name});\n' for name in functions)
    module = f"PYBIND11_MODULE(judged, m) {{\n{defined}}}\n" if functions else ""
    return {
        "inline_main.cpp": head.format("cpp_sources") + "".join(f"{one}\n" for one in cpp) + module,
        "inline_cuda.cu": head.format("cuda_sources") + "".join(f"{one}\n" for one in cuda),
    }


def _compiled(device: TensorRecorder, name: str, code: Mapping[str, str], flags: Sequence[str]) -> ctypes.CDLL:
    """The library of an extension. Raises GpuemuError with the compiler's first error."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        right = "Install the CUDA toolkit, whose nvcc compiles host code"
        raise GpuemuError.one(device.file, None, name, "load_inline needs nvcc", right)
    folder = Path(tempfile.mkdtemp())
    for header in _HEADERS:
        place = folder / "include" / header
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text('#include "binding.h"\n', encoding="utf-8")
    for file, text in code.items():
        (folder / file).write_text(text, encoding="utf-8")
    target = folder / "inline.so"
    kept = [one for one in flags if one and not one.startswith(_CHOSEN)]
    command = [
        nvcc, "-shared", "-std=c++17", "-lineinfo", f"-arch={device.arch.code_name}", "-cudart", "none", "-Xcompiler",
        "-fPIC,-O1", "--expt-relaxed-constexpr", "--expt-extended-lambda", *kept, "-I", str(SOURCES), "-I",
        str(folder / "include"), "-o", str(target), *(str(folder / one) for one in code), str(SOURCES / "runtime.cpp"),
        str(SOURCES / "calling.cpp"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_COMPILING_S)
    if done.returncode:
        found = _ERROR.search(done.stderr + done.stdout)
        what = f"does not compile (line {found[2]} of {found[1]}: {found[3]})" if found else "does not compile"
        raise GpuemuError.one(device.file, None, name, what, "Fix the source, or what it includes")
    try:
        return ctypes.CDLL(str(target))
    except OSError as error:
        missing = _MISSING.search(str(error))
        what = f"calls {missing[1]}, which has no time here" if missing else f"cannot be loaded: {error}"
        raise GpuemuError.one(device.file, None, name, what, "Do this work in kernels of its own") from None
