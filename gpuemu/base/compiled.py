"""Modules that Numba compiles, if it is installed and the run is long enough.

Loading Numba takes half a second, and the first use of a module takes a few more seconds. The compiled code is then
kept on disk (see `cache`) until the module's file changes; therefore such a module imports nothing of gpuemu. A module
is loaded once NumPy has spent about as long on its work. Results are the same with and without Numba.
"""

from __future__ import annotations

import hashlib
import sys
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from gpuemu.base import cache

_PATIENCE_S = 60.0
"""Time to wait for another process that compiles the same; after that, NumPy does the work."""


def compiler() -> str:
    """Return a text that identifies the compiler and the processor that it compiles for."""
    import llvmlite.binding as llvm

    versions = [version(name) for name in ("numba", "llvmlite", "numpy")]
    return repr((sys.version_info[:3], versions, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()))


class Compiled:
    """A module that is loaded after `calls` requests."""

    def __init__(self, name: str, calls: int):
        self.module: ModuleType | None = None
        self.calls = calls
        self._name = name

    @property
    def is_missing(self) -> bool:
        """Whether the module was requested often enough but cannot be loaded."""
        return self.module is None and self.calls <= 0

    def load(self) -> bool:
        """Load the module now; return whether that worked."""
        self.calls = 0
        try:
            self.module = self._imported()
        except (ImportError, RuntimeError, OSError):  # not installed, does not fit NumPy, or cannot keep its code
            self.module = None
        return self.module is not None

    def ask(self, calls: int = 1) -> ModuleType | None:
        """Return the module once enough calls were made, or else None. `calls`: the number of calls of this request."""
        if self.module is None and self.calls > 0:
            self.calls -= calls
            if self.calls <= 0:
                self.load()
        return self.module

    def _imported(self) -> ModuleType:
        """Import the module with its compiled code from the cache, which is Numba's cache folder meanwhile."""
        config: Any = import_module("numba.core.config")
        home = self.folder()
        with cache.turn(home, most_s=_PATIENCE_S):
            place, is_kept = cache.ready(home)
            before, config.CACHE_DIR = config.CACHE_DIR, str(place)
            try:
                module = import_module(self._name)
            finally:
                config.CACHE_DIR = before
            if not is_kept:
                cache.keep(place, home)
        return module

    def folder(self) -> Path:
        """Return the folder that keeps its compiled code."""
        spec = find_spec(self._name)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(self._name)
        source = Path(spec.origin)
        told = repr((compiler(), str(source), source.stat().st_mtime_ns)).encode()
        name = self._name.rpartition(".")[0].rpartition(".")[2]
        return cache.cache_folder() / f"{name}-{hashlib.sha256(told + source.read_bytes()).hexdigest()[:16]}"
