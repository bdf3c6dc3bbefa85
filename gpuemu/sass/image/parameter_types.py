"""The types of a kernel's parameters. An integer argument for a float parameter would pass wrong bits.

A cubin has the sizes of parameters, and marks pointers if the compiler knew them. Two sources say more. Compilers keep
PTX beside line information (`.nv_debug_ptx_txt`): nvcc and NVRTC with -lineinfo or -G, and Triton always. The PTX
declares each parameter as `.param .f32 k_param_1`, with templates, typedefs and macros resolved. A mangled symbol has
the C++ types (`_Z5scalePfif`: float*, int, float). If neither helps, `sass.machine.memory.parameter_uses` examines the
code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import zip_longest

from gpuemu.sass.image.mangling import signature
from gpuemu.sass.image.nv_info import Parameter

_FLOATS = ("float", "double", "__half", "_Float16", "__nv_bfloat16", "__bf16", "__nv_fp8_e4m3", "__nv_fp8_e5m2")
_WHOLE = (
    "signed char", "bool", "char", "unsigned char", "int", "unsigned", "long", "unsigned long", "short",
    "unsigned short", "wchar_t", "char8_t", "char16_t", "char32_t", "long long", "unsigned long long",
)  # fmt: skip
_ENTRY = re.compile(r"\.entry\s+([\w$%]+)\s*\(([^)]*)\)")
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.([a-z]+)(\d+)(\s+\.ptr\b)?[^,\[]*(\[)?")


Declared = dict[str, tuple[str, ...]]
"""The PTX types, by kernel."""


class Kind(Enum):
    """The kind of a parameter, as far as it matters for an argument."""

    FLOAT = "float"
    WHOLE = "whole number"
    POINTER = "pointer"
    STRUCTURE = "structure"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ParameterType:
    """The kind of a parameter, and its C++ or else PTX type; "" if both are unknown."""

    kind: Kind = Kind.UNKNOWN
    name: str = ""

    @property
    def may_be_a_pointer(self) -> bool:
        """Whether it may be a pointer, as far as known; PTX has u64 for integers and pointers."""
        return self.kind in (Kind.POINTER, Kind.UNKNOWN) or (self.kind is Kind.WHOLE and not self.name)


def parameter_types(symbol: str, declared: Declared, parameters: Sequence[Parameter]) -> tuple[ParameterType, ...]:
    """Return each parameter's type from the kernel's symbol, the PTX (`declared`) and the cubin's marks."""
    count = len(parameters)
    written, compiled = signature(symbol).parameters, declared.get(symbol, ())
    written = written if len(written) == count else ()
    compiled = compiled if len(compiled) == count else ()
    found = [_type(name, ptx) for name, ptx in zip_longest(written, compiled, fillvalue="")] or [
        ParameterType()
    ] * count
    return tuple(
        replace(type_, kind=Kind.POINTER) if parameter.is_pointer and type_.may_be_a_pointer else type_
        for type_, parameter in zip(found, parameters, strict=True)
    )


def _type(name: str, ptx: str) -> ParameterType:
    bare = name.removeprefix("const ").removeprefix("volatile ")
    if bare in _FLOATS:
        return ParameterType(Kind.FLOAT, bare)
    if bare in _WHOLE:
        return ParameterType(Kind.WHOLE, bare)
    if bare.endswith(("*", "&")):
        return ParameterType(Kind.POINTER, bare)
    kind = Kind.UNKNOWN
    if ptx.endswith("*"):
        kind = Kind.POINTER
    elif ptx.endswith("[]"):
        kind = Kind.STRUCTURE
    elif ptx.startswith(("f", "bf")):
        kind = Kind.FLOAT
    elif ptx.startswith(("u", "s")):
        kind = Kind.WHOLE
    # A name that is not a C++ built-in type is a structure or an enumeration. PTX's u64 may be a pointer, and its
    # integers have no sign.
    shown = ptx if kind is Kind.FLOAT else ptx.replace("u", "i") if kind is Kind.WHOLE and ptx != "u64" else ""
    return ParameterType(kind, bare or shown)


def declared_types(ptx: bytes) -> Declared:
    """Return the types of each kernel's parameters in PTX: f32, u64, "u64*" of a pointer, "b8[]" of a structure."""
    text = ptx.replace(b"\0", b"\n").decode("ascii", errors="replace")
    found = {}
    for kernel, parameters in _ENTRY.findall(text):
        listed = [_PARAMETER.search(parameter) for parameter in parameters.split(",") if parameter.strip()]
        found[kernel] = tuple(
            "" if one is None else f"{one[1]}{one[2]}" + "*" * bool(one[3]) + "[]" * bool(one[4]) for one in listed
        )
    return found
