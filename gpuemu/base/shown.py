"""Foreign names as they may stand on a terminal or in a message: control characters are shown, not sent.

    shown("k\\x1b[2J.cu")    # k, backslash, u001b, [2J.cu

An escape is written as JSON writes it, so that JSON stays the same JSON.
"""

from __future__ import annotations

import re

_CONTROLS = re.compile(
    "\r(?!\n)"  # the end of a CSV line stays
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
    "\u2028\u2029\u202a-\u202e\u2066-\u2069"  # ends of lines, and what turns the order of letters
    "\ud800-\udfff]"  # bytes of a file's name that are no text
)


def shown(text: str) -> str:
    """The text with control characters, but for tabs and ends of lines, written out."""
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def shown_in_a_line(text: str) -> str:
    """As `shown`, with tabs and ends of lines written out too."""
    return re.sub("[\t\r\n]", lambda match: f"\\u{ord(match[0]):04x}", shown(text))


def name_of_a_line(file: str) -> str:
    """A file's name as a line table can hold it: with ? for control characters, quotes and backslashes."""
    return re.sub(r'["\\]', "?", "".join("?" if c != shown_in_a_line(c) else c for c in file))
