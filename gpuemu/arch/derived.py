"""Values that follow from others where nobody gives them: lanes that go through the banks together, what SMs share.

A wavefront is as wide as all banks, so a group has as many lanes as fit into it, at most a warp, and a phase of a
matrix access as many rows. With 32 banks of 4 bytes that is 32, 16 and 8 lanes of 32, 64 and 128 bits and 8 rows
(H200: all 1,198 counted patterns agree); chips of 16 banks had groups of 16.

Of a chip's DRAM and L2 published lists tell the rate and the size: SMs get the part of them that `global_memory` says,
and of L2 so many bytes a cycle for each KiB.
At another clock, `--set "chips.RTX 3080.clock_mhz=1440"`, DRAM gives another number of bytes a cycle.
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
DRAM_SHARE, HELD_SHARE = "global_memory.dram_share", "global_memory.l2.held_share"
L2_RATE = "global_memory.l2.read_bytes_per_kibibyte"
LAUNCH = "launch.grid_nanoseconds"
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


def derived(values: Mapping[str, Any]) -> dict[str, tuple[int | float, str]]:
    """What follows from these values, by dotted name, and how."""
    return _lanes(values) | _shared(values)


def _lanes(values: Mapping[str, Any]) -> dict[str, tuple[int | float, str]]:
    """The largest power of two that fits, from 1 to 32.

    A value that is missing, or no whole number above 0, counts as 1: what is wrong with it is said elsewhere.
    """

    def number(name: str) -> int:
        value = values.get(name)
        return value if isinstance(value, int) and value > 0 else 1

    found: dict[str, tuple[int | float, str]] = {}
    for name, size in BYTES_OF_ONE.items():
        fit = number(BANKS) * number(WIDTH) // (size if isinstance(size, int) else number(size))
        value = 1 << min(_MOST, max(1, fit)).bit_length() - 1
        what = "matrix_row_bytes" if isinstance(size, str) else f"{size} bytes of a lane"
        found[name] = value, f"follows from banks x bank_width_bytes / {what}"
    return found


def _shared(values: Mapping[str, Any]) -> dict[str, tuple[int | float, str]]:
    """What all SMs of each chip get of DRAM and L2 in a cycle, what L2 holds, a launch takes; nothing where a number
    lacks.
    """

    def number(name: str) -> float:
        value = values.get(name)
        return float(value) if isinstance(value, int | float) and value > 0 else 0.0

    found: dict[str, tuple[int | float, str]] = {}
    for chip in dict.fromkeys(name.split(".")[1] for name in values if name.startswith("chips.")):
        rate, clock = number(f"chips.{chip}.dram_gigabytes_per_second"), number(f"chips.{chip}.clock_mhz")
        each = round(rate * number(DRAM_SHARE) * 1000 / clock, 1) if clock else 0.0
        size = number(f"chips.{chip}.l2_kibibytes")
        held, read = round(size * number(HELD_SHARE)), round(size * number(L2_RATE))
        launch = round(number(LAUNCH) * clock / 1000)
        if each:
            found[f"chips.{chip}.dram_bytes_per_cycle"] = each, f"dram_gigabytes_per_second x {DRAM_SHARE} / clock_mhz"
        if held:
            found[f"chips.{chip}.l2_held_kibibytes"] = held, f"l2_kibibytes x {HELD_SHARE}"
        if read:
            found[f"chips.{chip}.l2_read_bytes_per_cycle"] = float(read), f"l2_kibibytes x {L2_RATE}"
        if launch:
            found[f"chips.{chip}.launch_cycles"] = launch, f"{LAUNCH} x clock_mhz"
    return found


def is_derived(provenance: HasStatus) -> bool:
    """Whether a value stands nowhere and follows from others."""
    return provenance.file == DERIVED and provenance.status == DERIVED and provenance.line is None
