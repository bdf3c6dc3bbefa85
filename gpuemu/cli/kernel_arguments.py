"""Kernel arguments as the command line writes them, turned into arguments of `trace_kernel`.

    64  -3  1.5                    a number of the parameter's type
    i32:2  f32:2  bf16:1.5         a number of this type
    zeros:u32:16384                a buffer of 16384 zeros; also ones, arange (0, 1, 2, ...), random (always the same)
    empty:f32:256                  a buffer without values: `gpuemu check` reports reads before the first write
    file:in.npy                    a buffer with the contents of a NumPy file; the file does not change
    struct:zeros:f32:128,i32:128   a structure by value, by its fields; (f32:1,f32:2) is a structure in it, or an array;
                                   f32x4:1/2/3/4 is a float4, with its alignment; pad:60 is 60 bytes of zeros
    struct:params.json             a structure from a file: {"x": "zeros:f32:128", "ab": ["f32:1", "f32:2"]}

Types: u8 i8 u16 i16 u32 i32 u64 i64 f16 f32 f64, and bf16 e4m3 e5m2, whose buffers hold the bits. A size such as
256x256 is a shape.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from gpuemu.base.array_files import read_array
from gpuemu.base.errors import GpuemuError

_SIZES = {"u": (1, 2, 4, 8), "i": (1, 2, 4, 8), "f": (2, 4, 8)}
NUMPY_TYPES = {f"{kind}{8 * size}": np.dtype(f"{kind}{size}") for kind, sizes in _SIZES.items() for size in sizes}
TYPES = (*NUMPY_TYPES, "bf16", "e4m3", "e5m2")
FILLS = ("zeros", "ones", "arange", "random", "empty")
MOST_BYTES = 1 << 32
"""The most bytes of all buffers of a launch."""
MOST_DIGITS = 40
_BLOCK = 1 << 20
_WHOLE = re.compile(r"[-+]?(0x[0-9a-fA-F]+|0+|[1-9][0-9]*)")
_TYPED = re.compile(r"([a-z]+[0-9]+(?:m[0-9])?)(?:x([234]))?:(.*)", re.DOTALL)
_MOST_PADDING = 1 << 12
_MOST_DEPTH = 16
_WIDEST = 16
"""The alignment of the widest of CUDA's vector types, in bytes."""


def parse_arguments(texts: Iterable[str]) -> list[Any]:
    """All arguments of a launch. Raises GpuemuError, also for more than MOST_BYTES in all."""
    arguments: list[Any] = []
    for text in texts:
        arguments.append(parse_argument(text))
        size = sum(array.nbytes for _, array in buffers(arguments))
        if size > MOST_BYTES:
            right = f"expected at most {MOST_BYTES:,} for all arguments"
            raise _refused(f"{size:,} bytes with '{text[:60]}'", right)
    return arguments


def buffers(arguments: Sequence[Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The arrays among the arguments by number: "0", or "1.2" for the third field of the second argument."""
    for number, argument in enumerate(arguments):
        if isinstance(argument, tuple):
            yield from buffers(argument, f"{before}{number}.")
        elif isinstance(argument, np.ndarray):
            yield f"{before}{number}", argument


def parse_argument(text: str) -> Any:
    """A number, a new NumPy array, or a tuple that is a structure. Raises GpuemuError for any other text."""
    if _WHOLE.fullmatch(text):
        return _whole(text)
    if re.fullmatch(r"[-+]?[0-9]+", text):
        raise _refused(f"'{text[:40]}'", "expected a number without a leading 0, or one such as 0x10")
    try:
        return float(text)
    except ValueError:
        pass
    head, _, rest = text.partition(":")
    if head == "struct":
        return _from_json(rest) if rest.endswith(".json") else _fields(_split(rest, text), text, 0)
    return _typed(head, rest, text)


def _typed(head: str, rest: str, text: str) -> Any:
    """An argument with its type: a buffer or a number."""
    if head == "file":
        return _from_file(rest)
    if head in FILLS:
        return _buffer(head, rest, text)
    if (match := _TYPED.fullmatch(text)) and match[1] in TYPES:
        return _scalar(*match.groups())
    if _TYPED.fullmatch(text):
        raise _refused(f"the type '{head}' in '{text[:60]}'", f"expected one of {', '.join(TYPES)}")
    raise _refused(f"'{text}'", "expected a number, i32:64, zeros:u32:16384, file:in.npy or struct:f32:1.5,i32:2")


def _refused(found: str, right: str) -> GpuemuError:
    return GpuemuError.one("--arg", None, "", found, right)


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise _refused(f"a number of {len(text)} digits", "expected a number of at most 64 bits")
    return int(text, 0)


def _scalar(kind: str, count: str | None, text: str) -> Any:
    """A number of a type, or a vector of two, three or four."""
    if count is None:
        return _number(kind, text)
    from gpuemu.sass.machine.memory.arguments import Aligned, bytes_of

    parts = text.split("/")
    if len(parts) != int(count):
        right = f"expected {count} numbers, as in {kind}x{count}:{'/'.join('1234'[: int(count)])}"
        raise _refused(f"'{text[:40]}' for {kind}x{count}", right)
    data = [bytes_of(_number(kind, part)) for part in parts]
    size = len(data[0])
    return Aligned(b"".join(data), size if count == "3" else min(_WIDEST, size * len(data)))


def _number(kind: str, text: str) -> Any:
    floating = kind not in NUMPY_TYPES or NUMPY_TYPES[kind].kind == "f"
    if not floating:
        if not _WHOLE.fullmatch(text):
            raise _refused(f"'{text[:40]}' for {kind}", "expected a whole number")
        number, limits = _whole(text), np.iinfo(NUMPY_TYPES[kind])
        # Hexadecimal numbers are bits, of either sign.
        if not limits.min <= number <= int(np.iinfo(f"u{NUMPY_TYPES[kind].itemsize}").max):
            raise _refused(f"{number} for {kind}", f"expected {limits.min} to {limits.max}")
        bits = number & ((1 << limits.bits) - 1)
        return np.frombuffer(bits.to_bytes(limits.bits // 8, "little"), NUMPY_TYPES[kind])[0]
    try:
        value = float(text)
    except ValueError:
        raise _refused(f"'{text[:40]}' for {kind}", "expected a number") from None
    if kind not in NUMPY_TYPES:
        from gpuemu.sass.numbers.narrow import Narrow

        return Narrow(value, kind)
    with np.errstate(over="ignore"):
        return NUMPY_TYPES[kind].type(value)


def _split(text: str, whole: str) -> list[Any]:
    """Split a structure into its fields at commas and parentheses: texts and lists of such."""
    fields: list[Any] = []
    around: list[list[Any]] = []
    wants_one = True
    for token in re.findall(r"[(),]|[^(),]+", text):
        if wants_one == (token in ",)") or (token == ")" and not around):
            raise _refused(f"'{token}' in '{whole[:60]}'", "expected fields with a comma between them")
        if token == "(":
            around.append(fields)
            fields = []
        elif token == ")":
            inner, fields = fields, around.pop()
            fields.append(inner)
        elif token != ",":
            fields.append(token)
        wants_one = token in "(,"
    if around or wants_one:
        raise _refused(f"'{whole[:60]}'", "expected struct: with fields, as in struct:f32:1.5,(i32:2,i32:3)")
    return fields


def _fields(fields: Iterable[Any], where: str, depth: int) -> tuple[Any, ...]:
    """A structure from fields that each have a type."""
    found: list[Any] = []
    for field in fields:
        if isinstance(field, list | dict) and depth < _MOST_DEPTH:
            found.append(_fields(field.values() if isinstance(field, dict) else field, where, depth + 1))
        elif not isinstance(field, str) or re.fullmatch(r"[-+0-9.].*", field):
            right = "expected a field with its type, such as i32:64, f32:1.5 or zeros:f32:128"
            raise _refused(f"the field '{str(field)[:40]}' in '{where[:60]}'", right)
        elif (padding := re.fullmatch(r"pad:([0-9]{1,4})", field)) and int(padding[1]) <= _MOST_PADDING:
            found.append(bytes(int(padding[1])))
        else:
            found.append(_typed(*field.partition(":")[::2], field))
    return tuple(found)


def _from_json(path: str) -> tuple[Any, ...]:
    right = 'Give a list or an object of fields, such as {"x": "zeros:f32:128", "n": "i32:128"}'
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except OSError as error:
        raise GpuemuError.one(path, None, "", str(error.strerror).lower(), right) from None
    except (ValueError, RecursionError):
        raise GpuemuError.one(path, None, "", "invalid JSON", right) from None
    if not isinstance(content, list | dict) or not content:
        raise GpuemuError.one(path, None, "", f"{content!r}"[:60], right)
    return _fields(content.values() if isinstance(content, dict) else content, path, 0)


def _buffer(fill: str, rest: str, text: str) -> Any:
    kind, _, size = rest.partition(":")
    if kind not in TYPES:
        raise _refused(f"the type '{kind}' in '{text}'", f"expected one of {', '.join(TYPES)}")
    narrow = kind not in NUMPY_TYPES
    stored = np.dtype(np.uint16 if kind == "bf16" else np.uint8) if narrow else NUMPY_TYPES[kind]
    shape = tuple(map(int, size.split("x"))) if re.fullmatch(r"[0-9]{1,12}(x[0-9]{1,12}){0,3}", size) else (0,)
    count = prod(shape)
    if not 0 < count * stored.itemsize <= MOST_BYTES:
        right = f"expected a number of elements such as 16384 or 128x64, of at most {MOST_BYTES:,} bytes"
        raise _refused(f"the size '{size[:40]}' in '{text[:60]}'", right)
    try:
        if not narrow or fill in ("zeros", "empty"):
            return _kept_as(kind, _filled(fill, stored, count).reshape(shape))
        from gpuemu.sass.numbers.narrow import encode

        return _kept_as(kind, encode(kind, _filled(fill, np.dtype("f4"), count)).reshape(shape))
    except MemoryError:
        raise _refused(f"not enough memory for '{text[:60]}'", "Give a smaller one") from None


def _kept_as(kind: str, bits: Any) -> Any:
    """The array, with the name of its type where NumPy has no such type."""
    if kind in NUMPY_TYPES:
        return bits
    from gpuemu.sass.numbers.narrow import named

    return named(kind, bits)


def _filled(fill: str, kind: np.dtype[Any], count: int) -> Any:
    match fill:
        case "zeros":
            return np.zeros(count, kind)
        case "empty":
            from gpuemu.studies.check.initcheck import empty

            return empty(count, kind)
        case "ones":
            return np.ones(count, kind)
    generator = np.random.default_rng(0)
    if fill == "random" and kind.kind != "f":
        limits = np.iinfo(kind)
        return generator.integers(limits.min, limits.max, count, dtype=kind, endpoint=True)
    filled = np.empty(count, kind)
    for start in range(0, count, _BLOCK):  # in blocks, because NumPy's first array is up to eight times as large
        part = filled[start : start + _BLOCK]
        part[:] = np.arange(start, start + len(part)) if fill == "arange" else generator.uniform(-1, 1, len(part))
    return filled


def _from_file(path: str) -> Any:
    right = f"Give a .npy file of numbers, of at most {MOST_BYTES:,} bytes"
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MOST_BYTES:
                raise ValueError(f"{size:,} bytes")
            array = read_array(file, size)
    except FileNotFoundError:
        raise GpuemuError.one(path, None, "", "no such file", right) from None
    except (OSError, ValueError) as error:
        raise GpuemuError.one(path, None, "", getattr(error, "strerror", None) or str(error), right) from None
    if array.dtype.newbyteorder("=") not in NUMPY_TYPES.values():
        raise GpuemuError.one(path, None, "", f"an array of {array.dtype}", f"expected one of {', '.join(NUMPY_TYPES)}")
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))
