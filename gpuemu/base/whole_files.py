"""Files that are written in one step, so that nobody ever sees half of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gpuemu.base.errors import GpuemuError


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to that takes its name when all is written; what goes wrong leaves none. Raises OSError."""
    target = Path(path)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def write_whole(path: Path, content: str | bytes) -> None:
    """Write all of a file in one step. Raises GpuemuError."""
    try:
        with whole_file(path) as file:
            file.write(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        found = (error.strerror or str(error)).lower()
        raise GpuemuError.one(str(path), None, "", found, "a file that can be written is right") from None
