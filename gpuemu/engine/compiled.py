"""The loop over the phases as compiled code, if Numba is installed (a dependency where it has wheels).

Compiling takes about half a minute of processor time, once for all architectures and traces. The result stays on disk
until a rule, a declaration or a version changes.

Units see arrays of records, records, and lists of numbers. Here these are types of their own: places in memory and
nothing else. The compiler learns that no two fields share a place (TBAA), so it need not read a field again after a
write to another.
"""

from __future__ import annotations

import operator
from importlib import import_module
from typing import Any
from zlib import crc32

from llvmlite import ir
from numba import extending
from numba.core import cgutils, typing

from gpuemu.base import cache
from gpuemu.engine import machine
from gpuemu.engine.advance import Loop, loop_in, on_tables
from gpuemu.engine.records import fields
from gpuemu.engine.twins import cached, folder_of, keep_object

types: Any = import_module("numba.core.types")  # its type hints lack the names used here
WORD = ir.IntType(64)
WORDS = WORD.as_pointer()


class _Place(types.Type):  # type: ignore[misc]
    """A place in memory with a name; `units` tells code for other units apart, so that one process may hold both."""

    def __init__(self, name: str, units: str):
        super().__init__(f"{type(self).__name__}({name}, {units})")
        self.place, self.units = name, units

    @property
    def mangling_args(self) -> tuple[str, tuple[object, ...]]:
        """Its short form in the name of each compiled function."""
        return f"{type(self).__name__}_{self.place}_{self.units}", ()


class NumbersType(_Place):
    """A list of numbers: its place and its length."""


class RecordType(_Place):
    """A record: its place. `form`: for each field its first word and its count of numbers, 0 for a single one."""

    def __init__(self, name: str, units: str, record: Any):
        super().__init__(name, units)
        self.form: dict[str, tuple[int, int]] = {}
        self.words = 0
        for field, count in fields(record).items():
            self.form[field] = self.words, count
            self.words += max(1, count)


class RecordsType(_Place):
    """A list of records: its place and its length."""

    def __init__(self, one: RecordType):
        super().__init__(one.place, one.units)
        self.one = one


class StateType(_Place):
    """The state: a table of its lists, two words for each. Nobody writes there while the code runs."""

    def __init__(self, units: str):
        super().__init__("", units)
        self.fields: dict[str, _Place] = {}
        for name, kind in machine.layout().items():
            numbers = kind is int
            self.fields[name] = NumbersType(name, units) if numbers else RecordsType(RecordType(name, units, kind))


@extending.register_model(StateType)
@extending.register_model(RecordType)
class _Pointer(extending.models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any):
        super().__init__(manager, kind, WORDS)


@extending.register_model(NumbersType)
@extending.register_model(RecordsType)
class _List(extending.models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any):
        super().__init__(manager, kind, [("at", types.CPointer(types.int64)), ("count", types.int64)])


@extending.infer_getattr
class _FieldsOfState(typing.templates.AttributeTemplate):  # type: ignore[misc]
    key = StateType

    def generic_resolve(self, state: StateType, name: str) -> Any:
        """The type of a list."""
        return state.fields.get(name)


@extending.infer_getattr
class _FieldsOfRecord(typing.templates.AttributeTemplate):  # type: ignore[misc]
    key = RecordType

    def generic_resolve(self, record: RecordType, name: str) -> Any:
        """The type of a field."""
        if name not in record.form:
            return None
        return NumbersType(f"{record.place}.{name}", record.units) if record.form[name][1] else types.int64


@typing.templates.infer_global(operator.getitem)
class _Item(typing.templates.AbstractTemplate):  # type: ignore[misc]
    def generic(self, arguments: Any, _: Any) -> Any:
        """A number, or a record."""
        of, index = arguments
        if isinstance(of, (NumbersType, RecordsType)) and isinstance(index, types.Integer):
            return typing.signature(of.one if isinstance(of, RecordsType) else types.int64, of, types.int64)
        return None


@typing.templates.infer_global(operator.setitem)
class _SetItem(typing.templates.AbstractTemplate):  # type: ignore[misc]
    def generic(self, arguments: Any, _: Any) -> Any:
        """Only numbers are written."""
        if isinstance(arguments[0], NumbersType) and isinstance(arguments[1], types.Integer):
            return typing.signature(types.none, arguments[0], types.int64, types.int64)
        return None


@typing.templates.infer_global(len)
class _Length(typing.templates.AbstractTemplate):  # type: ignore[misc]
    def generic(self, arguments: Any, _: Any) -> Any:
        """A number."""
        return typing.signature(types.int64, *arguments) if isinstance(arguments[0], NumbersType) else None


def _alone(builder: Any, access: Any, place: str) -> Any:
    """Mark that `access` shares its place with no other field."""
    module, zero = builder.module, ir.Constant(WORD, 0)
    kind = module.add_metadata([place, module.add_metadata(["gpuemu"]), zero])
    access.set_metadata("tbaa", module.add_metadata([kind, kind, zero]))
    return access


def _behind(builder: Any, pointer: Any, words: int) -> Any:
    return builder.gep(pointer, [ir.Constant(WORD, words)], inbounds=True)


def _made(context: Any, builder: Any, kind: Any, at: Any, count: Any) -> Any:
    made = cgutils.create_struct_proxy(kind)(context, builder)
    made.at, made.count = at, count
    return made._getvalue()


@extending.lower_getattr_generic(StateType)  # type: ignore[untyped-decorator]
def _list_of_state(context: Any, builder: Any, state: StateType, table: Any, name: str) -> Any:
    """The entry of a list in the table."""
    words = []
    for place in range(2):
        word = builder.load(_behind(builder, table, 2 * list(state.fields).index(name) + place))
        word.set_metadata("invariant.load", builder.module.add_metadata([]))
        words.append(word)
    return _made(context, builder, state.fields[name], builder.inttoptr(words[0], WORDS), words[1])


@extending.lower_getattr_generic(RecordType)  # type: ignore[untyped-decorator]
def _field(context: Any, builder: Any, record: RecordType, at: Any, name: str) -> Any:
    first, count = record.form[name]
    place, full = _behind(builder, at, first), f"{record.place}.{name}"
    if count == 0:
        return _alone(builder, builder.load(place), full)
    return _made(context, builder, NumbersType(full, record.units), place, ir.Constant(WORD, count))


@extending.lower_setattr_generic(RecordType)  # type: ignore[untyped-decorator]
def _set_field(context: Any, builder: Any, signature: Any, arguments: Any, name: str) -> None:
    record, value = signature.args[0], context.cast(builder, arguments[1], signature.args[1], types.int64)
    place = _behind(builder, arguments[0], record.form[name][0])
    _alone(builder, builder.store(value, place), f"{record.place}.{name}")


def _at(context: Any, builder: Any, kind: Any, words: int, given: Any, index: Any) -> Any:
    """The place of an element by its index, of so many words each."""
    found = cgutils.create_struct_proxy(kind)(context, builder, given)
    if context.enable_boundscheck:
        cgutils.do_boundscheck(context, builder, index, found.count)
    return builder.gep(found.at, [builder.mul(index, ir.Constant(WORD, words), flags=["nsw"])], inbounds=True)


@extending.lower_builtin(operator.getitem, NumbersType, types.Integer)  # type: ignore[untyped-decorator]
def _number(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind = signature.args[0]
    return _alone(builder, builder.load(_at(context, builder, kind, 1, *arguments)), kind.place)


@extending.lower_builtin(operator.setitem, NumbersType, types.Integer, types.Integer)  # type: ignore[untyped-decorator]
def _set_number(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind, (given, index, value) = signature.args[0], arguments
    _alone(builder, builder.store(value, _at(context, builder, kind, 1, given, index)), kind.place)
    return context.get_dummy_value()


@extending.lower_builtin(operator.getitem, RecordsType, types.Integer)  # type: ignore[untyped-decorator]
def _record(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _at(context, builder, signature.args[0], signature.return_type.words, *arguments)


@extending.lower_builtin(len, NumbersType)  # type: ignore[untyped-decorator]
def _length(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0]).count


def _holder(kind: StateType) -> Any:
    """A function that makes a state of the table, which is an array or an address."""

    @extending.intrinsic  # type: ignore[untyped-decorator]
    def held(_: Any, table: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            if isinstance(table, types.Integer):
                return builder.inttoptr(arguments[0], WORDS)
            return context.make_array(table)(context, builder, arguments[0]).data

        return kind(table), code

    return held


def loop() -> Loop:
    """`units.cycle.advance`, compiled, and kept on disk for the next process."""
    home = folder_of(machine.modules(), machine.texts())
    place, is_kept = cache.ready(home)
    if not is_kept:
        keep_object(place, machine.modules(), "advance", (0, 0), machine.texts(), _holder(_state()))
    found = loop_in(place)
    if not is_kept:
        cache.keep(place, home)
    return found


def checked_loop() -> Loop:
    """Return the same loop with every index and assertion checked. The first call compiles what is not on disk."""
    advance = cached(machine.modules(), "advance", holder=_holder(_state()), texts=machine.texts(), check_bounds=True)
    return on_tables(lambda table, cycles: int(advance(table, cycles)))


def _state() -> StateType:
    return StateType(f"{crc32(repr(machine.texts()).encode()):08x}")
