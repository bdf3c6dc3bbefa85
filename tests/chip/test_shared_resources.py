"""What SMs share, one mechanism at a time, against what was measured on an H200."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_launches import grid, steps

import gpuemu
from gpuemu.chip import clock
from gpuemu.chip.estimate import ATOMICS, DRAM, LaunchEstimate
from gpuemu.chip.memory import WRITTEN
from gpuemu.chip.plan import SampledGrid
from gpuemu.chip.simulation import END, STORE
from gpuemu.trace.model import Launch

SOURCE = Path(__file__).with_name("kernels.cu")
H200 = gpuemu.load_arch("sm_90").with_overrides({"chip": "H200"})
CHIP = H200.chips["H200"]


def launch(kernel: str, grid: int, threads: int, args: list[Any], arch: Any = H200, **more: Any) -> LaunchEstimate:
    trace = gpuemu.trace_kernel(SOURCE, kernel, grid, threads, args=args, arch=arch, timed_only=True, **more)
    whole = gpuemu.run(trace, arch).grid.whole
    assert whole is not None
    return whole


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "rate"), [("count_floats", 0.287), ("count_ints", 0.73)])
def test_l2_adds_floats_to_one_word_more_slowly_than_integers_and_the_launch_waits_for_it(kernel: str, rate: float):
    few, many = (launch(kernel, grid, 32, [np.zeros(32, np.float32)]) for grid in (4224, 8448))
    assert many.limited_by == ATOMICS
    assert many.limits[ATOMICS] == pytest.approx(8448 / rate, rel=0.01)
    assert many.elapsed - few.elapsed == pytest.approx(4224 / rate, rel=0.05)


@pytest.mark.slow
def test_a_cta_finds_no_data_in_l1_of_one_that_would_have_to_lie_on_its_sm():
    """CTA n + 1,056 loads what CTA n has loaded, and begins on whichever SM falls free: all of it comes from L2."""
    a = np.zeros(1 << 23, np.float32)
    found = launch("again", 3168, 256, [a, a])
    assert found.traffic.loaded_sectors == pytest.approx(3168 * 256 * 8 * 4 // 32, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("grid", [132, 1056])
def test_spills_are_written_to_l2_each_time(grid: int):
    """An H200: 260 sectors a warp, 256 of which it spills, and 4 results."""
    found = launch("spill", grid, 128, [np.zeros(grid * 128, np.int32), 1])
    assert found.traffic.stored_sectors == grid * 4 * 260


@pytest.mark.slow
def test_spills_that_exceed_l2_reach_dram():
    small = H200.with_overrides({"chips.H200.l2_held_kibibytes": 4096, "chips.H200.l2_dirty_kibibytes": 2048})
    found = launch("spill", 1056, 128, [np.zeros(1056 * 128, np.int32), 1], small)
    assert found.traffic.dram_written > 16 << 20


@pytest.mark.slow
@pytest.mark.parametrize("grid", [264, 1056])
def test_bulk_copies_without_a_tensor_map_are_traffic(grid: int):
    a = np.zeros(grid * 4096, np.float32)
    found = launch("bulk", grid, 128, [a, a])
    assert found.traffic.loaded_sectors == grid * 16384 // 32


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_bulk_copies_wait_for_dram(rate: float):
    """All data come from DRAM. Half its rate takes twice the time, without the latencies."""
    a = np.zeros(2112 * 4096, np.float32)
    given = {"global_memory.first_touch": "dram", "chips.H200.dram_bytes_per_cycle": rate * CHIP.dram_bytes_per_cycle}
    found = launch("bulk", 2112, 128, [a, a], H200.with_overrides(given))
    assert found.limited_by == DRAM
    assert found.traffic.dram_read == pytest.approx(a.nbytes, rel=0.01)
    moved = found.traffic.dram_read + found.traffic.dram_written
    assert moved / (rate * CHIP.dram_bytes_per_cycle) == pytest.approx(found.elapsed, rel=0.25)


@pytest.mark.parametrize("name", ["H100", "H200"])
def test_values_are_those_that_were_measured(name: str):
    folder, chip = Path(__file__).resolve().parents[2] / "tools/chip" / name.lower(), H200.chips[name]
    with (folder / "atomics.csv").open(encoding="utf-8") as file:
        rates = {
            (row["operation"], row["ctas"]): int(row["requests"]) / float(row["nanoseconds"]) / 1.98
            for row in csv.DictReader(file)
        }
    for operation in ("add.f32", "add.f64", "add.f16x2"):
        assert rates[operation, "1056"] == pytest.approx(chip.float_atomics_per_cycle, rel=0.01)
    with (folder / "cold.csv").open(encoding="utf-8") as file:
        took = {(row["mode"], int(row["mib"]), row["warm"]): float(row["nanoseconds"]) for row in csv.DictReader(file)}
    of_dram = (1 << 20) / chip.dram_bytes_per_cycle / 1.98  # nanoseconds per MiB
    stores = [(took["copy", size, "0"] - took["read", size, "0"]) / size / of_dram for size in (8, 12, 16, 24)]
    assert np.mean(stores) == pytest.approx(chip.dirty_share, abs=0.1)
    large = (took["copy", 128, "0"] - took["read", 128, "0"]) / 128 / of_dram
    held_back = chip.l2_dirty_kibibytes / 1024 / 128
    assert 1 - held_back * (1 - chip.dirty_share) == pytest.approx(large, abs=0.1)


@pytest.mark.slow
def test_what_l2_holds_back_of_stores_takes_a_part_of_the_time_of_dram():
    """Behind an equal launch, 4 MiB that are stored become dirty beside what was dirty before."""
    given = steps([(0, 0, 0, STORE, 0), (0, 0, 0, END, 0)], lines=[0])
    of = replace(grid(32768, far=128), moved={0: np.arange(32768) * 128})
    ended = clock.all_sms(given, of, H200, CHIP)
    assert ended.counts[WRITTEN] == 0
    assert ended.dram_busy == pytest.approx(CHIP.dirty_share * (4 << 20) / CHIP.dram_bytes_per_cycle, rel=0.02)


@pytest.mark.slow
def test_a_copy_behind_a_benchmark_that_clears_l2_takes_dram_for_both_ways():
    """An H200 writes 18.0 MB in a copy of 17.3 MB behind a memset of 512 MiB."""
    a, b = (np.zeros(4096 * 1024, np.float32) for _ in range(2))
    cold = H200.with_overrides({"global_memory.first_touch": "dram"})
    found = launch("copy", 4096, 256, [a, b], cold)
    assert found.traffic.dram_written == pytest.approx(18.0 / 17.3 * found.traffic.dirtied, rel=0.08)
    moved = found.traffic.dram_read + found.traffic.dram_written
    assert found.limits[DRAM] == pytest.approx(moved / CHIP.dram_bytes_per_cycle, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("clock", [1600, 2400])
def test_dram_keeps_its_rate_when_the_clock_of_the_sms_changes(clock: int):
    a, b = (np.zeros(8192 * 1024, np.float32) for _ in range(2))
    cold = H200.with_overrides({"global_memory.first_touch": "dram"})
    other = cold.with_overrides({"chips.H200.clock_mhz": clock})
    limits = [launch("copy", 8192, 256, [a, b], arch).limits[DRAM] for arch in (cold, other)]
    assert limits[1] / clock == pytest.approx(limits[0] / 1980, rel=0.03)


def test_a_seed_draws_the_sm_that_is_timed_and_none_gives_the_first():
    grid = Launch((2000, 1, 1), (128, 1, 1), 32, 0, 0)
    plans = [SampledGrid(seed).begin(grid, 132, 4) for seed in range(40)]
    assert len({plan.timed[0] for plan in plans}) > 20
    assert all(len(plan.timed) == 4 and max(plan.timed) < 2000 for plan in plans)
    assert SampledGrid().begin(grid, 132, 4).timed == range(0, 528, 132)
    assert {*SampledGrid(7).begin(grid, 132, 4).recorded_beside(False)} != {
        *SampledGrid(8).begin(grid, 132, 4).recorded_beside(False)
    }


@pytest.mark.parametrize("ctas", [5, 131, 140, 260, 527])
def test_a_drawn_sm_has_as_many_ctas_as_any(ctas: int):
    for seed in range(20):
        plan = SampledGrid(seed).begin(Launch((ctas, 1, 1), (128, 1, 1), 32, 0, 0), 132, 4)
        assert len(plan.timed) == -(-ctas // 132)


@pytest.mark.slow
def test_a_cta_of_a_large_grid_leaves_at_once_as_its_neighbors_do():
    values, staying = np.zeros(1024, np.float32), 40
    trace = gpuemu.trace_kernel(
        SOURCE, "few_stay", 70_000, 32, args=[values, staying, 70_000 - staying], arch=H200, timed_only=True
    )
    assert trace.sample is not None
    work = trace.sample.work
    assert work is not None
    stays = work > work.max() / 2
    assert stays[:staying].all()
    assert stays.sum() == pytest.approx(2 * staying, abs=16)
    assert stays[16 - staying :].all()


@pytest.mark.slow
def test_a_launch_whose_first_cta_is_short_ends_with_its_longest_one():
    """CTA 0 has no iterations, and CTA 11 has 440."""
    whole, same = (
        gpuemu.run(
            gpuemu.trace_kernel(SOURCE, "rising", 12, 32, args=[np.ones(384, np.float32), 40], arch=H200, **some)
        )
        for some in ({}, {"ctas": [11]})
    )
    assert whole.grid.whole.elapsed == pytest.approx(CHIP.launch_cycles + same.cycles, rel=0.1)
