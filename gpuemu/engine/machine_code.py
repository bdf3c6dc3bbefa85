"""The compiled engine as machine code, kept as an object file that a process runs without Numba.

Numba takes 0.3 s to import, and 0.6 s to find its own kept code. The engine's outermost function takes two numbers and
returns one, so LLVM alone can load its code and ctypes can call it.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.engine import machine
from gpuemu.engine.state import State

OBJECT, SYMBOL = "engine.o", "engine.json"
"""The files in a folder of the cache: the code, and the name of the outermost function in it."""
Loop = Callable[[State, int], int]
"""`units.cycle.advance` as compiled code."""
_FORM = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
"""Numba's calling convention: a status, and the places of the result and of an exception before the arguments."""
_held: list[Any] = []
"""LLVM's owners of all loaded code, which stays as long as the process."""


def write(folder: Path, code: bytes, symbol: str) -> None:
    """Write the code of the outermost function `symbol` into a folder."""
    (folder / OBJECT).write_bytes(code)
    (folder / SYMBOL).write_text(json.dumps(symbol) + "\n", encoding="utf-8")


def is_in(folder: Path) -> bool:
    """Whether a folder has such code."""
    return (folder / OBJECT).is_file() and (folder / SYMBOL).is_file()


def read(folder: Path) -> Loop:
    """The engine from a folder that has its code, which nobody has damaged (see `cache.is_whole`)."""
    symbol = json.loads((folder / SYMBOL).read_text(encoding="utf-8"))
    advance = _FORM(_address((folder / OBJECT).read_bytes(), symbol))

    def on_table(table: NDArray[np.int64], cycles: int) -> int:
        result, exception = ctypes.c_int64(), ctypes.c_void_p()
        status = advance(ctypes.byref(result), ctypes.byref(exception), table.ctypes.data, cycles)
        assert status == 0, "the engine raises nothing"
        return result.value

    return on_tables(on_table)


def on_tables(advance: Callable[[NDArray[np.int64], int], int]) -> Loop:
    """Turn code that takes a table, with place and length of each list of the state, into code that takes the state."""
    names = [*machine.layout()]

    def run(state: State, cycles: int) -> int:
        lists = [getattr(state, name) for name in names]
        assert all(one.flags.c_contiguous for one in lists)
        return advance(np.array([number for one in lists for number in (one.ctypes.data, len(one))], np.int64), cycles)

    return run


def _address(code: bytes, symbol: str) -> int:
    """Load an object file, and find a function in it."""
    import llvmlite.binding as llvm

    with suppress(RuntimeError):  # newer versions need no first step, and refuse it
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
    loader = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
    loader.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
    loader.finalize_object()
    _held.append(loader)
    return int(loader.get_function_address(symbol))
