"""Files that others named are read up to a size: a link to /dev/zero has no end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 1 << 32


def read_whole(path: str | os.PathLike[str], most: int = MOST_BYTES) -> bytes:
    """All of a file, or of a pipe, that has no more than `most` bytes.

    Raises OSError, also for a device and for what is longer.
    """
    with Path(path).open("rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
            raise OSError(errno.EINVAL, "a device")
        content = b"" if status.st_size > most else file.read(most + 1)
        if status.st_size > most or len(content) > most:
            raise OSError(errno.EFBIG, f"more than {most:,} bytes")
    return content
