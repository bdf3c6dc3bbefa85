"""CTAs dealt out as places fall free, as tools/chip measured it on an H100."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from gpuemu.chip.dealing import makespan
from gpuemu.chip.launch import _rounds
from gpuemu.trace.uneven import heaviest, instructions

DEALT = Path(__file__).resolve().parents[2] / "tools" / "chip" / "h100" / "deal.csv"


def grids() -> dict[tuple[str, ...], list[dict[str, str]]]:
    found: dict[tuple[str, ...], list[dict[str, str]]] = {}
    with DEALT.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found.setdefault(
                tuple(row[n] for n in ("grid", "threads", "shared", "cycles", "long", "every")), []
            ).append(row)
    return found


@pytest.mark.parametrize("key", [k for k in grids() if k[2] != "0"])
def test_measured_grids_end_when_the_list_says(key):
    rows = sorted(grids()[key], key=lambda row: int(row["cta"]))
    spans = np.array([int(row["end_cycle"]) - int(row["start_cycle"]) for row in rows], float)
    starts, ends = (np.array([int(row[n]) for row in rows]) for n in ("start_ns", "end_ns"))
    measured = (ends.max() - starts.min()) * 1.98
    sharing = Counter()
    for row in rows:
        if int(row["start_ns"]) < starts.min() + 0.5 * spans.min() / 1.98:
            sharing[row["sm"]] += 1
    places = 132 * max(sharing.values())
    end, begins = makespan(spans, places, 430.0)
    assert end == pytest.approx(measured, rel=0.06, abs=450)
    assert (begins[:places] == 0).all()


def test_unequal_ctas_are_not_rounded_up_to_waves():
    durations = np.where(np.arange(528) % 7 == 0, 1000.0, 100.0)
    end, _ = makespan(durations, 132, 0.0)
    assert end < 1600  # four waves of the longest would be 4,000


def test_instructions_of_other_ctas_follow_the_axes_of_the_grid():
    known = {cta: 100 + 50 * (cta % 16) for cta in (0, 5, 15, 17, 40, 63)}
    assert instructions((16, 4, 1), known).tolist() == pytest.approx([100 + 50 * (n % 16) for n in range(64)])


def test_instructions_without_order_are_taken_as_often_as_they_were_found():
    found = instructions((64, 1, 1), {0: 100, 1: 900, 2: 100, 3: 100, 9: 900, 11: 100})
    assert set(found.tolist()) == {100.0, 900.0}
    assert np.mean(found == 900) == pytest.approx(1 / 3, abs=0.05)


def test_the_sm_with_the_most_is_that_of_the_heaviest_ctas_together():
    work = np.arange(300) % 16 + 1.0
    found = heaviest(work, 132, 2)
    assert found == [11, 143]  # 12 and 16 of work


def test_stairs_along_an_axis_are_followed():
    known = {cta: 100 * (cta % 16 // 2 + 1) for cta in (0, 3, 7, 8, 15, 16, 31)}
    found = instructions((16, 2, 1), known)
    assert found[15] == pytest.approx(800, rel=0.07)
    assert found[31] == pytest.approx(800, rel=0.07)
    assert (np.diff(found[:16]) >= 0).all()


def test_a_last_round_that_is_not_full_takes_between_one_cta_and_a_full_one():
    """32 CTAs take 25,000 cycles together, one alone 10,000."""
    assert _rounds(25_000.0, 35_000.0, 1, 32, 33) == 35_000
    assert _rounds(25_000.0, 35_000.0, 1, 32, 64) == 50_000
    assert 50_000 > _rounds(25_000.0, 35_000.0, 1, 32, 62) > 48_000
    assert _rounds(25_000.0, 35_000.0, 1, 32, 320) == 250_000


def test_ctas_that_leave_at_once_do_as_little_as_the_one_that_was_executed():
    left = np.arange(40) % 3 == 0
    found = instructions((40, 1, 1), {0: 8, 1: 500, 2: 500, 13: 500}, 132, left)
    np.testing.assert_array_equal(found, np.where(left, 8, 500))
