"""Which numbers a kernel takes, as far as its symbol or its source tells.

A cubin has the sizes of parameters alone. A mangled symbol has their types (`_Z5scalePfif`: float*, int, float); of an
`extern "C"` kernel they stand in the source. What neither tells stays unknown.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NoReturn

from gpuemu.base.file_kinds import is_source

_FLOATS = {"f": "float", "d": "double", "6__half": "__half"}
_NUMBERS = {
    "a": "signed char", "b": "bool", "c": "char", "h": "unsigned char", "i": "int", "j": "unsigned", "l": "long",
    "m": "unsigned long", "s": "short", "t": "unsigned short", "w": "wchar_t", "x": "long long",
    "y": "unsigned long long", **_FLOATS,
}  # fmt: skip
_BUILTIN_CODES = "abchijlmstwxyvfdegnoz"
_SUBSTITUTION = re.compile(r"S[0-9A-Z]*_|T[0-9]*_|S[absiod]|D[a-z]\d*_?")
_LENGTH = re.compile(r"\d+")
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_GLOBAL = re.compile(r"__global__[^;{}]*?([\w#]+)\s*\(([^(){}]*)\)\s*\{")
_NUMBER = re.compile(
    r"(?:const |volatile )*((?:unsigned |signed |long |short )*(?:int|unsigned|signed|long|short|char|bool|size_t|"
    r"u?int\d+_t|uint|ushort|ulong)|float|double|half|__half)"
)


def number_types(symbol: str, source: str | Path) -> tuple[str, ...]:
    """For each parameter the type in C++ if it is known to be a number, else ""; () where nothing is known.

    `source` is the file that the kernel comes from; one that is no CUDA source tells nothing.
    """
    if symbol.startswith("_Z"):
        return _of_symbol(symbol)
    try:
        text = Path(source).read_text(encoding="utf-8") if is_source(source) else ""
    except (OSError, UnicodeDecodeError):
        return ()
    return _of_source(symbol, text)


def is_float(number_type: str) -> bool:
    """Whether the numbers of a type that `number_types` names have fractions."""
    return number_type in (*_FLOATS.values(), "half")


def template_arguments(symbol: str) -> str:
    """Those of a mangled name as C++ writes them, "<float, 4>"; "" without any, or with more than types and numbers."""
    try:
        at, begin = 2, 0
        if symbol[at] == "N":
            at += 1
            while symbol[at] != "E":
                begin = at if symbol[at] == "I" else 0
                at = _past_part(symbol, at)
        else:
            at = _past_part(symbol, at)
            begin = at if symbol[at] == "I" else 0
        found, at = [], begin + 1
        while begin and symbol[at] != "E":
            end = symbol.index("E", at) + 1 if symbol[at] == "L" else _past_type(symbol, at)
            found.append(_spelled(symbol[at:end]))
            at = end
    except (IndexError, ValueError):
        return ""
    return f"<{', '.join(found)}>" if found else ""


def _spelled(argument: str) -> str:
    """A template argument: a type, or a number of some type."""
    if number := re.fullmatch(r"L([a-z])(n?)(\d+)E", argument):
        kind, minus, digits = number.groups()
        return ("false", "true")[int(digits)] if kind == "b" else "-" * bool(minus) + digits
    if argument[0] == "P":
        return f"{_spelled(argument[1:])}*"
    if argument[0] == "K":
        return f"const {_spelled(argument[1:])}"
    if (length := _LENGTH.match(argument)) and length.end() + int(length[0]) == len(argument):
        return argument[length.end() :]
    return _NUMBERS.get(argument) or _unread(argument)


def _of_symbol(symbol: str) -> tuple[str, ...]:
    try:
        at = _past_name(symbol, 2)
        if symbol[at - 1] == "E" and "I" in symbol[:at]:
            at = _past_type(symbol, at)  # templates have the type that they return in front
        kinds = []
        while at < len(symbol):
            end = _past_type(symbol, at)
            kinds.append(_NUMBERS.get(symbol[at:end].lstrip("K"), ""))
            at = end
        return tuple(kinds)
    except (IndexError, ValueError):
        return ()  # a part of the mangling that this does not read


def _past_name(symbol: str, at: int) -> int:
    if symbol[at] == "N":
        at += 1
        while symbol[at] != "E":
            at = _past_part(symbol, at)
        return at + 1
    at = _past_part(symbol, at)
    return _past_arguments(symbol, at) if symbol[at] == "I" else at


def _past_part(symbol: str, at: int) -> int:
    if symbol[at] == "I":
        return _past_arguments(symbol, at)
    if symbol[at] in "LKVr":
        return at + 1
    if match := _SUBSTITUTION.match(symbol, at):
        return match.end()
    match = _LENGTH.match(symbol, at)
    if match is None:
        raise ValueError(symbol)
    return match.end() + int(match[0])


def _past_arguments(symbol: str, at: int) -> int:
    at += 1
    while symbol[at] != "E":
        # An L begins a value: its type and number.
        at = symbol.index("E", at) + 1 if symbol[at] == "L" else _past_type(symbol, at)
    return at + 1


def _past_type(symbol: str, at: int) -> int:
    while symbol[at] in "PRKVOr":
        at += 1
    if symbol[at] in _BUILTIN_CODES:
        return at + 1
    if match := _SUBSTITUTION.match(symbol, at):
        at = match.end()
        return _past_arguments(symbol, at) if symbol[at : at + 1] == "I" else at
    return _past_name(symbol, at) if symbol[at] in "N123456789" else _unread(symbol)


def _unread(symbol: str) -> NoReturn:
    raise ValueError(symbol)


def _of_source(name: str, text: str) -> tuple[str, ...]:
    text = _COMMENTS.sub(" ", text.replace("\\\n", " "))
    found = {_kinds(parameters) for written, parameters in _GLOBAL.findall(text) if _may_be(written, name)}
    return found.pop() if len(found) == 1 else ()


def _may_be(written: str, name: str) -> bool:
    """Whether this is the name, or a macro's body makes it of `prefix##_ending`."""
    first, *rest = written.split("##")
    return written == name if not rest else name.startswith(first) or name.endswith(rest[-1])


def _kinds(parameters: str) -> tuple[str, ...]:
    listed = [" ".join(parameter.split()) for parameter in parameters.split(",")] if parameters.strip() else []
    types = [_NUMBER.fullmatch(parameter.rpartition(" ")[0]) for parameter in listed]
    return tuple("" if found is None else found[1] for found in types)
