"""The way to the terminal: control characters of foreign names become visible, and write errors are reported.

`main` replaces each standard stream by a Terminal, so that all output goes through it. The program's own styles and
progress bars come from `style` and go to `own`.
"""

from __future__ import annotations

import codecs
import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import click

from gpuemu.base.shown import shown

_STYLED = re.compile(r"\x1b(?=\[[0-9;]*m)")
_MARK = f"\ue000{secrets.token_hex(8)}"
"""A stand-in for the escape of the program's own styles, which no foreign name can contain."""


class OutputError(Exception):
    """Standard output cannot be written; the text says why."""


class Terminal:
    """A standard stream, None if the program was started without it.

    A reader that closes its pipe, as `head` does, wants no more. The rest is dropped silently, and the exit code is the
    one that a patient reader would see. Raises OutputError if writing fails for another reason. Nobody could read such
    an error of standard error.
    """

    def __init__(self, stream: TextIO | None, *, must_take: bool):
        self._given, self._must_take, self._waits = stream, must_take, False
        self._stream = open(os.devnull, "w", encoding="utf-8") if stream is None else stream  # noqa: SIM115
        if codecs.lookup(self._stream.encoding or "utf-8").name == "ascii":
            getattr(self._stream, "reconfigure", lambda **_: None)(encoding="utf-8", errors="backslashreplace")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text with visible control characters."""
        return self._send(shown(text).replace(_MARK, "\x1b"), len(text))

    def flush(self) -> None:
        if self._waits:  # A full device refuses even an empty text.
            self._send("", 0, flush=True)
            self._waits = False

    def _send(self, text: str, length: int, flush: bool = False) -> int:
        self._waits |= text != ""
        try:
            if self._given is None and text:
                raise OSError("closed")
            try:
                self._stream.write(text)
            except UnicodeEncodeError:
                encoding = self._stream.encoding
                self._stream.write(text.encode(encoding, "replace").decode(encoding))
            if flush:
                self._stream.flush()
        except BrokenPipeError:
            self.end()
        except OSError as error:
            if self._must_take:
                raise OutputError((error.strerror or str(error)).lower()) from None
            self.end()
        return length

    @property
    def own(self) -> TextIO:
        """The bare stream, for libraries that draw on a terminal themselves."""
        return self._stream

    @property
    def styled(self) -> Any:
        """The stream for text that has the program's own styles, and whose names have been made visible."""
        return _Styled(self) if self.isatty() else self

    def end(self) -> None:
        """Drop the buffered text and all later text, so that Python does not complain when it exits."""
        if self._given is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


class _Styled:
    """A terminal that lets styles through."""

    def __init__(self, terminal: Terminal):
        self._terminal = terminal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._terminal, name)

    def write(self, text: str) -> int:
        """Write text, with its styles kept and all other control characters made visible."""
        return self._terminal.write(_STYLED.sub(_MARK, text))


@contextmanager
def terminals() -> Iterator[tuple[Terminal, Terminal]]:
    """Replace standard output and standard error by Terminals, within this context."""
    before = sys.stdout, sys.stderr
    output, errors = Terminal(sys.stdout, must_take=True), Terminal(sys.stderr, must_take=False)
    sys.stdout, sys.stderr = output, errors
    try:
        yield output, errors
    finally:
        sys.stdout, sys.stderr = before


def own(stream: TextIO) -> TextIO:
    """The stream below a Terminal."""
    return stream.own if isinstance(stream, Terminal) else stream


def styled(stream: TextIO) -> Any:
    """The styled stream of a Terminal, or the stream itself."""
    return stream.styled if isinstance(stream, Terminal) else stream


def is_styled(text: str) -> bool:
    """Whether `style` styled it."""
    return _MARK in text


def style(text: str, **attributes: Any) -> str:
    """Text with a style on a terminal, and plain text elsewhere."""
    if not attributes or not isinstance(sys.stdout, Terminal) or not sys.stdout.isatty():
        return text
    return click.style(shown(text), **attributes).replace("\x1b", _MARK)
