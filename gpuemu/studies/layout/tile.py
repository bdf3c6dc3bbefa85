"""The tile: rows and columns of elements in shared memory."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuemu.base.errors import GpuemuError

Where = tuple[str, int | None, str]
"""File, line and field for a message."""

ELEMENT_BYTES = {
    "f64": 8, "i64": 8, "u64": 8,
    "f32": 4, "tf32": 4, "i32": 4, "u32": 4,
    "f16": 2, "bf16": 2, "i16": 2, "u16": 2,
    "f8": 1, "i8": 1, "u8": 1,
}  # fmt: skip
_CPP = {"f64": "double", "f32": "float", "tf32": "float", "f16": "half", "bf16": "__nv_bfloat16"}
_CPP_OF_BYTES = {8: "uint64_t", 4: "uint32_t", 2: "uint16_t", 1: "uint8_t"}
_FORM = re.compile(r"(\d{1,6})x(\d{1,6}):(\w+)")


@dataclass(frozen=True)
class Tile:
    """`rows` x `columns` elements of a type such as f16; element (row, column) is number row x columns + column."""

    rows: int
    columns: int
    element: str

    @classmethod
    def parse(cls, text: str, *, where: Where = ("search", None, "tile")) -> Tile:
        """Read a text such as 128x64:f16 (rows, columns, element). Raises GpuemuError."""
        match = _FORM.fullmatch(str(text).strip().lower())
        if match is None or match[3] not in ELEMENT_BYTES or not int(match[1]) or not int(match[2]):
            right = f"expected ROWSxCOLUMNS:ELEMENT such as 128x64:f16; elements are {', '.join(ELEMENT_BYTES)}"
            raise GpuemuError.one(*where, f"'{text}'", right)
        return cls(int(match[1]), int(match[2]), match[3])

    @property
    def element_bytes(self) -> int:
        return ELEMENT_BYTES[self.element]

    @property
    def elements(self) -> int:
        return self.rows * self.columns

    @property
    def bytes(self) -> int:
        """The bytes of the tile without gaps."""
        return self.elements * self.element_bytes

    @property
    def index_bits(self) -> int:
        """The number of bits of an element's index."""
        return (self.elements - 1).bit_length()

    @property
    def cpp_type(self) -> str:
        """The element's type in C++."""
        return _CPP.get(self.element, _CPP_OF_BYTES[self.element_bytes])

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}:{self.element}"
