"""The layout of wgmma operands in shared memory: matrix descriptors, core matrices, swizzles.

A descriptor has 64 bits. Bits 0-13 are the address of the first element; bits 16-29 and 32-45 are the leading and the
stride offset. All three are in units of 16 bytes. Bits 49-51 are a base offset, and bits 62-63 the swizzle (0 for none,
1 for 128 bytes, 2 for 64, 3 for 32). A core matrix is 8 rows of 16 bytes.

tcgen05 of sm_100 has the swizzle in bits 61-63: 0 for none, 2 for 128 bytes, 4 for 64, 6 for 32. 1 is a swizzle of 128
bytes in chunks of 32, which only transposed matrices have; 4 lines of it repeat, not 8. Its address and its offsets are
in the same places. Bit 52 makes the leading offset an address (sm_103).

A swizzle XORs higher bits of an address into lower ones. It XORs bits 7-9 into bits 4-6 for 128 bytes, bits 7-8 into
bits 4-5 for 64 bytes, and bit 7 into bit 4 for 32 bytes. TMA and wgmma both use the bits of the address itself.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuemu.isa.matrix_place import CORE_ROWS as CORE_ROWS
from gpuemu.isa.matrix_place import UNIT as UNIT
from gpuemu.isa.matrix_place import depth_place, field_bytes, line_place, permuted

Indices = NDArray[np.int64]
SWIZZLES = (0, 128, 64, 32)
"""Bytes of a line within which a swizzle permutes chunks of 16 bytes, indexed by the swizzle's number in a descriptor.
"""
_CHUNKS_OF_32 = 1
MODES = {"none": 0, "32": 32, "64": 64, "128": 128}
"""Bytes of a swizzle by its common name."""


class Descriptor(NamedTuple):
    """The fields of a descriptor, in bytes."""

    address: int
    leading: int
    stride: int
    swizzle: int
    base_offset: int
    chunk: int = UNIT
    """The bytes that the swizzle keeps together."""

    @property
    def lines(self) -> int:
        """Lines along K after which a transposed matrix goes on by the stride offset."""
        return CORE_ROWS * UNIT // self.chunk


def decode(bits: int) -> Descriptor:
    """Decode a descriptor of 64 bits."""
    address, leading, stride = (field_bytes(bits, at) for at in (0, 16, 32))
    return Descriptor(address, leading, stride, SWIZZLES[bits >> 62 & 3], bits >> 49 & 7)


def decode_tcgen05(bits: int) -> Descriptor | None:
    """Decode a descriptor of 64 bits as sm_100 reads it; None if its swizzle or its offsets are not understood."""
    mode = bits >> 61 & 7
    if bits >> 52 & 1 or (mode % 2 and mode != _CHUNKS_OF_32):
        return None
    return decode(bits)._replace(swizzle=128, chunk=32) if mode == _CHUNKS_OF_32 else decode(bits)


def swizzled(at: Indices, width: int, chunk: int = UNIT) -> Indices:
    """Return the shared-memory addresses after a swizzle of `width` bytes, or unchanged if `width` is 0.

    `chunk`: the bytes that stay together. With 32, a swizzle of 128 bytes XORs bits 7-8 into bits 5-6.
    """
    return permuted(at, width // chunk - 1, chunk.bit_length() - 1) if width else at


@lru_cache(maxsize=256)
def places(
    leading: int, stride: int, width: int, count: int, depth: int, element_bytes: int, across: bool = False,
    lines: int = CORE_ROWS,
) -> Indices:  # fmt: skip
    """Return byte distances of the elements [count, depth] from the first, before a swizzle of `width` bytes.

    `depth` runs along K. `across`: memory is transposed (.tnspA, .tnspB), with K along the rows. `lines`: see
    `Descriptor.lines`.
    """
    form = leading, stride, width, element_bytes, across
    found = line_place(np.arange(count)[:, None], *form) + depth_place(np.arange(depth)[None, :], *form, lines)
    return np.asarray(found)
