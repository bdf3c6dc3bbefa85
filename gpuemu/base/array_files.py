"""Read NumPy's .npy format from untrusted files: the header is checked before memory is allocated for the array.

shape, by_columns, kind = read_header(stream) array = read_array(stream, size_of_the_file)
"""

from __future__ import annotations

import math
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

Header = tuple[tuple[int, ...], bool, np.dtype[Any]]
"""(shape, whether the first index varies fastest, type)."""


def read_header(stream: IO[bytes]) -> Header:
    """Read the header at the start of a stream, and leave the stream after it. Raises ValueError without a header."""
    try:
        version = npy.read_magic(stream)
        shape, by_columns, kind = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version](
            stream
        )
    # NumPy parses the header as Python and passes on any exception of the parser.
    except Exception:
        raise ValueError("no header of a NumPy array") from None
    if not all(type(n) is int for n in shape):  # NumPy accepts True as 1
        raise ValueError("no shape of a NumPy array")
    return shape, by_columns, kind


def read_array(stream: IO[bytes], size: int) -> NDArray[Any]:
    """Read the array in a stream of `size` bytes. Raises ValueError that says what the stream has instead."""
    shape, by_columns, kind = read_header(stream)
    rest = size - stream.tell()
    if kind.hasobject:
        raise ValueError("an array of objects")
    if min(shape, default=0) < 0 or rest != math.prod(shape) * kind.itemsize:
        raise ValueError(f"{rest} bytes for {str(kind)[:40]} {str(list(shape))[:40]}")
    content = bytearray(stream.read(rest))
    if len(content) != rest:
        raise ValueError("fewer bytes than the file had")
    return np.frombuffer(content, dtype=kind).reshape(shape, order="F" if by_columns else "C")
