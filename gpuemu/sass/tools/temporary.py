"""The temporary folder that compilers and the disassembler work in, and the sentence where it has no room left."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuemu.base.errors import GpuemuError

_NO_ROOM = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_WORDS = re.compile("no space left on device|disk quota exceeded", re.IGNORECASE)
_LITTLE_BYTES = 1 << 24
"""A compilation takes a few MiB. nvcc removes its files before anybody can look how full the folder was."""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder of our own that is removed afterwards. Raises GpuemuError where it, or a file in it, finds no room."""
    try:
        place = tempfile.gettempdir()
    except FileNotFoundError:
        raise GpuemuError.one("TMPDIR", None, "", "no temporary folder that takes a file", _right()) from None
    try:
        with tempfile.TemporaryDirectory(prefix="gpuemu-", dir=place) as name:
            yield Path(name)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise _full(place) from None
        raise


def full_folder(log: str, suspected: bool) -> GpuemuError | None:
    """The error of a tool that failed for want of room, as its words say; None where it failed for another reason.

    `suspected`: its words say nothing, and a folder with little room is taken to be the reason.
    """
    place = os.environ.get("TMPDIR") or tempfile.gettempdir()  # that of the tool: Python turns to another one
    little = suspected and Path(place).is_dir() and shutil.disk_usage(place).free < _LITTLE_BYTES
    return _full(place) if little or _WORDS.search(log) else None


def _full(place: str) -> GpuemuError:
    free = shutil.disk_usage(place).free if Path(place).is_dir() else 0
    found = f"the temporary folder '{place}' is full ({free:,} bytes free)"
    return GpuemuError.one("TMPDIR", None, "", found, _right())


def _right() -> str:
    return f"Free {_LITTLE_BYTES >> 20} MiB there, or set TMPDIR to another folder"
