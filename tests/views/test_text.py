"""The report on the terminal: what it says, and that its columns keep apart at every width."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpuemu
from gpuemu.program.stall_reasons import NAMES
from gpuemu.views.json_result import as_data
from gpuemu.views.text import _HEADS, report

KERNELS = Path(__file__).resolve().parents[2] / "traces" / "src" / "virtual_threads.cu"


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_the_heads_of_all_stall_columns_keep_a_space_between(columns: int) -> None:
    result = gpuemu.run("gemm_tile_plain", "sm_89")
    reasons = [reason for reason, cycles in result.stalls.items() if cycles]
    assert reasons == ["selected", *NAMES]
    lines = [line for _, line in report(result, columns)]
    assert all(len(line) <= columns for line in lines)
    tables = [number for number, line in enumerate(lines) if line.startswith(" CTA warp core")]
    assert len(tables) == {80: 3, 100: 2, 200: 1}[columns]
    heads = [lines[number].split()[5:] for number in tables]
    assert [word for table in heads for word in table] == [_HEADS[reason][0] for reason in reasons]
    under = [word for number in tables for word in lines[number + 1].split()]
    assert under == [_HEADS[reason][1] for reason in reasons if _HEADS[reason][1]]
    first = [cell for number in tables for cell in lines[number + 2].split()[5:]]
    assert first == [str(result.warps[0].stalls[reason]) for reason in reasons]


def test_a_run_of_a_part_of_the_grid_says_how_many_of_it_were_timed() -> None:
    trace = gpuemu.trace_kernel(
        KERNELS, "reduction_plain", grid=6, block=256, args=arguments(), ctas=[0, 1], arch="sm_89"
    )
    part = gpuemu.run(trace)
    assert (as_data(part)["ctas"], as_data(part)["grid_ctas"]) == (2, 6)
    assert any(line.startswith("timed 2 of the grid's 6 CTAs, each of 8 warps; ") for _, line in report(part))
    whole = gpuemu.run("v5_swizzle", "sm_89")
    assert (as_data(whole)["ctas"], as_data(whole)["grid_ctas"]) == (1, 1)
    assert any(line.startswith("1 CTA of 1 warp; ") for _, line in report(whole))


def arguments() -> list[object]:
    import numpy as np

    return [np.ones(6 * 256, np.float32), np.zeros(6, np.float32)]
