"""The loop over the phases as compiled code, for those who have Numba (`gpuemu-sm[fast]`).

Compiling takes a minute or two of processor time, once for all architectures and traces: what comes of it is kept on
disk until a rule, a declaration or a version changes.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any
from zlib import crc32

import numpy as np
from llvmlite import ir
from numba import extending, typeof
from numba.core import typing
from numba.np.arrayobj import populate_array

from gpuemu.engine import machine
from gpuemu.engine.allocate import nothing
from gpuemu.engine.state import State
from gpuemu.engine.twins import cached

types: Any = import_module("numba.core.types")  # its type hints leave out what is used here


class StateType(types.Type):  # type: ignore[misc]
    """The state as a pointer to a table of its arrays, two words for each: where it lies, and how long it is.

    Nobody writes there while the code runs, so what is read of it once need not be read again.
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
        super().__init__(manager, state, ir.IntType(64).as_pointer())


@extending.infer_getattr
class _Attributes(typing.templates.AttributeTemplate):  # type: ignore[misc]
    key = StateType

    def generic_resolve(self, state: StateType, name: str) -> Any:
        """The type of a field."""
        return state.fields.get(name)


@extending.lower_getattr_generic(StateType)  # type: ignore[untyped-decorator]
def _field(context: Any, builder: Any, state: StateType, table: Any, name: str) -> Any:
    """An array of the state, owned by nobody here: whoever runs the loop holds it."""
    kind, at = state.fields[name], 2 * list(state.fields).index(name)

    def word(place: int) -> Any:
        loaded = builder.load(builder.gep(table, [ir.Constant(ir.IntType(32), place)]))
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    array = context.make_array(kind)(context, builder)
    data = builder.inttoptr(word(at), array.data.type)
    itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    populate_array(array, data=data, shape=[word(at + 1)], strides=[itemsize], itemsize=itemsize, meminfo=None)
    return array._getvalue()


def _holder(fields: dict[str, Any], units: str) -> Any:
    """Makes a state of such arrays of the table."""

    @extending.intrinsic  # type: ignore[untyped-decorator]
    def held(_: Any, table: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return context.make_array(table)(context, builder, arguments[0]).data

        return StateType(fields, units)(table), code

    return held


def loop(*, check_bounds: bool = False) -> Callable[[State, int], int]:
    """`units.cycle.advance`, compiled or found on disk; the first call of it compiles."""
    made, texts = nothing(), machine.texts()
    fields = {name: typeof(getattr(made, name)) for name in machine.layout()}
    holder = _holder(fields, f"{crc32(repr(texts).encode()):08x}")
    advance = cached(machine.modules(), "advance", holder=holder, texts=texts, check_bounds=check_bounds)

    def run(state: State, cycles: int) -> int:
        arrays = [getattr(state, name) for name in fields]
        assert all(one.flags.c_contiguous for one in arrays)
        table = [number for one in arrays for number in (one.__array_interface__["data"][0], len(one))]
        return int(advance(np.array(table, np.int64), cycles))

    return run
