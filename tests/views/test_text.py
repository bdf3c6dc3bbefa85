"""The report on the terminal: what it says, and that its columns keep apart at every width."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpuemu
from gpuemu.views.json_result import as_data
from gpuemu.views.text import report

KERNELS = Path(__file__).resolve().parents[2] / "traces" / "src" / "virtual_threads.cu"


@pytest.mark.parametrize("columns", [60, 80, 100, 137, 200])
def test_every_line_fits_and_no_number_is_cut(columns: int) -> None:
    result = gpuemu.run("gemm_tile_plain", "sm_89")
    lines = [line for _, line in report(result, columns, everything=True, again="gemm_tile_plain --arch sm_89")]
    assert max(map(len, lines)) <= columns
    words = " ".join(lines).split()
    assert {f"{cycles:,}" for cycles in result.stalls.values()} <= set(words)
    assert {f"{bound.cycles:,}" for bound in result.bounds if bound.cycles >= 0.01 * result.cycles} <= set(words)
    assert {f"{warp.end_cycle:,}" for warp in result.warps} <= set(words)
    assert {reason for reason, cycles in result.stalls.items() if cycles} <= set(words)  # each has its one name


@pytest.mark.slow
def test_warps_have_the_reasons_that_took_most_and_the_sum_of_the_others() -> None:
    result = gpuemu.run("gemm_tile_plain", "sm_89")
    lines = [line for _, line in report(result, 100)]
    (head,) = (number for number, line in enumerate(lines) if line.startswith("CTA  Warp  Sub-core"))
    *_, others = lines[head].split()
    shown = lines[head].split()[5:-1]
    assert shown == sorted(result.stalls, key=lambda reason: -result.stalls[reason])[: len(shown)] != []
    cells = [int(cell.replace(",", "")) for cell in lines[head + 1].split()]
    assert (others, sum(cells[5:])) == ("Others", cells[4] - cells[3])


@pytest.mark.parametrize("everything", [False, True])
def test_the_few_bounds_that_matter_are_shown_and_all_on_request(everything: bool) -> None:
    result = gpuemu.run("v2_shared_memory", "sm_89")
    lines = [line for _, line in report(result, 100, everything)]
    bounds = [b.resource for b in result.bounds if b.cycles >= 0.01 * result.cycles]
    shown = [name for name in bounds if any(line.startswith(f"{name}  ") for line in lines)]
    assert shown == (bounds if everything else [b for b in bounds if not b.startswith("latency of one warp,")][:6])
    assert any(line == f"and {len(bounds) - 6} more; --all shows them" for line in lines) is not everything


def test_the_tightest_bound_is_shown_however_little_it_takes() -> None:
    arch = gpuemu.load_arch("sm_89").with_overrides({"launch.warp_interval_cycles": 100_000})
    trace = gpuemu.TraceBuilder("late", arch="sm_89", block=(128, 1, 1))
    trace.emit("EXIT")
    result = gpuemu.run(trace.build(), arch)
    assert result.bounds[0].cycles < 0.01 * result.cycles
    lines = [line for _, line in report(result, 100)]
    head = next(n for n, line in enumerate(lines) if line.startswith("Cycles if only this limited it"))
    assert lines[head + 1].startswith(f"{result.bounds[0].resource}  ")


def test_the_verdict_is_in_words_and_the_last_line_names_what_to_ask_next() -> None:
    lines = [line for _, line in report(gpuemu.run("v2_shared_memory", "sm_89"), 100, again="v2_shared_memory")]
    verdict = "Waits for global memory: one warp cannot hide it (92% of the cycles are the latency of one warp)."
    assert verdict in lines
    assert "Next: gpuemu why v2_shared_memory: what the bank conflicts" in lines[-2]
    assert "Next" not in "".join(line for _, line in report(gpuemu.run("v2_shared_memory", "sm_89")))


@pytest.mark.slow
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
