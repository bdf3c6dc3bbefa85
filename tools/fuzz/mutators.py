"""Damages texts and bytes at random, in the ways in which files get damaged and people slip."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable

NUMBERS = (
    "0", "-1", "1", "2", "3", "7", "010", "0x", "0xg", "1e9", "1e400", "2.5", "nan", "inf", "-0", "³", "1_000", "255",
    "4096", "65537", "1000003", "2147483648", "4294967296", "9223372036854775807", "9223372036854775808",
    "18446744073709551616", "-9223372036854775809", "9" * 30, "9" * 4400, "0x" + "f" * 4000,
)  # fmt: skip
_SPACED = (
    "",
    " ",
    "\t",
    "\n",
    "\0",
    "\x07",
    "\ufeff",
    "\u2028",
    "\udcff",
    ": ",
    "- ",
    "<<: ",
    "1 << 70",
    "where(1, 2, 3)",
)
_UNSPACED = """
    é 💥 ' " ` [ ] { } ( ) : , ; - .. # !!int | > % @ = &a *a null true no [] {} lane warp cta i lane//0 lane.a min(1)
    all swizzle(lane,60,60,60) 0-3 3-0 0x0000-0x0010 each repeat R255 RZ UR63 PT @!P0 desc[UR4][R2.64] gsb0 gdesc[UR4]
    c[0x0][0x160] B0-----:R0:W1:Y:S15 __import__('os')
"""
PIECES = (*_SPACED, *_UNSPACED.split(), "[" * 150, "(" * 250)
_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d+(?:\.\d+)?)")
_WORD = re.compile(r"[A-Za-z_][\w.]*")


def text(choose: random.Random, original: str) -> str:
    """The text with one to four changes."""
    for _ in range(choose.choice((1, 1, 1, 2, 4))):
        original = choose.choice(_OF_TEXT)(choose, original)
    return original


def _place(choose: random.Random, original: str) -> int:
    return choose.randrange(len(original) + 1)


def _number(choose: random.Random, original: str) -> str:
    return _one_of(choose, original, _NUMBER, choose.choice(NUMBERS))


def _word(choose: random.Random, original: str) -> str:
    words = _WORD.findall(original)
    return _one_of(choose, original, _WORD, choose.choice(words or PIECES) if choose.random() < 0.7 else "nosuch")


def _one_of(choose: random.Random, original: str, pattern: re.Pattern[str], instead: str) -> str:
    found = list(pattern.finditer(original))
    if not found:
        return original + instead
    match = choose.choice(found)
    return original[: match.start()] + instead + original[match.end() :]


def _insert(choose: random.Random, original: str) -> str:
    at = _place(choose, original)
    return original[:at] + choose.choice(PIECES) + original[at:]


def _delete(choose: random.Random, original: str) -> str:
    at = _place(choose, original)
    return original[:at] + original[at + choose.choice((1, 1, 2, 5, 40)) :]


def _double(choose: random.Random, original: str) -> str:
    at = _place(choose, original)
    piece = original[at : at + choose.choice((1, 5, 40))]
    return original[:at] + piece * choose.choice((2, 2, 3, 30)) + original[at + len(piece) :]


def _line(choose: random.Random, original: str) -> str:
    lines = original.splitlines(keepends=True) or [""]
    at, other = choose.randrange(len(lines)), choose.randrange(len(lines))
    kind = choose.randrange(4)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(other, lines[at])
    elif kind == 2:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at] = choose.choice(("", " ", "  ", "    ")) + lines[at].lstrip(" ")
    return "".join(lines)


def _cut(choose: random.Random, original: str) -> str:
    return original[: _place(choose, original)]


_OF_TEXT: tuple[Callable[[random.Random, str], str], ...] = (
    _number, _number, _number, _word, _word, _insert, _insert, _delete, _double, _line, _cut,
)  # fmt: skip


def data(choose: random.Random, original: bytes, first: int = 0) -> bytes:
    """The bytes with one to ten changes, none of them before `first` as long as there are others."""
    content = bytearray(original)
    for _ in range(choose.choice((1, 1, 2, 3, 10))):
        at = choose.randrange(min(first, len(content)), len(content) + 1)
        kind = choose.randrange(6)
        if kind == 0 and at < len(content):
            content[at] ^= 1 << choose.randrange(8)
        elif kind == 1:
            content[at : at + 1] = bytes([choose.randrange(256)])
        elif kind == 2:
            size = choose.choice("BHIQ")
            number = choose.choice((0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1))
            packed = struct.pack(f"<{size}", number & ((1 << 8 * struct.calcsize(size)) - 1))
            content[at : at + len(packed)] = packed
        elif kind == 3:
            del content[at : at + choose.choice((1, 4, 64))]
        elif kind == 4:
            content[at:at] = choose.randbytes(choose.choice((1, 4, 64)))
        elif choose.random() < 0.2:
            del content[at:]
    return bytes(content)
