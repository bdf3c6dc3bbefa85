"""The bytes of a launch's arguments, in the types of the kernel's parameters.

An argument with its own type (an array, a NumPy or ctypes scalar, a structure) keeps its layout. A plain number is
converted to the type of the parameter, as in a C++ call: an integer becomes a `float`. If neither the symbol nor the
debug information has the type, the code decides. Either it does integer arithmetic with the parameter, or an integer is
refused, because its bits would silently be another number.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.errors import GpuemuError
from gpuemu.sass.image.parameter_types import Kind, ParameterType
from gpuemu.sass.machine.memory.parameter_uses import Use, parameter_uses
from gpuemu.sass.machine.memory.storage import Memory
from gpuemu.sass.machine.memory.tensor_map import ALIGNMENTS as MAP_ALIGNMENTS
from gpuemu.sass.machine.memory.tensor_map import BYTES as MAP_BYTES
from gpuemu.sass.machine.memory.tensor_map import TensorMap
from gpuemu.sass.numbers.narrow import STORED, Narrow, encode
from gpuemu.sass.tools.disassembly import DecodedFunction

DEFAULT_BUFFER_BYTES = 1 << 20
NO_ARGUMENTS = "no --arg: each pointer gets a buffer of 1 MiB of zeros"
"""The note for a launch with `default_arguments`."""
_POINTER_BYTES = 8
_FLOATS = {1: ("e4m3", "e5m2"), 2: ("f16", "bf16"), 4: ("f32",), 8: ("f64",)}
"""The possible types of a float by its bytes, as on the command line."""
_SPELLED = {
    "__half": "f16", "_Float16": "f16", "__nv_bfloat16": "bf16", "__bf16": "bf16", "__nv_fp8_e4m3": "e4m3",
    "__nv_fp8_e5m2": "e5m2",
}  # fmt: skip
_WHOLE = (bool, int, np.integer, np.bool_)
_FLOAT = (float, np.floating)


@dataclass(frozen=True)
class Aligned:
    """Bytes of a structure's member, and its alignment in C: both are 16 for a float4."""

    data: bytes
    alignment: int


@dataclass(frozen=True, eq=False)
class Pointer:
    """A pointer `offset` bytes into a buffer; pointers into the same array share the buffer."""

    array: NDArray[np.uint8]
    offset: int = 0


def default_arguments(function: DecodedFunction) -> list[Any]:
    """Arguments for a kernel that was given none: a buffer of zeros for each parameter.

    Raises GpuemuError if a parameter cannot be a pointer, because nothing says its value.
    """
    types = zip(function.parameters, function.parameter_types, strict=True)
    if not all(p.size == _POINTER_BYTES and type_.may_be_a_pointer for p, type_ in types):
        count, sizes = len(function.parameters), parameter_sizes(function)
        found = f"{function.source_name} needs {count} argument{'s' * (count != 1)}, of {sizes} bytes"
        right = "Give one --arg for each: random:f32:4096 for a pointer, 64 for a number"
        raise GpuemuError.one("--arg", None, "", found, right)
    return [np.zeros(DEFAULT_BUFFER_BYTES, np.uint8) for _ in function.parameters]


def arguments_bytes(function: DecodedFunction, args: Sequence[Any], memory: Memory) -> list[bytes]:
    """Return the bytes of each parameter; arrays become buffers of `memory`. Raises GpuemuError if they do not fit."""
    file, parameters, types = function.cubin.file, function.parameters, function.parameter_types
    if len(args) != len(parameters):
        found = f"{len(args)} argument{'s' * (len(args) != 1)}"
        sizes = f", of {parameter_sizes(function)} bytes" * bool(parameters)
        if last := function.driver_parameters:
            sizes += f"; on a GPU the driver makes the last {last}, and here you make each with gpuemu.TensorMap"
        raise GpuemuError.one(file, None, function.name, found, f"expected {len(parameters)}{sizes}")
    given = [_with_type(argument) for argument in args]
    uses = _uses(function) if any(map(_asks_the_code, given, types)) else (Use.NONE,) * len(parameters)
    found_bytes = []
    for number, (argument, parameter) in enumerate(zip(given, parameters, strict=True)):
        at = _Place(file, f"argument {number}", parameter.size, types[number], uses[number])
        is_number = isinstance(argument, (*_WHOLE, *_FLOAT))
        found_bytes.append(_number(argument, at) if is_number else _other(argument, at, memory))
    return found_bytes


def parameter_sizes(function: DecodedFunction) -> str:
    """Return the bytes of each parameter, and its type if it is known to be a number: "8, 4 (int)"."""
    pairs = zip(function.parameters, function.parameter_types, strict=True)
    return ", ".join(
        f"{p.size}{f' ({t.name})' * (t.kind in (Kind.FLOAT, Kind.WHOLE) and t.name != '')}" for p, t in pairs
    )


@dataclass(frozen=True)
class _Place:
    """A parameter: its name in messages, its size, and the known facts about its type and its use in the code."""

    file: str
    field: str
    size: int
    type: ParameterType
    use: Use

    def refuse(self, found: str, right: str) -> GpuemuError:
        return GpuemuError.one(self.file, None, self.field, found, right)


def _with_type(argument: Any) -> Any:
    """Convert ctypes and arrays without axes to values that have a type."""
    if isinstance(argument, ctypes._SimpleCData):
        kind = np.dtype("u8") if isinstance(argument, ctypes.c_void_p) else np.dtype(type(argument))
        return np.frombuffer(bytes(argument), kind)[0]
    if isinstance(argument, ctypes.Structure | ctypes.Union | ctypes.Array):
        return Aligned(bytes(argument), ctypes.alignment(argument))
    return argument[()] if isinstance(argument, np.ndarray) and not argument.ndim else argument


def bytes_of(number: np.generic | Narrow) -> bytes:
    """Return the bytes of a number that has a type."""
    return number.bits if isinstance(number, Narrow) else number.tobytes()


def _asks_the_code(argument: Any, type_: ParameterType) -> bool:
    return isinstance(argument, (*_WHOLE, *_FLOAT)) and type_.kind in (Kind.UNKNOWN, Kind.STRUCTURE)


def _uses(function: DecodedFunction) -> tuple[Use, ...]:
    return parameter_uses(function.code, function.parameter_base, function.parameters, function.branch_targets)


def _number(argument: Any, at: _Place) -> bytes:
    whole = isinstance(argument, _WHOLE)
    says = isinstance(argument, np.generic | Narrow) and len(bytes_of(argument)) == at.size
    kind = at.type.kind
    if kind is Kind.FLOAT:
        bits = says and at.size <= 2 and isinstance(argument, np.unsignedinteger)  # NumPy has no bf16 type
        if bits:
            return bytes_of(argument)
        try:
            return _float_bytes(float(argument), _float_of(at), at.size)
        except OverflowError:
            raise at.refuse("the number is too large for a float", "Give one that a float can hold") from None
    if kind in (Kind.WHOLE, Kind.POINTER):
        if not whole:
            raise at.refuse(str(argument), "expected a whole number, as the kernel declares it")
        return _whole_bytes(int(argument), at)
    if says:
        return bytes_of(argument)
    if whole:
        if argument and (at.size not in _FLOATS or (at.use in (Use.FLOAT, Use.EITHER) and at.size > 1)):
            raise _either(int(argument), at)
        return _whole_bytes(int(argument), at)
    if at.use is Use.WHOLE:
        raise at.refuse(str(argument), "expected a whole number, as the code uses it")
    if at.size not in (4, 8) and argument:
        raise _either(float(argument), at)
    return _float_bytes(float(argument), _float_of(at), at.size)


def _either(number: float, at: _Place) -> GpuemuError:
    """Return the error for an ambiguous number, with the ways to write each meaning."""
    if at.size not in _FLOATS or (at.type.kind is Kind.STRUCTURE and at.size > 2):
        named = f" {at.type.name}" * bool(at.type.name)
        fields = "expected struct: and its fields, as in struct:f32:1.5,i32:2; in Python a tuple of NumPy scalars"
        return at.refuse(f"{number} for the structure{named} of {at.size} bytes", fields)
    bits = 8 * at.size
    ways = [f"{float(number)}"] if at.size > 2 else [f"{kind}:{number}" for kind in _FLOATS[at.size]]
    written = [f"np.float{bits}({number})"] if at.size > 1 else []
    if float(number).is_integer():
        ways.append(f"i{bits}:{int(number)}")
        written.append(f"np.int{bits}({int(number)})")
    what = "that the code uses as a float" if at.use is Use.FLOAT else "that may be a whole number or a float"
    python = f"; in Python {' or '.join(written)}" * bool(written)
    listed = " or ".join(filter(None, [", ".join(ways[:-1]), ways[-1]]))
    return at.refuse(f"{number} for {at.size} bytes {what}", f"expected {listed}{python}")


def _float_of(at: _Place) -> str:
    return _SPELLED.get(at.type.name) or _FLOATS.get(at.size, ("",))[0]


def _float_bytes(number: float, kind: str, size: int) -> bytes:
    if kind in STORED:
        return encode(kind, number).tobytes()
    with np.errstate(over="ignore"):
        return np.array(number, dtype=f"f{size}").tobytes()


def _whole_bytes(number: int, at: _Place) -> bytes:
    low, high = -(1 << (8 * at.size - 1)), 1 << (8 * at.size)
    if not low <= number < high:
        raise at.refuse(str(number), f"expected a number that fits {at.size} bytes")
    return (number % high).to_bytes(at.size, "little")


def _other(argument: Any, at: _Place, memory: Memory) -> bytes:
    takes = f"expected {'a value of ' * (not isinstance(argument, tuple))}{at.size} bytes"
    if isinstance(argument, Pointer):
        if at.size != _POINTER_BYTES:
            raise at.refuse("a pointer", takes)
        return np.uint64(memory.place(at.field, argument.array) + argument.offset).tobytes()
    if isinstance(argument, TensorMap):
        if at.size != MAP_BYTES:
            raise at.refuse("a tensor map", takes)
        return _map_bytes(argument, at.field, memory)
    if isinstance(argument, np.ndarray):
        if at.size != _POINTER_BYTES:
            raise at.refuse("an array", takes)
        return np.uint64(memory.add_buffer(at.field, argument)).tobytes()
    if isinstance(argument, tuple):
        parts = _members(argument, at.field, memory, at.file)
        # CUDA 13 aligns tensor maps to 128 bytes, and earlier versions to 64; the structure's size shows which.
        laid = [_laid_out(parts, alignment)[0] for alignment in (MAP_ALIGNMENTS if _has_map(argument) else (1,))]
        data = next((data for data in laid if len(data) == at.size), laid[0])
    elif isinstance(argument, bytes | Aligned | np.void):
        data = (
            argument.data
            if isinstance(argument, Aligned)
            else argument
            if isinstance(argument, bytes)
            else argument.tobytes()
        )
    else:
        right = "expected an array, a number, the bytes themselves or a tuple of members"
        raise at.refuse(f"{type(argument).__name__} for {at.size} bytes", right)
    if len(data) != at.size:
        raise at.refuse(f"a structure of {len(data)} bytes", takes)
    return data


def _map_bytes(argument: TensorMap, field: str, memory: Memory) -> bytes:
    return argument.encode(memory.add_buffer(field, argument.memory()))


Part = tuple[bytes, int] | list["Part"]
"""A member's bytes and alignment (0 for a tensor map), or the members of a nested structure."""


def _has_map(members: tuple[Any, ...]) -> bool:
    return any(isinstance(m, TensorMap) or (isinstance(m, tuple) and _has_map(m)) for m in members)


def _members(members: tuple[Any, ...], field: str, memory: Memory, file: str) -> list[Part]:
    """Return the parts of a structure; each array in it becomes a buffer."""
    parts: list[Part] = []
    for position, member in enumerate(map(_with_type, members)):
        name = f"{field}.{position}"
        if isinstance(member, tuple):
            parts.append(_members(member, name, memory, file))
        elif isinstance(member, TensorMap):
            parts.append((_map_bytes(member, name, memory), 0))
        elif isinstance(member, Pointer):
            address = memory.place(name, member.array) + member.offset
            parts.append((np.uint64(address).tobytes(), _POINTER_BYTES))
        elif isinstance(member, np.ndarray):
            parts.append((np.uint64(memory.add_buffer(name, member)).tobytes(), _POINTER_BYTES))
        elif isinstance(member, Aligned):
            parts.append((member.data, member.alignment))
        elif isinstance(member, Narrow):
            parts.append((member.bits, len(member.bits)))
        elif isinstance(member, np.generic):
            parts.append((member.tobytes(), member.dtype.alignment))
        elif isinstance(member, bytes):
            parts.append((member, 1))
        else:
            right = "expected an array, a NumPy scalar such as np.int32(1), bytes or another tuple"
            raise GpuemuError.one(file, None, name, type(member).__name__, right)
    return parts


def _laid_out(parts: list[Part], of_maps: int) -> tuple[bytes, int]:
    """Return the bytes of a structure and its alignment: members in order, each aligned to its size, as in C."""
    data, alignment = b"", 1
    for part in parts:
        content, aligned = _laid_out(part, of_maps) if isinstance(part, list) else part
        aligned = aligned or of_maps
        data += bytes(-len(data) % aligned) + content
        alignment = max(alignment, aligned)
    return data + bytes(-len(data) % alignment), alignment
