"""Where the data of other CTAs lie, from those of the CTAs that were executed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.chip.estimate import Traffic

SOURCE = Path(__file__).with_name("kernels.cu")
H200 = gpuemu.load_arch("sm_90").with_overrides({"chip": "H200", "global_memory.first_touch": "dram"})


def traffic(kernel: str, grid: int, threads: int, args: list[Any]) -> Traffic:
    trace = gpuemu.trace_kernel(SOURCE, kernel, grid, threads, args=args, arch=H200, timed_only=True)
    whole = gpuemu.run(trace, H200).grid.whole
    assert whole is not None
    return whole.traffic


@pytest.mark.slow
def test_data_that_all_ctas_share_comes_from_dram_once_also_where_l1_had_a_part_of_it():
    """The later CTAs of an SM find a part of the shared row in L1, so their requests begin in its middle."""
    ctas, row = 2112, 32 << 10
    args = [
        np.zeros(ctas * row // 4, np.float32),
        np.zeros(row // 4, np.float32),
        np.zeros(ctas * row // 4, np.float32),
    ]
    found = traffic("scale_rows", ctas, 256, [*args, row // 16])
    assert found.loaded_sectors < 1.9 * ctas * row // 32
    assert found.dram_read == pytest.approx((ctas + 1) * row, rel=0.02)


@pytest.mark.slow
def test_ctas_that_store_in_the_same_range_have_data_of_their_own():
    tiles = 2640
    found = traffic("store_in_another_order", 132, 1024, [np.zeros(tiles * 1024, np.float32), tiles])
    assert found.dirtied == pytest.approx(tiles * 4096, rel=0.02)


@pytest.mark.slow
def test_ctas_that_together_load_more_than_their_buffer_has_share_it():
    """Each of 1,584 CTAs loads 4 KiB somewhere in a table of 1 MiB, with four instructions."""
    ctas, table = 1584, np.zeros(1 << 18, np.float32)
    where = np.random.default_rng(1).integers(0, (len(table) - 1024) // 1024, ctas).astype(np.int32) * 1024
    found = traffic("part_of_a_table", ctas, 256, [where, table, np.zeros(ctas * 256, np.float32)])
    assert found.loaded_sectors > 0.9 * ctas * 4096 // 32
    assert found.dram_read == pytest.approx(table.nbytes + where.nbytes, rel=0.15)


@pytest.mark.slow
def test_what_ctas_store_in_place_lies_where_they_loaded_it_in_each_of_several_tensors():
    ctas = 1056
    found = traffic("double_each", 3 * ctas, 256, [*(np.zeros(ctas * 1024, np.float32) for _ in range(3)), ctas])
    assert found.dram_read == found.dirtied == pytest.approx(3 * ctas * 4096, rel=0.02)


@pytest.mark.slow
def test_loads_behind_a_barrier_tell_which_ctas_share_data():
    """Eight CTAs read the same row, and which one is not linear in their numbers. There are more rows than they read."""
    ctas, sharing, width = 132, 8, 1024
    given = [np.ones(1, np.float32), np.zeros(2 * ctas * width * 4, np.float32), np.zeros(ctas * 256, np.float32)]
    found = traffic("rows_behind_a_barrier", ctas, 256, [*given, sharing, width])
    assert found.dram_read == pytest.approx(-(-ctas // sharing) * width * 16, rel=0.05)
