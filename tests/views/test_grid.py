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
from gpuemu.chip.estimate import ALONE, ATOMICS, DEALING, DRAM, L2, LATENCY, SHARES, LaunchEstimate, Traffic
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
    told = " ".join(small.split())
    found = re.search(r"Elapsed Cycles ([\d,]+) of which ([\d,]+) are launch overhead", told)
    assert found is not None
    elapsed = int(found[1].replace(",", ""))
    assert int(found[2].replace(",", "")) == start
    assert abs(elapsed - start - cycles) <= 0.01 * cycles, "the SM's cycles include the way of its last store to L2"
    assert f"Duration {elapsed / 2535:.2f} us estimated, at 2,535 MHz" in told
    assert "33 of 34 SMs have no work: the grid has 1 block." in told
    everything = " ".join(report("--all").split())
    assert "RTX 4060 Ti has 34 SMs, and the SM with the most gets 1 of 1 blocks." in everything
    assert "The launch is limited by too few CTAs: 1 timed." in everything
    assert small.startswith("v5_swizzle on sm_89, RTX 4060 Ti (default of sm_89; --chip chooses another)\n")
    assert report("--chip", "RTX 4090").startswith("v5_swizzle on sm_89, RTX 4090\n")
    with pytest.raises(gpuemu.GpuemuError, match=r"chip: unknown chip 'RTX 409'\. Did you mean 'RTX 4090'"):
        gpuemu.load_arch("sm_89").with_overrides({"chip": "RTX 409"})


def test_the_page_says_it_too():
    page = report("--format", "html")
    assert re.search(r'Duration</span></dt><dd><b>1\.\d\d us</b> <span class="faint">estimated, at 2,535 MHz', page)
    assert "on sm_89, RTX 4060 Ti <small>default of sm_89; --chip chooses another</small></h1>" in page


@pytest.mark.slow
def test_a_run_is_limited_by_the_chip_or_by_what_limits_its_sm():
    trace = gpuemu.load_trace("attention")
    few, full = (
        gpuemu.run(replace(trace, launch=replace(trace.launch, grid=(ctas, 1, 1))), "sm_90") for ctas in (1, 132)
    )
    assert few.limited_by == "too few CTAs"
    assert full.limited_by == full.bounds[0].resource


@pytest.mark.parametrize(
    ("beside", "dram", "limit"), [(1050, 900, ALONE), (1150, 600, LATENCY), (1150, 700, DRAM), (1000, 900, ALONE)]
)
def test_other_sms_limit_a_launch_only_where_they_make_it_a_tenth_longer(beside, dram, limit):
    assert (
        launch._limited_by({ALONE: 1000, SHARES: beside, DRAM: dram, L2: 100, ATOMICS: 0, DEALING: 9}, 1320, 1056, 132)
        == limit
    )


def test_a_launch_that_the_chip_limits_says_so_before_what_its_sm_does():
    result, alone = (gpuemu.run("v5_swizzle", "sm_90") for _ in range(2))
    whole = LaunchEstimate(5000, {}, DRAM, NOTHING, 0, True, 528)
    vars(result)["grid"] = replace(result.grid, find=lambda: whole)
    assert result.verdict == f"Limited by DRAM. One SM alone is l{alone.verdict[1:]}"
    told = " ".join(" ".join(line for _, line in text.report(result, 200)).split())
    assert "Elapsed Cycles 5,000 of which 2,690 are launch overhead" in told


@pytest.mark.parametrize("ctas", [1, 34, 35])
def test_cycles_and_occupancy_of_some_of_the_ctas_say_so(ctas: int) -> None:
    trace = gpuemu.load_trace("v5_swizzle")
    result = gpuemu.run(replace(trace, launch=replace(trace.launch, grid=(ctas, 1, 1))), "sm_89")
    told = " ".join(" ".join(line for _, line in text.report(result)).split())
    assert (" of the 1 block timed; ±5%: " in told) == (ctas > 1)
    assert (f" Blocks {ctas} 1 timed, {ctas - 1} assumed to behave the same " in told) == (ctas == 34)
    few = "1 timed, too few for an estimate of the launch: 2 share an SM of RTX 4060 Ti"
    assert (f" Blocks {ctas} {few} " in told) == (ctas > 34)
    more = "for 1 of the SM's 2 CTAs, because gpuemu does not refill free places"
    assert (f"Achieved Occupancy 2.1% ({more})." in told) == (ctas > 34)  # else no SM has more than were timed
    assert (more in unescape(as_html(result))) == (ctas > 34)
