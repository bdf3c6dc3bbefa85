"""Streams, atomics and launches as tools/chip measured them on an H100: rows of its files, and kernels that do the same."""

from __future__ import annotations

import csv
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from small_launches import ARCH, grid, launch, steps

import gpuemu
from gpuemu.arch import load_arch
from gpuemu.chip import clock
from gpuemu.chip.memory import transfer
from gpuemu.chip.simulation import END, LOAD, REPLY, RUN, STORE

FOLDER = Path(__file__).resolve().parents[2] / "tools" / "chip"
H100 = ARCH.chips["H100"]


def rows(name: str, chip: str = "h100") -> list[dict[str, str]]:
    with (FOLDER / chip / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def streams(what: str, kernel: str) -> dict[int, float]:
    return {
        int(r["ctas"]): float(r["per_cycle"]) for r in rows("chip.csv") if (r["what"], r["kernel"]) == (what, kernel)
    }


def rate(sms: int, kind: int, lines: int, cold: bool = False) -> float:
    """Bytes per cycle of a CTA on each of so many SMs, for the second half of so many lines of its own."""
    before = dict.fromkeys(["l2_kept_kibibytes", "l2_found_kibibytes"])
    before |= {"l2_dirty_kibibytes": None} if cold else {}  # nothing to write back
    before["start_spread_cycles"] = None  # the steps hand over all lines at once, so an SM that begins later is last
    alone = H100.model_copy(update=before)
    ended = []
    for count in (lines // 2, lines):
        asks, waits = ([(0.1, 0, 0, what, n) for n in range(count)] for what in (kind, REPLY))
        given = steps([*asks, *(waits if kind == LOAD else ()), (0, 0, 0, END, 0)], lines=np.arange(count) * 128)
        given = given._replace(stores=np.full(count, kind == STORE, np.int64))  # other types compile it again
        of = grid(sms, cold=cold, far=lines * 128)
        ended.append(clock.all_sms(given, of, ARCH, alone).end)
    return sms * (lines - lines // 2) * 128 / (ended[1] - ended[0])


@pytest.mark.slow
@pytest.mark.parametrize("sms", [99, 132])
def test_sms_get_what_they_were_measured_to_get(sms):
    assert rate(sms, LOAD, 2000) == pytest.approx(streams("l2", "read4")[sms], rel=0.08)
    assert rate(sms, STORE, 1000) == pytest.approx(streams("l2", "write4")[sms], rel=0.08)
    assert rate(sms, LOAD, 2000, cold=True) == pytest.approx(streams("dram", "read4")[sms], rel=0.08)


@pytest.mark.slow
def test_few_sms_are_limited_by_themselves():
    """Four SMs get 116 bytes a cycle each of L2, nearly what the path to an SM can take."""
    found = rate(4, LOAD, 2000)
    assert found == pytest.approx(4 * ARCH.global_memory.bytes_per_cycle, rel=0.01)
    assert 1 < found / streams("l2", "read4")[4] < 1.15


@pytest.mark.parametrize(
    "row", [r for r in rows("launches.csv") if r["kernel"] == "nothing" and int(r["ctas"]) >= 1056]
)
def test_an_empty_launch_takes_its_own_time_and_that_of_its_ctas(row):
    expected = H100.launch_cycles + int(row["ctas"]) * H100.cta_dispatch_cycles + 150
    assert expected == pytest.approx(int(row["sm__cycles_elapsed.max"]), rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["noparam", "param", "owns", "stores"])
def test_a_launch_takes_longer_than_its_longest_sm_as_measured(kernel):
    """The profiler's cycles step by 90. Launches that load or store one word end 340 cycles later than others."""
    chip, found = ARCH.chips["H200"], {}
    for row in rows("gaps.csv", "h200"):
        if row["kernel"] == kernel:
            ctas = int(row["ctas"])
            accesses = [(0.0, 0, 0, STORE if kernel == "stores" else LOAD, 0)] if kernel in ("owns", "stores") else []
            given = steps([(1500.0, 0, 0, RUN, 0), *accesses, (0, 0, 0, END, 0)], lines=[0] * len(accesses))
            of = replace(grid(ctas, 2, far=4096), accesses=bool(accesses))
            together = dict.fromkeys(["start_spread_cycles", "drain_cycles", "cta_dispatch_cycles"])
            whole, own = (
                clock.all_sms(given, of, ARCH, chip.model_copy(update=changed)).end for changed in ({}, together)
            )
            gap = float(row["sm__cycles_elapsed.max"]) - float(row["sm__cycles_active.max"])
            found[ctas] = chip.launch_cycles + whole - own - gap
    assert len(found) == 15
    assert abs(found[1]) < 90
    assert abs(np.mean([off for ctas, off in found.items() if ctas >= 48])) < 60
    assert max(map(abs, found.values())) < 200


def test_atomics_on_one_address_are_done_one_after_another():
    measured = [
        float(r["per_cycle"])
        for r in rows("chip.csv")
        if r["what"] == "atomics" and r["ctas"] == "132" and r["told"].startswith("words=1 ")
    ]
    assert measured == pytest.approx([H100.atomics_per_cycle] * len(measured), rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["H100", "H200"])
def test_a_load_waits_as_a_chain_does_beside_what_others_load(name):
    """Only below three quarters of DRAM's rate: beyond, the others' own queues count, too."""
    chip = ARCH.chips[name]
    found = [
        (float(r["others_per_cycle"]), int(r["first_cycles"]) / int(r["first_done"]))
        for r in rows("chip.csv", name.lower())
        if r["what"] == "under load" and "chain=dram rows=dram" in r["told"]
    ]
    idle = min(cycles for _, cycles in found)
    assert len(found) == 12
    for others, cycles in found:
        some = launch(steps([(0, 0, 0, END, 0)]), grid(cold=True), sms=132, chip=chip)
        waits = [transfer(some.memory, some.chip, n, 64 * n / max(1.0, others), 1.0) for n in range(80_000)]
        if others <= 0.75 * chip.dram_bytes_per_cycle:
            assert np.mean(waits[60_000:]) == pytest.approx(cycles - idle, abs=130)


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
