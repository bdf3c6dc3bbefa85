"""Import Triton's wheel, or say what to do if it is missing."""

from __future__ import annotations

import importlib.util

from gpuemu.base.errors import GpuemuError
from gpuemu.base.extras import install

_LEAST = (3, 4)


def check_triton() -> None:
    """Raise GpuemuError if Triton is missing, or too old to be launched through a driver object."""
    if importlib.util.find_spec("triton") is None:
        right = f"On Linux, install it with {install('triton')}"
        raise GpuemuError.one("triton", None, "", "Triton is not installed", right)
    import triton

    found = getattr(triton, "__version__", "0")
    if tuple(int(part) for part in found.split("+")[0].split(".")[:2]) < _LEAST:
        raise GpuemuError.one("triton", None, "", f"Triton {found}", "expected 3.4 or newer")
