"""Which files hold machine code, or become it, by the endings of their names."""

from __future__ import annotations

import os
from pathlib import Path

CUDA_SOURCES = (".cu", ".cuh", ".cpp", ".cc", ".cxx", ".h", ".hpp")
"""What is compiled as CUDA C++, headers included: many kernels stand in one."""
MACHINE_CODE = (".cubin", ".ptx", *CUDA_SOURCES)


def is_source(path: str | os.PathLike[str]) -> bool:
    """Whether a name is that of a CUDA source."""
    return ending(path) in CUDA_SOURCES


def is_machine_code(path: str | os.PathLike[str]) -> bool:
    """Whether a name is that of a file to execute rather than a trace."""
    return ending(path) in MACHINE_CODE


def ending(path: str | os.PathLike[str]) -> str:
    """The ending of a name in small letters: K.CU is a .cu."""
    return Path(path).suffix.lower()
