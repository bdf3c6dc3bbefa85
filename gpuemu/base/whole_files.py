"""Write files in one step, so that nobody ever sees a partial one.

Only a regular file is replaced. The new file keeps its mode and owner, and the target of a link is replaced, not the
link. A file with several names, and anything that is not a regular file (a device, a pipe, /dev/stdout), is written in
place.
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
"""Characters of a file's name that its temporary file's name contains."""


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a file that gets its name when everything is written. An error leaves no file. Raises OSError."""
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
    """Write a whole file in one step. Raises GpuemuError."""
    try:
        with whole_file(path) as file:
            file.write(content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)
    except OSError as error:
        found = (error.strerror or str(error)).lower()
        raise GpuemuError.one(str(path), None, "", found, "Choose a file that can be written") from None


def take_place(new: Path, target: Path) -> None:
    """Rename a finished file of the same folder to `target`, or write its content to `target`. Raises OSError."""
    real = _replaced(target)
    if real is not None and new.parent.resolve() == real.parent and _looks_like(new, real):
        os.replace(new, real)
    else:
        _write_into(new, target)


def is_written_into(path: Path) -> bool:
    """Whether the path is something other than a regular file."""
    return _descriptor(path) is not None or (path.exists() and not path.is_file())


def _temporary(target: Path) -> tuple[int, str]:
    """Create a temporary file next to the target, or elsewhere if the target is written in place."""
    real = _replaced(target)
    if real is not None:
        try:
            return tempfile.mkstemp(dir=real.parent, prefix=f".{real.name[:_NAMED]}.")
        except PermissionError:
            if not real.exists():
                raise
    return tempfile.mkstemp()


def _replaced(target: Path) -> Path | None:
    """Return the file that is replaced when `target` is written; None if it is written in place."""
    if _descriptor(target) is not None:
        return None
    real = Path(os.path.realpath(target))
    try:
        status = real.stat()
    except FileNotFoundError:
        return real
    return real if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 else None


def _descriptor(path: Path) -> int | None:
    """Return the number of the open file that a path such as /dev/stdout names."""
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
    """Give a file the mode and owner of the one that it replaces; return whether that worked."""
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
    """Write the content of a file to the target of `target`. Raises OSError."""
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
