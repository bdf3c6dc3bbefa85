"""Kernel arguments as the command line writes them, turned into what `trace_kernel` takes.

    64  -3  1.5                    a number
    zeros:u32:16384                a buffer of 16384 zeros; also ones, arange (0, 1, 2, ...), random (always the same)
    empty:f32:256                  a buffer that nobody has filled: `gpuemu check` tells who reads it unwritten
    file:in.npy                    a buffer with the contents of a NumPy file, which itself is not changed

Types: u8 i8 u16 i16 u32 i32 u64 i64 f16 f32 f64; a size such as 256x256 is a shape.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

from gpuemu.base.array_files import read_array
from gpuemu.base.errors import GpuemuError

_SIZES = {"u": (1, 2, 4, 8), "i": (1, 2, 4, 8), "f": (2, 4, 8)}
TYPES = {f"{kind}{8 * size}": np.dtype(f"{kind}{size}") for kind, sizes in _SIZES.items() for size in sizes}
FILLS = ("zeros", "ones", "arange", "random", "empty")
MOST_BYTES = 1 << 32
"""Bytes of all buffers of a launch."""
MOST_DIGITS = 40
_BLOCK = 1 << 20
DEFAULT_BUFFER_BYTES = 1 << 20


def parse_arguments(texts: Iterable[str]) -> list[Any]:
    """All arguments of a launch. Raises GpuemuError, also where they take more than MOST_BYTES."""
    arguments: list[Any] = []
    for text in texts:
        arguments.append(parse_argument(text))
        size = sum(getattr(argument, "nbytes", 0) for argument in arguments)
        if size > MOST_BYTES:
            right = f"at most {MOST_BYTES:,} for all arguments are right"
            raise GpuemuError.one("--arg", None, "", f"{size:,} bytes with '{text[:60]}'", right)
    return arguments


def parse_argument(text: str) -> Any:
    """An int, a float or a new NumPy array. Raises GpuemuError that says what is right."""

    def refuse(found: str, right: str) -> GpuemuError:
        return GpuemuError.one("--arg", None, "", found, right)

    if re.fullmatch(r"[-+]?(0x[0-9a-fA-F]+|0+|[1-9][0-9]*)", text):
        if len(text) > MOST_DIGITS:
            raise refuse(f"a number of {len(text)} digits", "a number of at most 64 bits is right")
        return int(text, 0)
    if re.fullmatch(r"[-+]?[0-9]+", text):
        raise refuse(f"'{text[:40]}'", "a number that does not begin with 0, or one such as 0x10, is right")
    try:
        return float(text)
    except ValueError:
        pass
    head, _, rest = text.partition(":")
    if head == "file":
        return _from_file(rest)
    if head in FILLS:
        kind, _, size = rest.partition(":")
        if kind not in TYPES:
            raise refuse(f"the type '{kind}' in '{text}'", f"one of {', '.join(TYPES)} is right")
        shape = tuple(map(int, size.split("x"))) if re.fullmatch(r"[0-9]{1,12}(x[0-9]{1,12}){0,3}", size) else (0,)
        count = prod(shape)
        if not 0 < count * TYPES[kind].itemsize <= MOST_BYTES:
            right = f"a number of elements such as 16384 or 128x64, of {MOST_BYTES:,} bytes at most, is right"
            raise refuse(f"the size '{size[:40]}' in '{text[:60]}'", right)
        try:
            return _filled(head, TYPES[kind], count).reshape(shape)
        except MemoryError:
            raise refuse(f"'{text[:60]}', for which there is not enough memory", "a smaller one is right") from None
    raise refuse(f"'{text}'", "a number, zeros:u32:16384 or file:in.npy is right")


def default_arguments(sizes: list[int], kernel: str, described: str) -> list[Any]:
    """Arguments for a kernel called without any: a buffer of zeros for each parameter that can be a pointer.

    Raises GpuemuError if another parameter needs a value; `described` has the sizes and types for it.
    """
    if any(size != 8 for size in sizes):
        right = f"--arg for each of its parameters, of {described} bytes, is right"
        raise GpuemuError.one("--arg", None, "", f"no argument for {kernel}", right)
    return [np.zeros(DEFAULT_BUFFER_BYTES, np.uint8) for _ in sizes]


def _filled(fill: str, kind: np.dtype[Any], count: int) -> Any:
    match fill:
        case "zeros":
            return np.zeros(count, kind)
        case "empty":
            from gpuemu.studies.check.initcheck import empty

            return empty(count, kind)
        case "ones":
            return np.ones(count, kind)
    generator = np.random.default_rng(0)
    if fill == "random" and kind.kind != "f":
        limits = np.iinfo(kind)
        return generator.integers(limits.min, limits.max, count, dtype=kind, endpoint=True)
    filled = np.empty(count, kind)
    for start in range(0, count, _BLOCK):  # in blocks, since what NumPy makes first is up to eight times as large
        part = filled[start : start + _BLOCK]
        part[:] = np.arange(start, start + len(part)) if fill == "arange" else generator.uniform(-1, 1, len(part))
    return filled


def _from_file(path: str) -> Any:
    right = f"a .npy file of numbers is right, of {MOST_BYTES:,} bytes at most"
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MOST_BYTES:
                raise ValueError(f"{size:,} bytes")
            array = read_array(file, size)
    except FileNotFoundError:
        raise GpuemuError.one(path, None, "", "no such file", right) from None
    except (OSError, ValueError) as error:
        raise GpuemuError.one(path, None, "", getattr(error, "strerror", None) or str(error), right) from None
    if array.dtype.newbyteorder("=") not in TYPES.values():
        raise GpuemuError.one(path, None, "", f"an array of {array.dtype}", f"one of {', '.join(TYPES)} is right")
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))
