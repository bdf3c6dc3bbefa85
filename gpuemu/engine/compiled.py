"""The loop over the phases as compiled code, for those who have Numba (`gpuemu-sm[fast]`).

Compiling takes a minute or two of processor time, once for all architectures and traces: what comes of it is kept on
disk until a rule, a declaration or a version changes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from numba.experimental import structref

from gpuemu.engine.state import State
from gpuemu.engine.twins import cached
from gpuemu.engine.units import UNITS

types: Any = import_module("numba.core.types")  # its type hints leave out what is used here


@structref.register
class StateType(types.StructRef):  # type: ignore[misc]
    """The state as one pointer: as a tuple each call would hand over all its arrays."""

    def preprocess_fields(self, fields: Any) -> Any:
        """Fields as they are, not as the constants that they may begin as."""
        return tuple((name, types.unliteral(kind)) for name, kind in fields)


class StateProxy(structref.StructRefProxy):  # type: ignore[misc]
    """The same, held by Python."""


structref.define_proxy(StateProxy, StateType, list(State._fields))


@cache
def loop() -> Callable[[StateProxy, int], int]:
    """`units.cycle.advance`, compiled or found on disk; the first call of it compiles."""
    return cached(UNITS, "advance")
