"""printf as device code calls it: a format, and its arguments packed in memory at their natural alignment.

int and unsigned take 4 bytes, long, long long and pointers take 8, and every float is a double. Conversions, flags,
width and precision are those of C. The output matches glibc, which prints it for a CUDA program.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

_CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d*))?(hh|h|ll|l|z|j|t|L)?(.)", re.DOTALL)
_LONG = ("l", "ll", "z", "j", "t")
_NARROW = {"h": 16, "hh": 8}


class FormatError(ValueError):
    """An unsupported format; the message is the part that was found."""


@dataclass(frozen=True)
class _Field:
    """One conversion. `width`, `precision`: a number, "*" for an argument, or None. `offset` of its value in bytes."""

    flags: str
    width: int | str | None
    precision: int | str | None
    length: str
    kind: str
    star_offsets: tuple[int, ...]
    offset: int
    size: int


@dataclass(frozen=True)
class Layout:
    """A parsed format: alternating text and conversions, and the number and bytes of their arguments."""

    parts: tuple[str | _Field, ...]
    arguments: int
    argument_bytes: int

    def text(self, data: bytes, string: Callable[[int], str]) -> str:
        """Return the output for the packed arguments; `string` reads the string at an address."""
        return "".join(part if isinstance(part, str) else _converted(part, data, string) for part in self.parts)


@lru_cache(maxsize=256)
def parse_format(text: str) -> Layout:
    """Parse a format. Raises FormatError."""
    parts: list[str | _Field] = []
    at = end = arguments = 0
    while at < len(text):
        percent = text.find("%", at)
        if percent < 0:
            break
        parts.append(text[at:percent])
        match = _CONVERSION.match(text, percent)
        if match is None:
            raise FormatError(f"'{text[percent:]}' at the end of a format")
        flags, width, precision, length, kind = match.groups()
        at = match.end()
        if kind == "%":
            parts.append("%")
            continue
        if kind not in "cdiouxXpeEfFgGaAs":
            raise FormatError(f"the conversion '{match[0]}'")
        stars = []
        for number in (width, precision):
            if number == "*":
                end = -(-end // 4) * 4
                stars.append(end)
                end += 4
                arguments += 1
        size = 8 if kind in "peEfFgGaAs" or (kind != "c" and length in _LONG) else 4
        end = -(-end // size) * size
        parts.append(_Field(flags, _number(width), _number(precision), length or "", kind, tuple(stars), end, size))
        end += size
        arguments += 1
    parts.append(text[at:])
    return Layout(tuple(parts), arguments, end)


def _number(text: str | None) -> int | str | None:
    """Return a width or a precision; a precision without digits is 0."""
    return text if text in (None, "*") else int(text or "0")


def _converted(field: _Field, data: bytes, string: Callable[[int], str]) -> str:
    stars = [struct.unpack_from("<i", data, offset)[0] for offset in field.star_offsets]
    width = stars.pop(0) if field.width == "*" else field.width
    precision = stars.pop(0) if field.precision == "*" else field.precision
    flags = field.flags
    if isinstance(width, int) and width < 0:
        flags, width = flags + "-", -width
    if isinstance(precision, int) and precision < 0:
        precision = None
    bits = int.from_bytes(data[field.offset : field.offset + field.size], "little")
    kind = field.kind
    prefix = body = ""
    if kind == "c":
        body, flags = chr(bits & 0xFF), flags.replace("0", "")
    elif kind == "s":
        body = string(bits) if bits else "(null)"
        body, flags = body[: int(precision)] if precision is not None else body, flags.replace("0", "")
    elif kind == "p":
        body, flags = f"{bits:#x}" if bits else "(nil)", flags.replace("0", "")
    elif kind in "diouxX":
        prefix, body = _integer(field, flags, bits, None if precision is None else int(precision))
        flags = flags.replace("0", "") if precision is not None else flags
    else:
        value = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
        prefix, body = _floating(flags, kind, value, None if precision is None else int(precision))
        flags = flags if math.isfinite(value) else flags.replace("0", "")
    missing = int(width or 0) - len(prefix) - len(body)
    if missing <= 0:
        return prefix + body
    if "-" in flags:
        return prefix + body + " " * missing
    return prefix + "0" * missing + body if "0" in flags else " " * missing + prefix + body


def _sign(flags: str, negative: bool) -> str:
    return "-" if negative else "+" if "+" in flags else " " if " " in flags else ""


def _integer(field: _Field, flags: str, bits: int, precision: int | None) -> tuple[str, str]:
    """Return sign or prefix, and digits."""
    size = _NARROW.get(field.length, 8 * field.size)
    value = bits & ((1 << size) - 1)
    prefix = ""
    if field.kind in "di":
        value -= (value >> (size - 1)) << size
        prefix = _sign(flags, value < 0)
    digits = format(abs(value), {"o": "o", "x": "x", "X": "X"}.get(field.kind, "d"))
    if precision == 0 and value == 0:
        digits = ""
    digits = digits.rjust(precision or 0, "0")
    if "#" in flags and field.kind == "o" and not digits.startswith("0"):
        digits = "0" + digits
    if "#" in flags and field.kind in "xX" and value:
        prefix = f"0{field.kind}"
    return prefix, digits


def _floating(flags: str, kind: str, value: float, precision: int | None) -> tuple[str, str]:
    """Return sign, and digits."""
    sign = _sign(flags, math.copysign(1, value) < 0)
    size = abs(value)
    if not math.isfinite(size):
        word = "inf" if math.isinf(size) else "nan"
        return sign, word.upper() if kind.isupper() else word
    if kind in "aA":
        digits = _hexadecimal(size, precision, "#" in flags)
        return sign + digits[:2] if kind == "a" else sign + "0X", digits[2:] if kind == "a" else digits[2:].upper()
    alternative = "#" if "#" in flags else ""
    return sign, f"%{alternative}.{6 if precision is None else precision}{kind}" % size


def _hexadecimal(size: float, precision: int | None, point: bool) -> str:
    """Write it as glibc does: 0x1.8p+1, with the digits that the value needs unless a precision is given."""
    if precision is not None:
        raise FormatError("a precision for %a")
    mantissa, _, exponent = size.hex().partition("p")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    mantissa = "0x0" if size == 0 else mantissa
    return f"{mantissa}{'.' if point and '.' not in mantissa else ''}p{exponent}"
