"""Modules that Numba compiles, for those who have it and for runs that are long enough (`gpuemu-sm[fast]`).

Loading Numba takes half a second, the first use of a module a few more; after that, what was compiled is kept on disk
for as long as the module's file is the same, so that such a module imports nothing of ours. It is loaded when what it
is for has been asked for so often that NumPy took about as long. Results are the same with and without.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


class Compiled:
    """A module that is loaded when it has been asked for `calls` times."""

    def __init__(self, name: str, calls: int):
        self.module: ModuleType | None = None
        self.calls = calls
        self._name = name

    def load(self) -> bool:
        """Have the module from now on; whether it is there."""
        self.calls = 0
        try:
            self.module = import_module(self._name)
        except (ImportError, RuntimeError, OSError):  # none, or none that fits NumPy, or nowhere to keep what it makes
            self.module = None
        return self.module is not None

    def ask(self) -> ModuleType | None:
        """The module if it is loaded."""
        if self.module is None and self.calls > 0:
            self.calls -= 1
            if self.calls == 0:
                self.load()
        return self.module
