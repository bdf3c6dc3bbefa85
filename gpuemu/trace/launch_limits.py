"""Limits of a launch that all supported GPUs share: sizes of a grid and a block, by axis.

They are from the CUDA programming guide, "Technical Specifications per Compute Capability", and are the same for 7.5 to
12.x. A block's x and y are limited to 1024, like its number of threads, which is a value of the architecture
(sm.max_threads_per_cta).
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from gpuemu.base.errors import GpuemuError

Extent = int | Sequence[int]
"""Sizes in x, y and z; omitted sizes are 1."""
_MOST_GRID = ((1 << 31) - 1, 65_535, 65_535)
_MOST_BLOCK_Z = 64
MOST_STACK_BYTES = 1 << 19
"""Local memory of a thread, which contains its stack."""


def beyond(name: str, sizes: Sequence[int]) -> str | None:
    """Return a correction for a "grid" or "block" that no GPU accepts, or None if it is valid."""
    if name == "grid" and any(size > most for size, most in zip(sizes, _MOST_GRID, strict=True)):
        x, y, z = _MOST_GRID
        return f"expected at most {x} in x, {y} in y and {z} in z"
    if name == "block" and sizes[2] > _MOST_BLOCK_Z:
        return f"expected at most {_MOST_BLOCK_Z} in z"
    return None


def extent(name: str, given: Extent | Any, where: str) -> tuple[int, int, int]:
    """Return the three sizes of a "grid" or "block". Raises GpuemuError for a value that no GPU accepts."""
    sizes: list[Any] = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    whole = all(isinstance(size, Integral) and not isinstance(size, bool) for size in sizes)
    if not 1 <= len(sizes) <= 3 or not whole or min(sizes) < 1:
        right = "expected a whole number of at least 1, or up to three for x, y and z"
        raise GpuemuError.one(where, None, name, repr(given), right)
    x, y, z = (*map(int, sizes), 1, 1)[:3]
    right_ = beyond(name, (x, y, z))
    if right_ is not None:
        raise GpuemuError.one(where, None, name, repr(given), right_)
    return x, y, z
