"""A layout as code: C++, CuTe, and the order S,B,M in which some libraries write the numbers of a swizzle."""

from __future__ import annotations

from typing import NamedTuple

from gpuemu.studies.layout.layouts import Index, Layout, Padding, Plain, Swizzle, VirtualThreads
from gpuemu.studies.layout.tile import Tile


class Code(NamedTuple):
    """A layout as code; "" for a form that cannot express it.

    `function`: C++ that maps (row, column) to the element's place, or for virtual threads the thread to the thread that
    it works as. `bytes_function`: C++ for the place in bytes. `cute_swizzle` and `cute_layout`: CuTe, in elements;
    `cute_swizzle_bytes`: for addresses in bytes. `sbm` and `sbm_bytes`: the numbers of i ^ ((i >> S) & (((1 << B) - 1)
    << M)), for code that takes them in that order.
    """

    function: str
    bytes_function: str
    cute_swizzle: str = ""
    cute_swizzle_bytes: str = ""
    cute_layout: str = ""
    sbm: str = ""
    sbm_bytes: str = ""


def code(layout: Layout, tile: Tile) -> Code:
    """The layout of the tile in every form that can express it."""
    if isinstance(layout, VirtualThreads):
        place = layout.index(tile).thread.replace("//", "/")
        function = f"__device__ int works_as(int t) {{\n    return {place};\n}}\n"
        return Code(function, function)
    plain = f"Layout<Shape<_{tile.rows},_{tile.columns}>, Stride<_{tile.columns},_1>>"
    written = Code(_function("at", layout.index(tile)), _function("byte_at", layout.index(tile, tile.element_bytes)))
    match layout:
        case Plain():
            return written._replace(cute_layout=plain)
        case Padding():
            return written._replace(cute_layout=_padded(layout, tile))
        case Swizzle(bits, base, shift):
            in_bytes = base + tile.element_bytes.bit_length() - 1
            if layout.in_cute:
                swizzle = f"Swizzle<{bits},{base},{shift}>"
                written = written._replace(
                    cute_swizzle=swizzle, cute_swizzle_bytes=f"Swizzle<{bits},{in_bytes},{shift}>",
                    cute_layout=f"composition({swizzle}{{}}, {plain}{{}})",
                )  # fmt: skip
            if shift > 0:
                written = written._replace(sbm=f"{shift},{bits},{base}", sbm_bytes=f"{shift},{bits},{in_bytes}")
    return written


def _function(name: str, index: Index) -> str:
    first = f"    const int i = {index.i};\n" if index.i else ""
    place = index.place.replace("//", "/")
    return f"__device__ int {name}(int row, int column) {{\n{first}    return {place};\n}}\n"


def _padded(layout: Padding, tile: Tile) -> str:
    """CuTe's layout with padding, whose shape is split where the padding comes."""
    rows, columns, every, extra = tile.rows, tile.columns, layout.every, layout.elements
    if every == columns:
        return f"Layout<Shape<_{rows},_{columns}>, Stride<_{columns + extra},_1>>"
    if every < columns:
        pieces = columns // every
        shape = f"Shape<_{rows},Shape<_{every},_{pieces}>>"
        return f"Layout<{shape}, Stride<_{columns + pieces * extra},Stride<_1,_{every + extra}>>>"
    together = every // columns
    if rows % together:
        return ""
    shape = f"Shape<Shape<_{together},_{rows // together}>,_{columns}>"
    return f"Layout<{shape}, Stride<Stride<_{columns},_{every + extra}>,_1>>"
