"""What an extra of the distribution brings, where it lies, and the error where it is not installed."""

from __future__ import annotations

import importlib.metadata
from functools import lru_cache
from pathlib import Path

from gpuemu.base.errors import GpuemuError

INSTALL = 'pip install "gpuemu-sm[sass]"'


class MissingToolError(GpuemuError):
    """A tool that is not installed; the text says what brings it."""


def missing(what: str, right: str) -> GpuemuError:
    """The error for a tool that is not installed."""
    return MissingToolError.one(what, None, "", "no such tool", right)


@lru_cache
def wheel_files(wheel: str) -> tuple[Path, ...]:
    """Where the files of an installed wheel lie; none where it is not installed."""
    try:
        files = importlib.metadata.files(wheel) or []
    except importlib.metadata.PackageNotFoundError:
        return ()
    return tuple(Path(str(file.locate())) for file in files)
