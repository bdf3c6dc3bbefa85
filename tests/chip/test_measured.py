"""Streams, atomics and launches as tools/chip measured them on an H100: rows of its files, and kernels that do the same."""

from __future__ import annotations

import csv
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import gpuemu
from gpuemu.arch import load_arch
from gpuemu.chip.estimate import Traffic
from gpuemu.chip.rates import First, queueing_delay, share, solve_wait

FOLDER = Path(__file__).resolve().parents[2] / "tools" / "chip"
H100 = load_arch("sm_90").chips["H100"]


def rows(name: str, chip: str = "h100") -> list[dict[str, str]]:
    with (FOLDER / chip / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def streams(what: str, kernel: str) -> dict[int, float]:
    return {
        int(r["ctas"]): float(r["per_cycle"]) for r in rows("chip.csv") if (r["what"], r["kernel"]) == (what, kernel)
    }


def shares(sms: int, loads: int, stores: int, read: int, written: int):
    first = First(1.0, np.zeros(1, np.int64))
    return share(H100, Traffic(loads, loads, stores, read, written, written, sms), sms, first, False)


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


@pytest.mark.parametrize("name", ["H100", "H200"])
def test_a_load_waits_as_a_chain_does_beside_what_others_load(name):
    chip = load_arch("sm_90").chips[name]
    found = [
        (float(r["others_per_cycle"]), int(r["first_cycles"]) / int(r["first_done"]))
        for r in rows("chip.csv", name.lower())
        if r["what"] == "under load" and "chain=dram rows=dram" in r["told"]
    ]
    idle = min(cycles for _, cycles in found)
    assert len(found) == 12
    for others, cycles in found:
        assert queueing_delay(chip, round(idle), others / chip.dram_bytes_per_cycle) == pytest.approx(
            cycles - idle, abs=130
        )


def test_the_wait_that_settles_is_the_one_that_a_launch_so_long_has():
    """Ten thousand loads one behind another, which take half of DRAM's rate if none waits."""
    wait = solve_wait(H100, 700, 3.5e6, (0, 7e6), (100, 8e6))
    assert 0 < wait < queueing_delay(H100, 700, 0.5)
    assert queueing_delay(H100, 700, 3.5e6 / (7e6 + 1e4 * wait)) == pytest.approx(wait, abs=1)


def test_of_ctas_that_begin_together_the_sm_that_lacks_most_ends_last():
    first = First(1.0, np.arange(16))
    lacks = [share(H100, Traffic(1000, 1000, 0, 16_000, 0, 0, 132), 132, first, once).absent.mean() for once in (0, 1)]
    assert lacks[0] == pytest.approx(0.5, abs=0.1)
    assert lacks[1] > 0.75


@pytest.mark.slow
def test_a_stream_takes_less_time_at_a_higher_clock_without_a_jump():
    """Of 1,024 CTAs on an RTX 3080; refreshes at the same cycle of each run were in its end from 1,700 MHz on: 6 %."""
    trace = gpuemu.TraceBuilder("stream", arch="sm_86", grid=(16, 1, 1), block=(256, 1, 1))
    for number, sass in enumerate(("LDG.E R4, [R2.64]", "LDG.E R5, [R2.64]", "STG.E [R2.64], R4")):
        control = "B0-----:R-:W-:-:S01" if number == 2 else "B------:R-:W0:-:S01"
        trace.emit(sass, lanes=f"4*lane+128*warp+1024*cta+{number << 20}", control=control)
    trace.emit("EXIT", control="B------:R-:W-:-:S05")
    built = trace.build()
    built = replace(built, launch=replace(built.launch, grid=(1024, 1, 1)))
    arch = load_arch("sm_86").with_overrides({"chip": "RTX 3080", "global_memory.first_touch": "dram"})
    times = [
        gpuemu.run(built, arch.with_overrides({"chips.RTX 3080.clock_mhz": mhz})).on_the_chip().elapsed / mhz
        for mhz in range(1640, 1740, 20)
    ]
    assert all(0.985 < faster / slower <= 1.0 for slower, faster in pairwise(times)), times
