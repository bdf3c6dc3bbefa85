"""Where text leaves for the terminal: control characters of foreign names are shown; what cannot be written is said.

`main` puts a Terminal in the place of each standard stream, so that all that anybody prints goes through it. What the
program itself adds, styles and progress bars, comes from `style` and goes to `own`.
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
"""Stands for the escape of a style that is ours, which no name can know."""


class OutputError(Exception):
    """Standard output takes no more; the text says why."""


class Terminal:
    """A standard stream, None if the program was started without.

    A reader that closes its pipe, as `head` does, wants no more: the rest is dropped without a word, and the exit code
    is the one that a patient reader would see. Raises OutputError where the stream takes nothing for another reason;
    for standard error there is nobody to tell.
    """

    def __init__(self, stream: TextIO | None, *, must_take: bool):
        self._given, self._must_take, self._waits = stream, must_take, False
        self._stream = open(os.devnull, "w", encoding="utf-8") if stream is None else stream  # noqa: SIM115
        if codecs.lookup(self._stream.encoding or "utf-8").name == "ascii":
            getattr(self._stream, "reconfigure", lambda **_: None)(encoding="utf-8", errors="backslashreplace")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text with its control characters shown."""
        return self._send(shown(text).replace(_MARK, "\x1b"), len(text))

    def flush(self) -> None:
        if self._waits:  # a full device refuses even nothing
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
        return length

    @property
    def own(self) -> TextIO:
        """The stream without us in between, for what draws on a terminal by itself."""
        return self._stream

    @property
    def styled(self) -> Any:
        """The stream for text whose styles are ours, and whose names have been shown."""
        return _Styled(self) if self.isatty() else self

    def end(self) -> None:
        """Drop what the stream still holds and all that follows, so that Python does not complain when it exits."""
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
        """Write text with all but its styles shown."""
        return self._terminal.write(_STYLED.sub(_MARK, text))


@contextmanager
def terminals() -> Iterator[tuple[Terminal, Terminal]]:
    """Standard output and standard error as Terminals, for as long as this lasts."""
    before = sys.stdout, sys.stderr
    output, errors = Terminal(sys.stdout, must_take=True), Terminal(sys.stderr, must_take=False)
    sys.stdout, sys.stderr = output, errors
    try:
        yield output, errors
    finally:
        sys.stdout, sys.stderr = before


def own(stream: TextIO) -> TextIO:
    """A stream as it is without a Terminal."""
    return stream.own if isinstance(stream, Terminal) else stream


def styled(stream: TextIO) -> Any:
    """A stream that lets styles through if it is a Terminal."""
    return stream.styled if isinstance(stream, Terminal) else stream


def is_styled(text: str) -> bool:
    """Whether `style` gave it a style."""
    return _MARK in text


def style(text: str, **attributes: Any) -> str:
    """Text with a style on a terminal, and as it is elsewhere."""
    if not attributes or not isinstance(sys.stdout, Terminal) or not sys.stdout.isatty():
        return text
    return click.style(shown(text), **attributes).replace("\x1b", _MARK)
