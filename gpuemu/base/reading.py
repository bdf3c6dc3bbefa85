"""Read files named by users, up to a size limit, because a link to /dev/zero has no end.

A larger file is refused. Memory is allocated for the bytes that a file has, not for the limit.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 1 << 32
_PIECE_BYTES = 1 << 20


def read_whole(path: str | os.PathLike[str], most: int = MOST_BYTES) -> bytes:
    """Return the content of a file or a pipe of at most `most` bytes.

    Raises OSError, also for a device and for a longer file.
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
