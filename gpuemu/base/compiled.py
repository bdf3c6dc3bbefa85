"""Modules that Numba compiles, for those who have it and for runs that are long enough.

Loading Numba takes half a second, the first use of a module a few more; after that, what was compiled is kept on disk
(see `cache`) for as long as the module's file is the same, so that such a module imports nothing of ours. It is loaded
when what it is for has been asked for so often that NumPy took about as long. Results are the same with and without.
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
"""So long another process that compiles the same is waited for; NumPy does without."""


def compiler() -> str:
    """Tells the compiler, and the processor that it compiles for, from all others."""
    import llvmlite.binding as llvm

    versions = [version(name) for name in ("numba", "llvmlite", "numpy")]
    return repr((sys.version_info[:3], versions, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()))


class Compiled:
    """A module that is loaded when it has been asked for `calls` times."""

    def __init__(self, name: str, calls: int):
        self.module: ModuleType | None = None
        self.calls = calls
        self._name = name

    @property
    def is_missing(self) -> bool:
        """Whether it has been asked for often enough, and cannot be had."""
        return self.module is None and self.calls <= 0

    def load(self) -> bool:
        """Have the module from now on; whether it is there."""
        self.calls = 0
        try:
            self.module = self._imported()
        except (ImportError, RuntimeError, OSError):  # none, or none that fits NumPy, or nowhere to keep what it makes
            self.module = None
        return self.module is not None

    def ask(self, calls: int = 1) -> ModuleType | None:
        """The module, once so many calls have come together; `calls`: what this one counts for."""
        if self.module is None and self.calls > 0:
            self.calls -= calls
            if self.calls <= 0:
                self.load()
        return self.module

    def _imported(self) -> ModuleType:
        """The module, with its compiled code from the cache; Numba is told that place for as long as it takes."""
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
        """Where its compiled code is kept."""
        spec = find_spec(self._name)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(self._name)
        source = Path(spec.origin)
        told = repr((compiler(), str(source), source.stat().st_mtime_ns)).encode()
        name = self._name.rpartition(".")[0].rpartition(".")[2]
        return cache.cache_folder() / f"{name}-{hashlib.sha256(told + source.read_bytes()).hexdigest()[:16]}"
