"""The loop over the phases as compiled code, for those who have Numba (`gpuemu-sm[fast]`).

Compiling takes a minute or two of processor time, once for all architectures and traces: what comes of it is kept on
disk until a rule, a declaration or a version changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any
from zlib import crc32

from llvmlite import ir
from numba import extending
from numba.core import cgutils, typing

from gpuemu.engine import machine
from gpuemu.engine.state import State
from gpuemu.engine.twins import cached

types: Any = import_module("numba.core.types")  # its type hints leave out what is used here


class StateType(types.Type):  # type: ignore[misc]
    """The state as a pointer to its arrays, which nobody counts the references to: as a tuple each call would hand
    over all of them, and as one of Numba's own structures a third of the time went into that counting.
    """

    def __init__(self, fields: dict[str, Any], units: str):
        super().__init__(f"State({units}, {fields})")
        self.fields, self.units = fields, units

    @property
    def mangling_args(self) -> tuple[str, tuple[object, ...]]:
        """How it stands in the name of each compiled function: with all its fields those were 70,000 letters long.

        Code for other units has other names, so that one process may hold both.
        """
        return f"State{self.units}", ()


@extending.register_model(StateType)
class _Model(extending.models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, state: StateType):
        arrays = [manager.lookup(array).get_value_type() for array in state.fields.values()]
        super().__init__(manager, state, ir.LiteralStructType(arrays).as_pointer())


@extending.infer_getattr
class _Attributes(typing.templates.AttributeTemplate):  # type: ignore[misc]
    key = StateType

    def generic_resolve(self, state: StateType, name: str) -> Any:
        """The type of a field."""
        return state.fields.get(name)


@extending.lower_getattr_generic(StateType)  # type: ignore[untyped-decorator]
def _field(context: Any, builder: Any, state: StateType, pointer: Any, name: str) -> Any:
    """An array of the state, owned by nobody here: whoever runs the loop holds it."""
    place = cgutils.gep_inbounds(builder, pointer, 0, list(state.fields).index(name))
    array = context.make_array(state.fields[name])(context, builder, builder.load(place))
    array.meminfo = array.parent = cgutils.get_null_value(array.meminfo.type)
    return array._getvalue()


def _holder(names: Sequence[str], units: str) -> Any:
    """Makes a state of the tuple of its arrays, for as long as the function runs that it is made in."""

    @extending.intrinsic  # type: ignore[untyped-decorator]
    def held(_: Any, arrays: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return cgutils.alloca_once_value(builder, arguments[0])

        return StateType(dict(zip(names, arrays.types, strict=True)), units)(arrays), code

    return held


def loop(*, check_bounds: bool = False) -> Callable[[State, int], int]:
    """`units.cycle.advance`, compiled or found on disk; the first call of it compiles."""
    names, texts = [*machine.layout()], machine.texts()
    holder = _holder(names, f"{crc32(repr(texts).encode()):08x}")
    advance = cached(machine.modules(), "advance", holder=holder, texts=texts, check_bounds=check_bounds)
    return lambda state, cycles: advance(tuple(getattr(state, name) for name in names), cycles)
