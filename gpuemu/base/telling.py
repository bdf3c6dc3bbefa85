"""Lines on standard error, beside the results. A command writes each line once, whichever of its processes finds it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress

_told: set[str] = set()


def tell(sentence: str) -> None:
    """Write a line on standard error, if there is one."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            print(sentence, file=sys.stderr)


def tell_once(sentence: str) -> None:
    """Write a line once in this process and all processes that it starts from now on."""
    if sentence not in _told:
        _told.add(sentence)
        tell(sentence)


def told() -> frozenset[str]:
    """Return the lines that `tell_once` has written."""
    return frozenset(_told)


def say_no_more(sentences: Iterable[str]) -> None:
    """Mark lines as written, because another process has written them."""
    _told.update(sentences)
