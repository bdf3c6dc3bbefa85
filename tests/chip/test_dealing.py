"""CTAs dealt out as places fall free, as tools/chip measured it on an H100."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from gpuemu.base.chance import mixed
from gpuemu.chip.cta_work import as_often, regular
from gpuemu.chip.dispatch import Pace, clusters_at_once, company, deal, order

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
    dealt = deal(spans + 430, 132, max(sharing.values()), Pace(1.0))  # a place stays taken for so long
    assert dealt.end - 430 == pytest.approx(measured, rel=0.06, abs=450)
    assert (dealt.starts[: 132 * max(sharing.values())] == 0).all()


def test_unequal_ctas_are_not_rounded_up_to_waves():
    durations = np.where(np.arange(528) % 7 == 0, 1000.0, 100.0)
    assert deal(durations, 132, 1, Pace(1.0)).end < 1600  # four waves of the longest would be 4,000


def test_an_sm_does_together_no_more_than_it_can():
    """Of four CTAs that live together two are twice as fast as four, and one no faster than alone."""
    assert deal(np.full(4, 1000.0), 1, 4, Pace(1.0, 2.0)).end == 2000
    assert deal(np.full(2, 1000.0), 1, 4, Pace(1.0, 2.0)).end == 1000
    assert deal(np.array([1000.0, 1000.0, 1000.0, 3000.0]), 1, 4, Pace(1.0, 2.0)).end == 4000


def test_of_a_large_grid_a_part_is_dealt_out_to_a_part_of_the_sms():
    dealt = deal(np.full(132 * 400, 100.0), 132, 2, Pace(1.0))
    assert dealt.end == pytest.approx(20_000, rel=0.01)
    assert (np.diff(dealt.starts) >= 0).all()


def test_ctas_go_two_by_two_and_every_seventh_does_not_meet_the_same_sms():
    """An H100 has 0 to 3 of every seventh of 1,056 CTAs on an SM, and every other on half of its SMs, eight on each."""
    sms = order(132, 1056)
    assert (np.bincount(sms) == 8).all()
    assert set(np.bincount(sms[::2], minlength=132).tolist()) == {0, 8}
    assert np.bincount(sms[::7], minlength=132).max() > 2


def test_the_order_of_tpcs_is_the_same_on_every_machine():
    """Written out: what a generator of NumPy gives may change from release to release."""
    assert order(7, 21).tolist() == [4, 5, 2, 3, 0, 1, 6, 0, 1, 4, 5, 2, 3, 6, 0, 1, 4, 5, 6, 2, 3]
    assert order(132, 8).tolist() == [106, 107, 66, 67, 4, 5, 84, 85]
    assert order(1, 3).tolist() == [0, 0, 0]


def test_chance_is_that_of_a_counter():
    """SplitMix64 from the seed 0, as its authors give it."""
    assert mixed(np.arange(2)).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]


def test_instructions_of_other_ctas_follow_the_axes_of_the_grid():
    known = {cta: 100 + 50 * (cta % 16) for cta in (0, 5, 15, 17, 40, 63)}
    assert regular((16, 4, 1), known).tolist() == pytest.approx([100 + 50 * (n % 16) for n in range(64)])


def test_instructions_without_order_are_taken_as_often_as_they_were_found():
    known = {0: 100, 1: 900, 2: 100, 3: 100, 9: 900, 11: 100}
    assert regular((64, 1, 1), known) is None
    found = as_often(64, known)
    assert set(found.tolist()) == {100.0, 900.0}
    assert np.mean(found == 900) == pytest.approx(1 / 3, abs=0.05)


def test_ctas_that_stay_are_those_that_are_run_together():
    """Half leave at once: six others fill an SM of six places."""
    work = np.where(np.arange(4096) % 64 > np.arange(4096) // 64, 40.0, 100_000.0)
    chosen = company(work, 132, 6)
    assert len(chosen) == 6
    assert (work[chosen] == 100_000).all()


def test_short_ctas_are_followed_by_others():
    work = 300.0 + np.arange(10_000) % 7 * 20
    assert 32 < len(company(work, 132, 16)) <= 40_000 / 300


def test_stairs_along_an_axis_are_followed():
    known = {cta: 100 * (cta % 16 // 2 + 1) for cta in (0, 3, 7, 8, 15, 16, 31)}
    found = regular((16, 2, 1), known)
    assert found is not None
    assert found[15] == pytest.approx(800, rel=0.07)
    assert found[31] == pytest.approx(800, rel=0.07)
    assert (np.diff(found[:16]) >= 0).all()


def test_ctas_that_leave_at_once_do_as_little_as_the_one_that_was_executed():
    left = np.arange(40) % 3 == 0
    found = regular((40, 1, 1), {0: 8, 1: 500, 2: 500, 13: 500}, left)
    assert found is not None
    np.testing.assert_array_equal(found, np.where(left, 8, 500))


def test_clusters_leave_sms_of_a_gpc_empty():
    """On a B200, a launch of 37 clusters of four takes twice as long as one of 74 clusters of two: SemiAnalysis' tables."""
    assert clusters_at_once(148, 8, 2) == 74
    assert clusters_at_once(148, 8, 4) == 34
    assert clusters_at_once(20, 1, 4) == 5
