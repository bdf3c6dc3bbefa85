"""Compiled functions that Numba optimizes and translates once, together with the outermost function that calls them.

Numba translates each function alone, with everything that it calls: a function ten calls below the outermost one is
optimized ten times. It only lowers a function with `pipeline_class=Part`. The first function without it links all parts
that it reaches, and LLVM optimizes and translates them as one program. Inside it every part is private, so that LLVM
inlines a part with a single caller. Python cannot call a part.
"""

from __future__ import annotations

from typing import Any

from llvmlite.binding import Linkage
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class _NoAddresses:
    """The code generator of a part, which has no address where Numba could store an environment."""

    def __init__(self, codegen: Any):
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Store nothing."""


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a part as it was lowered."""

    @property
    def codegen(self) -> Any:
        """See `_NoAddresses`."""
        return _NoAddresses(self._codegen)

    def finalize(self) -> None:
        """Neither link nor optimize."""
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0, Numba's sign of a function that is not in the library."""
        return 0

    def _get_module_for_linking(self) -> Any:
        """Return one module with the part and everything that it calls.

        LLVM takes from another library only what the module refers to by then, so the parts come first.
        """
        reached: dict[int, Any] = {}
        _reach(self, reached)
        parts = [library for library in reached.values() if isinstance(library, _PartLibrary)]
        others = [library for library in reached.values() if not isinstance(library, _PartLibrary)]
        module = self._final_module.clone()
        own = {function.name for function in module.functions if not function.is_declaration}
        for part in parts[1:]:
            module.link_in(part._final_module, preserve=True)
        for other in others:
            module.link_in(other._get_module_for_linking(), preserve=True)
        for function in module.functions:
            if not function.is_declaration and function.linkage in (Linkage.external, Linkage.linkonce_odr):
                function.linkage = Linkage.linkonce_odr if function.name in own else Linkage.internal
        return module


def _reach(library: Any, reached: dict[int, Any]) -> None:
    """Add a library by its identity, and those that a part calls; other libraries contain what they call."""
    if id(library) not in reached:
        reached[id(library)] = library
        if isinstance(library, _PartLibrary):
            for called in library._linking_libraries:
                _reach(called, reached)


class Part(Compiler):  # type: ignore[misc]
    """Compiles a function that only compiled functions call."""

    def __init__(self, typing_context: Any, target_context: Any, library: Any, *rest: Any):
        super().__init__(typing_context, target_context, library, *rest)
        if library is None:
            self.state.library = _PartLibrary(target_context.codegen(), "part")
