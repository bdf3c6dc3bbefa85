"""The temporary folder of compilers and the disassembler, and the error if it is full."""

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
"""A compilation needs a few MiB. nvcc removes its files before anyone could measure how full the folder was."""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a private folder that is removed afterwards. Raises GpuemuError if it, or a file in it, finds no space."""
    try:
        place = tempfile.gettempdir()
    except FileNotFoundError:
        raise GpuemuError.one("TMPDIR", None, "", "no writable temporary folder", _right()) from None
    try:
        with tempfile.TemporaryDirectory(prefix="gpuemu-", dir=place) as name:
            yield Path(name)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise _full(place) from None
        raise


def full_folder(log: str, suspected: bool) -> GpuemuError | None:
    """Return the error of a tool that failed because a folder is full, as its message says; None for another reason.

    `suspected`: its message gives no reason, and a folder with little space is assumed to be the reason.
    """
    place = os.environ.get("TMPDIR") or tempfile.gettempdir()  # the tool's own; Python may use another
    little = suspected and Path(place).is_dir() and shutil.disk_usage(place).free < _LITTLE_BYTES
    return _full(place) if little or _WORDS.search(log) else None


def _full(place: str) -> GpuemuError:
    free = shutil.disk_usage(place).free if Path(place).is_dir() else 0
    found = f"the temporary folder '{place}' is full ({free:,} bytes free)"
    return GpuemuError.one("TMPDIR", None, "", found, _right())


def _right() -> str:
    return f"Free {_LITTLE_BYTES >> 20} MiB there, or set TMPDIR to another folder"
