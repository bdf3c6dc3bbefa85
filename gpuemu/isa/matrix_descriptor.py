"""How operands of wgmma lie in shared memory: matrix descriptors, core matrices, swizzles.

A descriptor has 64 bits: 0-13 the address of the first element, 16-29 and 32-45 the leading and the stride offset, all
in units of 16 bytes, 49-51 a base offset, 62-63 the swizzle (0: none, 1: 128 bytes, 2: 64, 3: 32). A core matrix is 8
rows of 16 bytes. A swizzle of 128 bytes puts bits 7-9 of an address over bits 4-6, of 64 bits 7-8 over 4-5, of 32 bit
7 over bit 4: of the address itself, by TMA and by wgmma alike.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
UNIT = 16
CORE_ROWS = 8
SWIZZLES = (0, 128, 64, 32)
"""Bytes of a line within which chunks of 16 bytes are exchanged, by their number in a descriptor."""
MODES = {"none": 0, "32": 32, "64": 64, "128": 128}
"""The same by the names that people use."""


class Descriptor(NamedTuple):
    """What a descriptor says, in bytes."""

    address: int
    leading: int
    stride: int
    swizzle: int
    base_offset: int


def decode(bits: int) -> Descriptor:
    """The descriptor of 64 bits."""
    address, leading, stride = ((bits >> at & 0x3FFF) * UNIT for at in (0, 16, 32))
    return Descriptor(address, leading, stride, SWIZZLES[bits >> 62 & 3], bits >> 49 & 7)


def swizzled(at: Indices, width: int) -> Indices:
    """Where bytes of shared memory are found whose addresses were these, in a swizzle of `width` bytes, 0 for none."""
    return at ^ (at >> 7 & width // UNIT - 1) << 4 if width else at


@lru_cache(maxsize=256)
def places(
    leading: int, stride: int, width: int, count: int, depth: int, element_bytes: int, across: bool = False
) -> Indices:
    """Byte distances of the elements [count, depth] from the first, before they are swizzled in `width` bytes.

    `depth` runs along K; `across`: the other way round in memory (.tnspA, .tnspB), K by rows.
    """
    line, k, size = np.arange(count)[:, None], np.arange(depth)[None, :], element_bytes
    if across:
        if width:
            long = width // size
            return np.asarray(line % long * size + line // long * leading + k % 8 * width + k // 8 * stride)
        return np.asarray(line % 8 * size + line // 8 * stride + k % 8 * UNIT + k // 8 * leading)
    if width:
        return np.asarray(line % 8 * width + line // 8 * stride + k * size)
    along = k * size
    return np.asarray(line % 8 * UNIT + line // 8 * stride + along % UNIT + along // UNIT * leading)
