"""How a launch is dealt out over a chip: which CTAs are timed, how many waves, and about how long it takes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape

import pytest
from click.testing import CliRunner

import gpuemu
from gpuemu.chip import launch
from gpuemu.chip.estimate import LaunchEstimate, Traffic
from gpuemu.chip.launch import ALONE, DRAM, L2, LATENCY, SHARES
from gpuemu.cli.main import cli
from gpuemu.views import text
from gpuemu.views.grid import GridCounts
from gpuemu.views.report.page import as_html

NOTHING = Traffic(0, 0, 0, 0, 0, 0, 1)
GRID = GridCounts(
    "H200",
    sms=132,
    clock_mhz=2000,
    ctas=1,
    resident_ctas=4,
    timed_ctas=1,
    find=lambda: LaunchEstimate(5000, {}, "L2", NOTHING, 0, True, 528),
)


@pytest.mark.parametrize(
    ("ctas", "timed", "most", "waves", "nanoseconds"),
    [
        (1, 1, 1, 1, 2500),
        (133, 2, 2, 1, 2500),
        (4 * 132 + 1, 4, 5, 2, 2500),
        (4 * 132, 3, 4, 1, None),  # four share an SM and three were timed: nothing follows for the whole
        (4 * 132 + 1, 1, 5, 2, None),
    ],
)
def test_a_grid_is_dealt_out_over_the_sms(ctas, timed, most, waves, nanoseconds):
    grid = replace(GRID, ctas=ctas, timed_ctas=timed)
    assert (grid.most_ctas, grid.waves, grid.nanoseconds) == (most, waves, nanoseconds)


def report(*options: str) -> str:
    result = CliRunner().invoke(cli, ["run", "v5_swizzle", "--arch", "sm_89", *options])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.slow
def test_the_report_says_how_long_the_whole_launch_takes_on_the_chip_that_was_chosen():
    small, cycles = report(), json.loads(report("--format", "json"))["cycles"]
    start = round(1500 * 2.535)  # nobody measured it on this chip
    assert (
        f"{round((start + cycles) * 1000 / 2535) / 1000:10.2f} us, about, for the whole launch on RTX 4060 Ti at 2535 MHz\n"
        in small
    )
    assert f"{start + cycles} cycles elapsed, {start} of them to launch it: 1 CTA on 34 SMs" in small
    assert "1 CTA on 34 SMs, 1 on the SM with the most; limited by too few CTAs; 1 CTA timed;" in " ".join(
        small.split()
    )
    assert "for the whole launch on RTX 4090" in report("--chip", "RTX 4090")
    with pytest.raises(gpuemu.GpuemuError, match=r"chip: unknown chip 'RTX 409'\. Did you mean 'RTX 4090'"):
        gpuemu.load_arch("sm_89").with_overrides({"chip": "RTX 409"})


def test_the_page_says_it_too():
    assert re.search(
        r'<b id="microseconds">1\.\d\d</b> us for the whole launch on\s+RTX 4060 Ti', report("--format", "html")
    )


def test_a_run_is_limited_by_the_chip_or_by_what_limits_its_sm():
    trace = gpuemu.load_trace("v5_swizzle")
    few, full = (
        gpuemu.run(replace(trace, launch=replace(trace.launch, grid=(ctas, 1, 1))), "sm_89") for ctas in (1, 34)
    )
    assert few.limited_by == "too few CTAs"
    assert full.limited_by == full.bounds[0].resource


@pytest.mark.parametrize(
    ("beside", "dram", "limit"), [(1050, 900, ALONE), (1150, 600, LATENCY), (1150, 700, DRAM), (1000, 1200, DRAM)]
)
def test_other_sms_limit_a_launch_only_where_they_make_it_a_tenth_longer(beside, dram, limit):
    assert launch._limited_by({ALONE: 1000, SHARES: beside, DRAM: dram, L2: 100}, 1320, 1056, 132) == limit


def test_a_launch_that_the_chip_limits_says_so_before_what_its_sm_does():
    result, alone = (gpuemu.run("v5_swizzle", "sm_90") for _ in range(2))
    whole = LaunchEstimate(5000, {}, DRAM, NOTHING, 0, True, 528)
    vars(result)["grid"] = replace(result.grid, find=lambda: whole)
    assert result.verdict == f"The whole launch is limited by DRAM. On one SM alone, w{alone.verdict[1:]}"
    assert "5000 cycles elapsed, 2830 of them to launch it: " in "\n".join(line for _, line in text.report(result, 200))


@pytest.mark.parametrize("ctas", [1, 34, 35])
def test_cycles_and_occupancy_of_some_of_the_ctas_say_so(ctas: int) -> None:
    trace = gpuemu.load_trace("v5_swizzle")
    result = gpuemu.run(replace(trace, launch=replace(trace.launch, grid=(ctas, 1, 1))), "sm_89")
    told = " ".join(" ".join(line for _, line in text.report(result)).split())
    assert (" cycles from launch to last store of the 1 CTA timed, caches warm " in told) == (ctas > 1)
    more = "of 1 of the SM's 2 CTAs: no other takes a place that falls free"
    assert (f" 1.0 warps, {more} " in told) == (ctas > 34)  # else no SM has more than were timed
    assert (more in unescape(as_html(result))) == (ctas > 34)
