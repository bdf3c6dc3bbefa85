"""Values that follow from others where nobody gives them: how many lanes go through the banks together.

A wavefront is as wide as all banks, so a group has as many lanes as fit into it, at most a warp, and a phase of a
matrix access as many rows. With 32 banks of 4 bytes that is 32, 16 and 8 lanes of 32, 64 and 128 bits and 8 rows
(H200: all 1,198 counted patterns agree); chips of 16 banks had groups of 16.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

BANKS, WIDTH, ROW = "shared_memory.banks", "shared_memory.bank_width_bytes", "shared_memory.matrix_row_bytes"
BYTES_OF_ONE: Mapping[str, int | str] = {
    "shared_memory.lanes_per_group.bits_32": 4,
    "shared_memory.lanes_per_group.bits_64": 8,
    "shared_memory.lanes_per_group.bits_128": 16,
    "shared_memory.matrix_rows_per_phase": ROW,
}
"""The values that follow, each with the bytes of a lane or row, or the name of the value that has them."""
DERIVED = "derived"
"""Status, and in place of a file, of the values that follow."""
_MOST = 32


class HasStatus(Protocol):
    """Where a value comes from, as far as this module reads it."""

    @property
    def status(self) -> str:
        """One word on how it came about."""

    @property
    def file(self) -> str:
        """Where it stands."""

    @property
    def line(self) -> int | None:
        """Its line there."""


def derived(values: Mapping[str, Any]) -> dict[str, tuple[int, str]]:
    """What follows from these values, by dotted name, and how: the largest power of two that fits, from 1 to 32.

    A value that is missing, or no whole number above 0, counts as 1: what is wrong with it is said elsewhere.
    """

    def number(name: str) -> int:
        value = values.get(name)
        return value if isinstance(value, int) and value > 0 else 1

    found = {}
    for name, size in BYTES_OF_ONE.items():
        fit = number(BANKS) * number(WIDTH) // (size if isinstance(size, int) else number(size))
        value = 1 << min(_MOST, max(1, fit)).bit_length() - 1
        what = "matrix_row_bytes" if isinstance(size, str) else f"{size} bytes of a lane"
        found[name] = value, f"follows from banks x bank_width_bytes / {what}"
    return found


def is_derived(provenance: HasStatus) -> bool:
    """Whether a value stands nowhere and follows from others."""
    return provenance.file == DERIVED and provenance.status == DERIVED and provenance.line is None
