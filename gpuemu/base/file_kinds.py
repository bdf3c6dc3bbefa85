"""Recognize files of machine code, and files that are compiled to it, by their suffixes."""

from __future__ import annotations

import os
from pathlib import Path

CUDA_SOURCES = (".cu", ".cuh", ".cpp", ".cc", ".cxx", ".h", ".hpp")
"""Files that are compiled as CUDA C++. Headers are included, because many kernels are in headers."""
MACHINE_CODE = (".cubin", ".ptx", *CUDA_SOURCES)


def is_source(path: str | os.PathLike[str]) -> bool:
    """Whether a name has the suffix of a CUDA source."""
    return ending(path) in CUDA_SOURCES


def is_machine_code(path: str | os.PathLike[str]) -> bool:
    """Whether a name has the suffix of a file to execute, and not of a trace."""
    return ending(path) in MACHINE_CODE


def ending(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a name in lower case: K.CU is a .cu."""
    return Path(path).suffix.lower()
