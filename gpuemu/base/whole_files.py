"""Files that are written in one step, so that nobody ever sees half of one.

Only a regular file is replaced, or none. The new one keeps its mode and owner, and what a link points to is replaced
rather than the link. What has several names, or is no regular file (a device, a pipe, /dev/stdout), is written into.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from gpuemu.base.errors import GpuemuError

_DESCRIPTOR = re.compile(r"/(?:dev|proc/(?:self|thread-self|\d+))/fd/(\d+)")
_MOST_LINKS = 40
_NAMED = 40
"""Letters of a file's name in that of the one that becomes it."""


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to that takes its name when all is written; what goes wrong leaves none. Raises OSError."""
    target = Path(path)
    descriptor, temporary = _temporary(target)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        take_place(Path(temporary), target)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write all of a file in one step. Raises GpuemuError."""
    try:
        with whole_file(path) as file:
            file.write(content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)
    except OSError as error:
        found = (error.strerror or str(error)).lower()
        raise GpuemuError.one(str(path), None, "", found, "expected a file that can be written") from None


def take_place(new: Path, target: Path) -> None:
    """Let a finished file of the same folder become `target`, or let its content be written there. Raises OSError."""
    real = _replaced(target)
    if real is not None and new.parent.resolve() == real.parent and _looks_like(new, real):
        os.replace(new, real)
    else:
        _write_into(new, target)


def is_written_into(path: Path) -> bool:
    """Whether there is something at the path that is no regular file."""
    return _descriptor(path) is not None or (path.exists() and not path.is_file())


def _temporary(target: Path) -> tuple[int, str]:
    """A new file beside the one that it will replace, or elsewhere for what is written into."""
    real = _replaced(target)
    if real is not None:
        try:
            return tempfile.mkstemp(dir=real.parent, prefix=f".{real.name[:_NAMED]}.")
        except PermissionError:
            if not real.exists():
                raise
    return tempfile.mkstemp()


def _replaced(target: Path) -> Path | None:
    """What is replaced when `target` is written; None for what is written into."""
    if _descriptor(target) is not None:
        return None
    real = Path(os.path.realpath(target))
    try:
        status = real.stat()
    except FileNotFoundError:
        return real
    return real if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 else None


def _descriptor(path: Path) -> int | None:
    """The number of the open file that a path names, as /dev/stdout does."""
    name = os.path.abspath(path)
    for _ in range(_MOST_LINKS):
        if match := _DESCRIPTOR.fullmatch(name):
            return int(match[1])
        try:
            name = os.path.abspath(os.path.join(os.path.dirname(name), os.readlink(name)))
        except (OSError, ValueError):
            break
    return None


def _looks_like(new: Path, old: Path) -> bool:
    """Give a file the mode and owner of the one that it replaces; whether that could be done."""
    if not old.exists():
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(new, 0o666 & ~mask)
        return True
    status, mine = old.stat(), new.stat()
    try:
        if (status.st_uid, status.st_gid) != (mine.st_uid, mine.st_gid):
            os.chown(new, status.st_uid, status.st_gid)
        os.chmod(new, stat.S_IMODE(status.st_mode))
    except PermissionError:
        return not os.access(old, os.W_OK)
    return True


def _write_into(new: Path, target: Path) -> None:
    """Write the content of a file to where `target` leads. Raises OSError."""
    number = _descriptor(target)
    for stream in (sys.stdout, sys.stderr):
        if number is not None and stream is not None:
            stream.flush()
    descriptor = os.open(target, os.O_WRONLY) if number is None else os.dup(number)
    with new.open("rb") as content, os.fdopen(descriptor, "wb") as file:
        shutil.copyfileobj(content, file)
        file.flush()
        if number is None and stat.S_ISREG(os.fstat(descriptor).st_mode):
            file.truncate()
