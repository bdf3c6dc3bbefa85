"""Compiled functions as machine code, kept as object files that a process runs without Numba.

Numba takes 0.3 s to import, and 0.6 s to find its own kept code. A function that takes numbers and arrays of numbers,
and returns a whole number, needs neither: LLVM loads its code, and ctypes calls it.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

OBJECT, SYMBOL = "machine.o", "machine.json"
"""The files in a folder of the cache: the code, and the name of the outermost function in it."""
_INTEGER, _FLOAT = "integer", "float"
_WORD = ctypes.c_int64
_ARRAY = [_WORD] * 7
"""How Numba passes an array: its owner and parent, which code that allocates nothing does not read, its length, the
size of an element, its place, its length again, and the distance of elements.
"""
_RETURNED = (0, -2)
"""Numba's statuses of a function that raises nothing; the second is that of None."""
_OF_SYSTEM = "fmod", "memcpy", "memmove", "memset", "pow"
"""Functions of the C library that LLVM calls for instructions of its own."""
_held: list[Any] = []
"""LLVM's owners of all loaded code, which stays as long as the process."""


def form_of(values: Any) -> str:
    """The kinds of the numbers and arrays in nested tuples, separated by commas. Raises TypeError for anything else."""
    return ",".join(map(_form_of, values))


def _form_of(value: Any) -> str:
    if isinstance(value, tuple):
        return form_of(value)
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.flags.c_contiguous and value.dtype.kind in "if":
        return str(value.dtype.name)
    if isinstance(value, float):
        return _FLOAT
    if isinstance(value, int | np.int64) and not isinstance(value, bool):
        return _INTEGER
    raise TypeError(f"machine code takes no {type(value).__name__}")


def _put(values: Any, numbers: list[Any]) -> None:
    for value in values:
        if isinstance(value, tuple):
            _put(value, numbers)
        elif isinstance(value, np.ndarray):
            numbers += (0, 0, len(value), value.itemsize, value.ctypes.data, len(value), value.itemsize)
        else:
            numbers.append(value if isinstance(value, float) else int(value))


def write(folder: Path, code: bytes, symbol: str) -> None:
    """Write the code of the outermost function `symbol` into a folder."""
    (folder / OBJECT).write_bytes(code)
    (folder / SYMBOL).write_text(json.dumps(symbol) + "\n", encoding="utf-8")


def is_in(folder: Path) -> bool:
    """Whether a folder has such code."""
    return (folder / OBJECT).is_file() and (folder / SYMBOL).is_file()


def read(folder: Path, form: str) -> Callable[..., int]:
    """The function whose code is in a folder, for values of this form. Nobody has damaged it (see `cache.is_whole`)."""
    symbol = json.loads((folder / SYMBOL).read_text(encoding="utf-8"))
    kinds: dict[str, list[Any]] = {_INTEGER: [_WORD], _FLOAT: [ctypes.c_double]}
    types = [kind for name in form.split(",") for kind in kinds.get(name, _ARRAY)]
    function = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *types)(
        _address((folder / OBJECT).read_bytes(), symbol)
    )

    def call(*values: Any) -> int:
        numbers: list[Any] = []
        _put(values, numbers)
        result, exception = _WORD(), ctypes.c_void_p()
        status = function(ctypes.byref(result), ctypes.byref(exception), *numbers)
        assert status in _RETURNED, "the code raises nothing"
        return result.value

    return call


def _address(code: bytes, symbol: str) -> int:
    """Load an object file, and find a function in it."""
    import llvmlite.binding as llvm

    with suppress(RuntimeError):  # newer versions need no first step, and refuse it
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
    loader = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
    if not all(map(llvm.address_of_symbol, _OF_SYSTEM)):
        _held.append(import_module("numba.core.registry").cpu_target.target_context)  # adds those that a system lacks
    loader.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
    loader.finalize_object()
    _held.append(loader)
    return int(loader.get_function_address(symbol))
