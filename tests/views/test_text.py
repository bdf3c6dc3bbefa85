"""The report on the terminal: what it says, and that its columns keep apart at every width."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import gpuemu
from gpuemu.cli.main import cli
from gpuemu.views.json_result import as_data
from gpuemu.views.text import report

KERNELS = Path(__file__).resolve().parents[2] / "traces" / "src" / "virtual_threads.cu"


@pytest.mark.slow
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
    lines = [line for _, line in report(result, 100, everything=True)]
    (head,) = (at for at, line in enumerate(lines) if line.startswith("Block  Warp  Sub-core"))
    *_, others = lines[head].split()
    shown = lines[head].split()[5:-1]
    assert shown == sorted(result.stalls, key=lambda reason: -result.stalls[reason])[: len(shown)] != []
    cells = [int(cell.replace(",", "")) for cell in lines[head + 1].split()]
    assert (others, sum(cells[5:])) == ("Others", cells[4] - cells[3])


def test_lower_bounds_are_shown_on_request_and_the_tightest_however_little_it_takes() -> None:
    arch = gpuemu.load_arch("sm_89").with_overrides({"launch.warp_interval_cycles": 100_000})
    trace = gpuemu.TraceBuilder("late", arch="sm_89", block=(128, 1, 1))
    trace.emit("EXIT")
    late, usual = gpuemu.run(trace.build(), arch), gpuemu.run("v2_shared_memory", "sm_89")
    assert late.bounds[0].cycles < 0.01 * late.cycles
    assert not any(line.startswith("Lower bound") for _, line in report(usual))
    for result in (late, usual):
        lines = [line for _, line in report(result, 100, everything=True)]
        head = next(at for at, line in enumerate(lines) if line.startswith("Lower bound per resource"))
        shown = [b for at, b in enumerate(result.bounds) if not at or b.cycles >= 0.01 * result.cycles]
        for bound, line in zip(shown, lines[head + 1 :], strict=False):
            assert line.split("  ")[0] == bound.resource


def test_the_report_ends_with_the_commands_that_come_next() -> None:
    result = gpuemu.run("v2_shared_memory", "sm_89")
    lines = [line for _, line in report(result, 100, again="v2_shared_memory --arch sm_89")]
    assert lines[-4:] == [
        "  gpuemu why v2_shared_memory --arch sm_89  what each cause costs",
        "  gpuemu run ... --page source              cycles per source line and instruction",
        "  gpuemu check v2_shared_memory             races, out-of-bounds accesses",
        "  gpuemu run ... --all                      lower bounds, all stall reasons, warps",
    ]
    whole = [line for _, line in report(result, 100, everything=True, again="v2_shared_memory --arch sm_89")]
    assert whole[-3:] == lines[-4:-1], "the command is --all already"
    assert "Next" not in "".join(line for _, line in report(result))
    long = [line for _, line in report(result, 60, again="kernel.cu --arg random:f32:4096 --arg zeros:f32:4096")]
    assert max(map(len, long)) <= 60
    assert "  gpuemu why ...  " in "\n".join(long)
    assert "  gpuemu check ...  " in "\n".join(long)


def test_what_limits_a_run_has_the_stalls_and_the_conflicts_with_the_lines_that_have_most() -> None:
    result = gpuemu.run("v2_shared_memory", "sm_89")
    lines = [line for _, line in report(result)]
    at = lines.index(f"{result.limit}.")
    assert "waits for global or local memory" in lines[at + 1]
    assert lines[at + 1].startswith(f"  {result.stalls['long_scoreboard'] / sum(result.stalls.values()):.1%}")
    assert lines[at + 1].endswith("  v2_shared_memory.cu:19")
    (conflicts,) = (
        line for line in lines if "Bank Conflicts    12 of 36 shared-memory wavefronts are conflicts" in line
    )
    assert re.search(r"^  33\.3%  .* v2_shared_memory\.cu:(28|29|31)$", conflicts)
    assert "No bank conflicts" not in "".join(lines)
    assert "  No bank conflicts. 33 of 34 SMs" in "\n".join(t for _, t in report(gpuemu.run("v5_swizzle", "sm_89")))


def test_lanes_that_are_far_apart_waste_sectors() -> None:
    trace = gpuemu.TraceBuilder("strided", arch="sm_89", block=(32, 1, 1))
    trace.emit("LDG.E R4, [R0.64]", lanes="128*lane")
    trace.emit("EXIT")
    text = "\n".join(line for _, line in report(gpuemu.run(trace.build(), "sm_89")))
    assert "  87.5%  Excessive Sectors  28 of 32 global-memory sectors are not needed" in text
    assert "  0x0000 LDG.E\n" in text


@pytest.mark.slow
def test_a_run_of_a_part_of_the_grid_says_how_many_of_it_were_timed() -> None:
    trace = gpuemu.trace_kernel(
        KERNELS, "reduction_plain", grid=6, block=256, args=arguments(), ctas=[0, 1], arch="sm_89"
    )
    part = gpuemu.run(trace)
    assert (as_data(part)["ctas"], as_data(part)["grid_ctas"]) == (2, 6)
    text = " ".join(" ".join(line for _, line in report(part)).split())
    assert re.search(r"Blocks 6 2 timed, 4 assumed to behave the same ", text)
    assert "of the 2 blocks timed" in text
    whole = gpuemu.run("v5_swizzle", "sm_89")
    assert (as_data(whole)["ctas"], as_data(whole)["grid_ctas"]) == (1, 1)
    assert " timed" not in "".join(line for _, line in report(whole))


def arguments() -> list[object]:
    import numpy as np

    return [np.ones(6 * 256, np.float32), np.zeros(6, np.float32)]


@pytest.mark.parametrize("columns", [60, 100, 200])
@pytest.mark.parametrize("trace", ["v2_shared_memory", "v5_swizzle"])
def test_the_report_reads_well_at_every_width(
    trace: str, columns: int, golden: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    ran = CliRunner().invoke(cli, ["run", f"traces/{trace}.yaml", "--arch", "sm_89"])
    assert ran.exit_code == 0, ran.output
    assert max(map(len, ran.output.splitlines())) <= columns
    assert len(ran.output.splitlines()) <= (40 if columns >= 100 else 60)
    golden(f"run_{trace}_at_{columns}.txt", ran.output)
