"""A Python interpreter below `gpuemu exec` imports this file when it starts, before the program.

The extension modules of cuda.bindings contain NVIDIA's runtime, without the names of its functions. But each of them
publishes pointers to the functions that others import from it. This file replaces these pointers by gpuemu's functions.
The program's Python may not have gpuemu, so this file does not import it.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import sys
from typing import Any

_WITH_RUNTIME = ("cuda.bindings._internal.runtime", "cuda.bindings._internal.runtime_ptds")


def _replace_runtime(module: Any) -> None:
    """Replace the functions `_cudaNAME` that a module of cuda.bindings publishes."""
    python, ours = ctypes.pythonapi, ctypes.CDLL(None)
    python.PyCapsule_GetName.restype, python.PyCapsule_GetName.argtypes = ctypes.c_void_p, [ctypes.py_object]
    python.PyCapsule_New.restype = ctypes.py_object
    python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    published = module.__pyx_capi__
    suffix = "_ptsz" if module.__name__.endswith("ptds") else ""
    for name, capsule in list(published.items()):
        wanted = name.removeprefix("_") if name.startswith("_cuda") else None
        function = wanted and (getattr(ours, wanted + suffix, None) or getattr(ours, wanted, None))
        if function:
            address = ctypes.cast(function, ctypes.c_void_p)
            published[name] = python.PyCapsule_New(address, python.PyCapsule_GetName(capsule), None)


class _Finder:
    """Calls `_replace_runtime` for modules that contain the runtime, after their import."""

    def __init__(self) -> None:
        self._seeking = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in _WITH_RUNTIME or self._seeking:
            return None
        self._seeking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._seeking = False
        if spec is not None and spec.loader is not None:
            usual = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                usual(module)
                _replace_runtime(module)

            vars(spec.loader)["exec_module"] = exec_module
        return spec


def _import_the_next() -> None:
    """Import the sitecustomize that this file hides."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != here]
    ours = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ImportError:
        sys.modules["sitecustomize"] = ours


if "GPUEMU_EXEC" in os.environ:
    sys.meta_path.insert(0, _Finder())
_import_the_next()
