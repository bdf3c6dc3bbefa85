"""Values that are derived from others unless a file gives them: lanes per pass of the banks, and a chip's shared rates.

A wavefront is as wide as all banks together. A group has as many lanes as fit into it, at most a warp, and a phase of a
matrix access has as many rows. With 32 banks of 4 bytes these are 32, 16 and 8 lanes of 32, 64 and 128 bits, and 8
rows. All 1,198 patterns counted on an H200 agree. Chips with 16 banks had groups of 16.

Published data give the rate of a chip's DRAM and the size of its L2. SMs get the share of them that `global_memory`
states, and a number of L2 bytes per cycle for each KiB of L2. At another clock, `--set "chips.RTX
3080.clock_mhz=1440"`, DRAM delivers another number of bytes per cycle.
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
"""The derived values of lanes and rows, each with the bytes of a lane or row, or the name of the value for them."""
DRAM_SHARE, HELD_SHARE = "global_memory.dram_share", "global_memory.l2.held_share"
L2_RATE = "global_memory.l2.read_bytes_per_kibibyte"
LAUNCH = "launch.grid_nanoseconds"
DERIVED = "derived"
"""The status of derived values, and their file, because they are in none."""
_MOST = 32


class HasStatus(Protocol):
    """The origin of a value, as far as this module reads it."""

    @property
    def status(self) -> str:
        """One word for the kind of origin."""

    @property
    def file(self) -> str:
        """The file that contains the value."""

    @property
    def line(self) -> int | None:
        """Its line in that file."""


def derived(values: Mapping[str, Any]) -> dict[str, tuple[int | float, str]]:
    """Return the values that are derived from these, by dotted name, each with its formula."""
    return _lanes(values) | _shared(values)


def _lanes(values: Mapping[str, Any]) -> dict[str, tuple[int | float, str]]:
    """Return the largest powers of two that fit, from 1 to 32.

    A missing or invalid value counts as 1, because another check reports it.
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
    """Return the shared rates of each chip: DRAM and L2 bytes per cycle, the bytes that L2 keeps, the launch overhead.

    A rate whose numbers are missing is omitted.
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
    """Whether a value is in no file because it is derived from others."""
    return provenance.file == DERIVED and provenance.status == DERIVED and provenance.line is None
