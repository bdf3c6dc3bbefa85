"""Asynchronous copies against the counters of an H100: every pattern, and every counter that was read for it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.banks import copies
from gpuemu.banks.wavefronts import BankGeometry

DATA = Path(__file__).parents[1] / "data" / "h100"
LANE = np.arange(32)
COUNTERS = {
    "wavefronts": "wavefronts",
    "conflicts": "conflicts",
    "tag_wavefronts": "tag_wavefronts",
    "tag_accesses": "tag_accesses",
    "by_instruction": "by_instruction",
    "conflicts_by_instruction": "conflicts_by_instruction",
    "ideal": "ideal",
    "sectors_by_instruction": "sectors_by_instruction",
    "ideal_sectors": "ideal_sectors",
}
FEWER_SECTORS = 19
"""Of so many scattered copies past L1 the hardware moves up to half of the sectors less."""


def patterns() -> list[dict[str, str]]:
    with open(DATA / "copies.csv", newline="") as file:
        return list(csv.DictReader(file))


def by_lane(text: str, active: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    found = np.zeros(32, np.int64)
    found[active] = [int(a) for a in text.split()]
    return found


def counted(rows: list[dict[str, str]], first_byte: int = 0) -> dict[str, copies.CopyCounts]:
    """By op, of all its rows; global memory begins at `first_byte`, a multiple of 4 MiB."""
    geometry, found = BankGeometry.of(gpuemu.load_arch("sm_90")), {}
    for op in {row["op"] for row in rows}:
        mine = [row for row in rows if row["op"] == op]
        active, zeros = (
            np.array([int(row[mask], 16) >> LANE & 1 for row in mine], dtype=np.bool_)
            for mask in ("active_mask", "zeros_mask")
        )
        to, source = (
            np.array([by_lane(row[side], on) for row, on in zip(mine, active, strict=True)])
            for side in ("shared_addresses", "global_addresses")
        )
        width = 16 if op.endswith("128") else 8 if op.endswith("64") else 4
        bypass = "BYPASS" in op
        found[op] = copies.count(
            geometry, width, max(8, 128 // width), to, source + first_byte, active, zeros, bypass=bypass
        )
    return found


def test_every_counter_of_every_copy_is_the_hardwares():
    """1,569 copies: width, cached or not, rows and pitches of both memories, lanes off, permuted, doubled, zeros."""
    rows, differ, compared = patterns(), [], 0
    sectors = 0
    for op, counts in counted(rows).items():
        for n, row in enumerate(row for row in rows if row["op"] == op):
            for column, field in COUNTERS.items():
                if row[column]:
                    compared += 1
                    if int(row[column]) != getattr(counts, field)[n]:
                        differ.append((row["id"], column, row[column], int(getattr(counts, field)[n])))
            if row["sectors"] and int(row["sectors"]) != counts.sectors[n]:
                sectors += 1
                assert "BYPASS" in op
                assert int(row["sectors"]) < counts.sectors[n] <= 2 * int(row["sectors"])
    assert (len(rows), differ) == (1569, [])
    assert compared == 8737
    assert sectors == FEWER_SECTORS


def test_a_copy_costs_the_same_wherever_its_memory_begins():
    """Tags depend on high bits of the address as well, but all lines' alike."""
    rows = patterns()[::7]
    for here, there in zip(counted(rows).values(), counted(rows, 5 << 40).values(), strict=True):
        assert np.array_equal(here.wavefronts, there.wavefronts)
        assert np.array_equal(here.by_instruction, there.by_instruction)


@pytest.mark.parametrize(
    ("op", "rows_of", "wavefronts"),
    [
        ("LDGSTS.E.128", 8, 4), ("LDGSTS.E.128", 4, 8), ("LDGSTS.E.128", 2, 16), ("LDGSTS.E.128", 1, 32),
        ("LDGSTS.E.BYPASS.128", 8, 4), ("LDGSTS.E.BYPASS.128", 4, 8), ("LDGSTS.E.BYPASS.128", 2, 16),
        ("LDGSTS.E.BYPASS.128", 1, 32),
    ],
)  # fmt: skip
def test_lanes_that_read_the_same_bytes_of_lines_take_turns(op, rows_of, wavefronts):
    source = 4096 * (LANE // rows_of) + 16 * (LANE % rows_of)
    access = gpuemu.shared_access("sm_90", op, 16 * LANE, global_byte_addresses=source)
    assert (access.wavefronts, access.ideal_wavefronts) == (wavefronts, 4)
    assert sum(phase.wavefronts for phase in access.phases) == wavefronts
    assert sorted({one.lane for phase in access.phases for w in phase.served for one in w}) == list(range(32))


def test_only_copies_read_global_memory():
    with pytest.raises(gpuemu.GpuemuError, match=r"global_byte_addresses: LDS\.32 has some\. Only LDGSTS"):
        gpuemu.shared_access("sm_90", "LDS.32", 4 * LANE, global_byte_addresses=4 * LANE)
    with pytest.raises(gpuemu.GpuemuError, match="global_byte_addresses: found byte address 8 in lane 1"):
        gpuemu.shared_access("sm_90", "LDGSTS.128", 16 * LANE, global_byte_addresses=8 * LANE)
