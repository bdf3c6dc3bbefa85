"""Files that others named are read up to a size: a link to /dev/zero has no end.

A limit is a size to refuse. Memory is taken for the bytes that a file has, whatever the limit.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 1 << 32
_PIECE_BYTES = 1 << 20


def read_whole(path: str | os.PathLike[str], most: int = MOST_BYTES) -> bytes:
    """All of a file, or of a pipe, that has no more than `most` bytes.

    Raises OSError, also for a device and for a file that is longer.
    """
    with Path(path).open("rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
            raise OSError(errno.EINVAL, "a device")
        if status.st_size > most:
            raise _too_long(most)
        piece_bytes = min(most + 1, max(_PIECE_BYTES, status.st_size + 1))
        pieces, length = [], 0
        while piece := file.read(piece_bytes):
            pieces.append(piece)
            length += len(piece)
            if length > most:
                raise _too_long(most)
    return b"".join(pieces)


def _too_long(most: int) -> OSError:
    return OSError(errno.EFBIG, f"more than {most:,} bytes")
