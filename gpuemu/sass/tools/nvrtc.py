"""Run NVRTC, the compiler library: it compiles CUDA C++ to a cubin and needs only pip wheels.

NVRTC compiles device code, and neither has nor searches for standard headers. Therefore this module defines the headers
that kernels commonly include, based on libcu++. Its wheel and the CUDA headers are dependencies of gpuemu.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from gpuemu.base.errors import GpuemuError
from gpuemu.base.extras import CUDA_TOOLS, missing, wheel_files
from gpuemu.base.shown import name_of_a_line
from gpuemu.sass.tools.options import ELF, no_code

_LIBRARY = "nvidia-cuda-nvrtc"
_HEADERS = {  # a file that identifies the folder, and its wheel
    "cuda_fp16.h": "nvidia-cuda-runtime",
    "crt/mma.h": "nvidia-cuda-crt",
    "cuda/std/cstdint": "nvidia-cuda-cccl",
}
_STD = """
    algorithm array bit cfloat climits cmath complex concepts cstddef cstdint cstdlib cstring
    functional limits numeric optional ratio span tuple type_traits utility variant
"""
_C_NAMES = ("float", "limits", "stddef", "stdint", "stdlib", "string")
_SHIM = (
    "#pragma once\n#include <cuda/std/{0}>\n"
    "namespace cuda {{ namespace std {{}} }}\nnamespace std {{ using namespace cuda::std; }}\n"
)
SHIMS = {
    **{name: _SHIM.format(name) for name in _STD.split()},
    **{f"{name}.h": _SHIM.format(f"c{name}") for name in _C_NAMES},
    # Their device functions are built in, except for the macros and for names that nvcc defines itself.
    "math.h": """
#pragma once
#include <cuda_runtime.h>
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define HUGE_VALF INFINITY
#define HUGE_VAL __longlong_as_double(0x7ff0000000000000ll)
#endif
#ifndef M_PI
#define M_PI 3.14159265358979323846
#define M_SQRT2 1.41421356237309504880
#define M_E 2.7182818284590452354
#define M_LN2 0.69314718055994530942
#define M_LOG2E 1.4426950408889634074
#endif
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
""",
    # printf and assert are built in.
    **dict.fromkeys(("stdio.h", "cstdio", "assert.h", "cassert"), "#pragma once\n"),
}
"""Standard headers by name, as they are passed to the compiler."""


@lru_cache
def _library() -> ctypes.CDLL:
    for file in wheel_files(_LIBRARY):
        if file.name.startswith(("libnvrtc.so", "libnvrtc.dylib", "nvrtc64")) and file.is_file():
            return ctypes.CDLL(str(file))
    raise missing("nvrtc", CUDA_TOOLS)


@lru_cache
def include_folders() -> tuple[Path, ...]:
    """Return the folders with the CUDA and libcu++ headers; raises GpuemuError if a wheel is missing."""
    folders = []
    for header, wheel in _HEADERS.items():
        parts = tuple(header.split("/"))
        for file in wheel_files(wheel):
            if file.parts[-len(parts) :] == parts and file.is_file():
                folders.append(file.parents[len(parts) - 1])
                break
        else:
            raise missing(f"the headers of {wheel}", CUDA_TOOLS)
    return tuple(dict.fromkeys(folders))


def version() -> str:
    """Return a version such as "NVRTC 13.0"."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"NVRTC {major.value}.{minor.value}"


def headers() -> tuple[str, ...]:
    """Return the versions of the headers and the compiler, with the headers defined here."""
    folders = include_folders()  # first, because it reports a missing wheel
    wheels = (_LIBRARY, *_HEADERS.values())
    shims = hashlib.sha256(repr(sorted(SHIMS.items())).encode()).hexdigest()
    return (*(f"{wheel} {importlib.metadata.version(wheel)}" for wheel in wheels), *map(str, folders), shims)


def compile_source(
    source: bytes, file: str, arch: str, options: Sequence[str] = (), instance: str = ""
) -> tuple[str, bytes | None]:
    """Return the compiler's log and the cubin, or None instead if the log has errors.

    `instance`: a kernel template to instantiate, or "" for only those that the source instantiates. `file` is the
    source's name in messages and line tables; its folder is searched for includes.
    """
    library = _library()
    flags = [f"--gpu-architecture={arch}", "-lineinfo", "--pre-include=math.h"]  # as nvcc does
    flags += [f"-I{folder}" for folder in (Path(file).parent, *include_folders())]
    flags += options
    if any("\0" in flag for flag in flags):
        raise GpuemuError.one(file, None, "", "a flag contains a null character", "Remove it")
    name = name_of_a_line(f"./{file}" if file.startswith("-") else file).encode()  # or NVRTC reads it as an option
    program = ctypes.c_void_p()
    names = (ctypes.c_char_p * len(SHIMS))(*(name.encode() for name in SHIMS))
    texts = (ctypes.c_char_p * len(SHIMS))(*(text.encode() for text in SHIMS.values()))
    status = library.nvrtcCreateProgram(ctypes.byref(program), source, name, len(SHIMS), texts, names)
    if status != 0:
        raise GpuemuError.one(file, None, "", f"NVRTC refuses the source (status {status})", "Give CUDA C++")
    try:
        if instance:
            library.nvrtcAddNameExpression(program, instance.encode())
        arguments = (ctypes.c_char_p * len(flags))(*map(os.fsencode, flags))
        status = library.nvrtcCompileProgram(program, len(flags), arguments)
        log = _fetch(library, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
        if status:
            return log, None
        cubin = _fetch(library, program, "CUBIN")
        if not cubin.startswith(ELF):
            raise no_code("NVRTC", file, options)
        return log, cubin
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _fetch(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, buffer)
    return buffer.raw
