"""The launches of a Triton file that nobody trusts, taken down in a process of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError

MOST_LAUNCHES = 64
Taken = list[tuple[bytes, str, tuple[int, int, int], tuple[int, int, int], int, list[Any]]]


def taken(file: str, arch: Architecture, arguments: Sequence[Any], seconds: float) -> Taken:
    """Cubin, name, grid, block, shared memory and arguments of each launch. Raises GpuemuError."""
    from gpuemu.studies.judge.sandbox import in_a_sandbox

    plain = [np.asarray(one) if isinstance(one, np.ndarray) else one for one in arguments]
    return in_a_sandbox("triton", _take, (file, arch, plain), seconds)  # type: ignore[no-any-return]


def _take(file: str, arch: Architecture, arguments: list[Any]) -> Taken:
    from gpuemu.triton.taking import take

    found = take(file, arch, arguments)
    if not 0 < len(found) <= MOST_LAUNCHES:
        raise GpuemuError.one(file, None, "launch", f"{len(found)} launches", f"1 to {MOST_LAUNCHES} are right")
    return found
