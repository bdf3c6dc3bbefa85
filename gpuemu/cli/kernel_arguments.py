"""Kernel arguments as the command line writes them, turned into what `trace_kernel` takes.

    64  -3  1.5                    a number
    zeros:u32:16384                a buffer of 16384 zeros; also ones, arange (0, 1, 2, ...), random (always the same)
    file:in.npy                    a buffer with the contents of a NumPy file, which itself is not changed

Types: u8 i8 u16 i16 u32 i32 u64 i64 f16 f32 f64; sizes may be written as products, 256x256.
"""

from __future__ import annotations

import re
from math import prod
from typing import Any

import numpy as np

from gpuemu.base.errors import GpuemuError

_SIZES = {"u": (1, 2, 4, 8), "i": (1, 2, 4, 8), "f": (2, 4, 8)}
TYPES = {f"{kind}{8 * size}": np.dtype(f"{kind}{size}") for kind, sizes in _SIZES.items() for size in sizes}
FILLS = ("zeros", "ones", "arange", "random")
MOST_BYTES = 1 << 34
DEFAULT_BUFFER_BYTES = 1 << 20


def parse_argument(text: str) -> Any:
    """An int, a float or a new NumPy array. Raises GpuemuError that says what is right."""

    def refuse(found: str, right: str) -> GpuemuError:
        return GpuemuError.one("--arg", None, "", found, right)

    if re.fullmatch(r"[-+]?(0x[0-9a-fA-F]+|\d+)", text):
        return int(text, 0)
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
        count = prod(map(int, size.split("x"))) if re.fullmatch(r"\d+(x\d+)*", size) else 0
        if not 0 < count * TYPES[kind].itemsize <= MOST_BYTES:
            raise refuse(f"the size '{size}' in '{text}'", "a number of elements such as 16384 or 128x64 is right")
        return _filled(head, TYPES[kind], count)
    raise refuse(f"'{text}'", "a number, zeros:u32:16384 or file:in.npy is right")


def default_arguments(sizes: list[int], kernel: str) -> list[Any]:
    """Arguments for a kernel called without any: a buffer of zeros for each parameter that can be a pointer.

    Raises GpuemuError if another parameter needs a value.
    """
    if any(size != 8 for size in sizes):
        right = f"--arg for each of its parameters, of {', '.join(map(str, sizes))} bytes, is right"
        raise GpuemuError.one("--arg", None, "", f"no argument for {kernel}", right)
    return [np.zeros(DEFAULT_BUFFER_BYTES, np.uint8) for _ in sizes]


def _filled(fill: str, kind: np.dtype[Any], count: int) -> Any:
    match fill:
        case "zeros":
            return np.zeros(count, kind)
        case "ones":
            return np.ones(count, kind)
        case "arange":
            return np.arange(count).astype(kind)
    generator = np.random.default_rng(0)
    if kind.kind == "f":
        return generator.uniform(-1, 1, count).astype(kind)
    limits = np.iinfo(kind)
    return generator.integers(limits.min, limits.max, count, dtype=kind, endpoint=True)


def _from_file(path: str) -> Any:
    right = "a .npy file of numbers is right"
    try:
        array = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise GpuemuError.one(path, None, "", "no such file", right) from None
    except (OSError, ValueError, EOFError):
        raise GpuemuError.one(path, None, "", "a file that NumPy cannot read", right) from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "uif":
        raise GpuemuError.one(path, None, "", "no array of numbers", right)
    return np.ascontiguousarray(array)
