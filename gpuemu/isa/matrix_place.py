"""The place of an element of a matrix in shared memory, in the layouts of `matrix_descriptor`.

Numbers or arrays of numbers: NumPy calls these functions, and compiled code contains them.
"""

from __future__ import annotations

from typing import Any

UNIT = 16
CORE_ROWS = 8


def field_bytes(bits: Any, at: int) -> Any:
    """Return a field of a descriptor that counts units of 16 bytes."""
    return (bits >> at & 0x3FFF) * UNIT


def line_place(line: Any, leading: int, stride: int, width: int, size: int, across: bool) -> Any:
    """Return the distance in bytes of a line from the first, before a swizzle of `width` bytes."""
    if across:
        per = width // size if width else UNIT // size
        return line % per * size + line // per * (leading if width else stride)
    return line % CORE_ROWS * (width if width else UNIT) + line // CORE_ROWS * stride


def depth_place(k: Any, leading: int, stride: int, width: int, size: int, across: bool, lines: int) -> Any:
    """Return the distance in bytes of element `k` along K from the first of its line."""
    if across:
        if width:
            return k % lines * width + k // lines * stride
        return k % CORE_ROWS * UNIT + k // CORE_ROWS * leading
    along = k * size
    return along if width else along % UNIT + along // UNIT * leading


def permuted(at: Any, mask: int, shift: int) -> Any:
    """Return an address after a swizzle: these bits of those from bit 7 on are XORed into those from bit `shift` on."""
    return at ^ (at >> 7 & mask) << shift
