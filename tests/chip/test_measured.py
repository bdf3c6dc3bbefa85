"""Streams, atomics and launches as tools/chip measured them on an H100: rows of its files, and kernels that do the same."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from gpuemu.arch import load_arch
from gpuemu.chip.rates import First, share
from gpuemu.chip.whole import Traffic

FOLDER = Path(__file__).resolve().parents[2] / "tools" / "chip" / "h100"
H100 = load_arch("sm_90").chips["H100"]


def rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def streams(what: str, kernel: str) -> dict[int, float]:
    return {
        int(r["ctas"]): float(r["per_cycle"]) for r in rows("chip.csv") if (r["what"], r["kernel"]) == (what, kernel)
    }


def shares(sms: int, loads: int, stores: int, read: int, written: int):
    return share(H100, Traffic(loads, loads, stores, read, written, sms), sms, First(1.0, np.zeros(1, np.int64)))


@pytest.mark.parametrize("sms", [99, 132])
def test_an_sm_gets_its_part_of_what_all_were_measured_to_get(sms):
    found = shares(sms, 1000, 1000, 32_000, 0)
    assert sms * 32 / found.l2_load == pytest.approx(streams("l2", "read4")[sms], rel=0.08)
    assert sms * 32 / found.l2_store == pytest.approx(streams("l2", "write4")[sms], rel=0.03)
    assert sms * 32 / found.dram_load == pytest.approx(streams("dram", "read4")[sms], rel=0.05)


def test_reads_and_writes_of_dram_share_its_rate():
    found = shares(132, 1000, 1000, 32_000, 32_000)
    each = 132 * 32 / (found.dram_load + found.dram_store)
    assert each == pytest.approx(streams("dram", "copy4")[132], rel=0.02)


def test_few_sms_are_limited_by_themselves():
    """Four SMs get 116 bytes a cycle each of L2, which is what one alone can take."""
    found = shares(4, 1000, 0, 0, 0)
    assert 32 / found.l2_load > streams("l2", "read4")[4] / 4


@pytest.mark.parametrize(
    "row", [r for r in rows("launches.csv") if r["kernel"] == "nothing" and int(r["ctas"]) >= 1056]
)
def test_an_empty_launch_takes_its_own_time_and_that_of_its_ctas(row):
    expected = H100.launch_cycles + int(row["ctas"]) * H100.cta_dispatch_cycles + 150
    assert expected == pytest.approx(int(row["sm__cycles_elapsed.max"]), rel=0.1)


def test_atomics_on_one_address_are_done_one_after_another():
    measured = [
        float(r["per_cycle"])
        for r in rows("chip.csv")
        if r["what"] == "atomics" and r["ctas"] == "132" and r["told"].startswith("words=1 ")
    ]
    assert measured == pytest.approx([H100.atomics_per_cycle] * len(measured), rel=0.02)
