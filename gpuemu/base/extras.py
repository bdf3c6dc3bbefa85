"""Optional tools: the folders where their wheels are installed, and the error for a missing tool."""

from __future__ import annotations

import importlib.metadata
from functools import lru_cache
from pathlib import Path

from gpuemu.base.errors import GpuemuError


def install(extra: str) -> str:
    """Return the command that installs an extra. The command needs a clone, because no package index has gpuemu."""
    return f'pip install ".[{extra}]" in a clone of gpuemu'


INSTALL = "pip install . in a clone of gpuemu"
CUDA_TOOLS = f"On Linux with glibc and on Windows, install it with {INSTALL}; elsewhere gpuemu runs traces only"
"""NVIDIA publishes no wheels for macOS or musl."""


class MissingToolError(GpuemuError):
    """A tool that is not installed; the text says how to get it."""


def missing(what: str, right: str) -> GpuemuError:
    """Return the error for a tool that is not installed."""
    return MissingToolError.one(what, None, "", "not installed", right)


@lru_cache
def wheel_files(wheel: str) -> tuple[Path, ...]:
    """Return the paths of the files of an installed wheel, or none if it is not installed."""
    try:
        files = importlib.metadata.files(wheel) or []
    except importlib.metadata.PackageNotFoundError:
        return ()
    return tuple(Path(str(file.locate())) for file in files)
