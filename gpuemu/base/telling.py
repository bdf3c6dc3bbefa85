"""Lines on standard error beside the results; a command writes each once, whichever of its processes finds it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress

_told: set[str] = set()


def tell(sentence: str) -> None:
    """A line on standard error, where there is one."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            print(sentence, file=sys.stderr)


def tell_once(sentence: str) -> None:
    """A line that this process, and those that it starts from now on, write once."""
    if sentence not in _told:
        _told.add(sentence)
        tell(sentence)


def told() -> frozenset[str]:
    """What `tell_once` has written."""
    return frozenset(_told)


def say_no_more(sentences: Iterable[str]) -> None:
    """Another process has written these."""
    _told.update(sentences)
