"""The loop over the phases as compiled code, for those who have Numba (`gpuemu-sm[fast]`).

Compiling takes a minute or two of processor time, once for all architectures and traces: what comes of it is kept on
disk until a rule, a declaration or a version changes.
"""

from __future__ import annotations

from collections.abc import Callable
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

    @property
    def mangling_args(self) -> tuple[str, tuple[object, ...]]:
        """How it stands in the name of each compiled function: with all its fields those were 70,000 letters long."""
        return "State", ()


class Held(structref.StructRefProxy):  # type: ignore[misc]
    """What makes it of the fields, in compiled code alone: for Python that would be compiled by every process."""


structref.define_proxy(Held, StateType, list(State._fields))


def loop(*, check_bounds: bool = False) -> Callable[[State, int], int]:
    """`units.cycle.advance`, compiled or found on disk; the first call of it compiles."""
    return cached(UNITS, "advance", holder=Held, check_bounds=check_bounds)
