"""Make foreign names safe for a terminal or a message: control characters are shown, not sent.

    shown("k\\x1b[2J.cu")    # k, backslash, u001b, [2J.cu

Escapes are those of JSON, so that JSON text keeps its meaning.
"""

from __future__ import annotations

import re

_CONTROLS = re.compile(
    "\r(?!\n)"  # keeps the end of a CSV line
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
    "\u2028\u2029\u202a-\u202e\u2066-\u2069"  # line ends, and characters that change the direction of text
    "\ud800-\udfff]"  # bytes of a file name that are not text
)


def counted(count: int, word: str) -> str:
    """A number with its noun: `1 warp`, `2,048 warps`."""
    return f"{count:,} {word}{'s' * (count != 1)}"


def shown(text: str) -> str:
    """Return the text with control characters escaped, except tabs and line ends."""
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def shown_in_a_line(text: str) -> str:
    """Return the text with all control characters escaped, including tabs and line ends."""
    return re.sub("[\t\r\n]", lambda match: f"\\u{ord(match[0]):04x}", shown(text))


def name_of_a_line(file: str) -> str:
    """Return a file's name for a line table, with ? for control characters, quotes and backslashes."""
    return re.sub(r'["\\]', "?", "".join("?" if c != shown_in_a_line(c) else c for c in file))
