"""Act on a module right after a program has imported it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.util import find_spec
from typing import Any


@contextmanager
def after_import(name: str, act: Callable[[Any], object]) -> Iterator[None]:
    """A context in which `act` gets a module as soon as it is there: now if it was imported before."""
    if name in sys.modules:
        act(sys.modules[name])
        yield
        return
    finder = _Finder(name, act)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    def __init__(self, name: str, act: Callable[[Any], object]):
        self._name, self._act = name, act

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._act)
        return spec


class _Loader(Loader):
    def __init__(self, usual: Any, act: Callable[[Any], object]):
        self._usual, self._act = usual, act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._usual, name)

    def create_module(self, spec: Any) -> Any:
        return self._usual.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self._usual.exec_module(module)
        module.__loader__ = module.__spec__.loader = self._usual
        self._act(module)
