"""What a launch touches beside what L2 holds: warm caches are not claimed of data that cannot be in them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import gpuemu
from gpuemu.trace.listing import parse_listing
from gpuemu.trace.model import Launch, Trace, WarpTrace
from gpuemu.views.text import report

ARCH = gpuemu.load_arch("sm_90")
MIB = 1 << 20
CODE = "0000: [B------:R-:W-:-:S04] LDG.E.128 R4, [R2.64]\n0010: [B------:R-:W-:-:S05] EXIT\n"
WARP_BYTES = 512


def loading(grid: int, timed: int, apart: int = WARP_BYTES, times: int = 1) -> Trace:
    """CTAs of one warp, each of which loads `times` 512 bytes, `apart` bytes behind those of the one before."""
    path = np.array([0] * times + [1], np.int32)
    warps = [WarpTrace(132 * n, 0, path, np.arange(times * n, times * (n + 1), dtype=np.int32)) for n in range(timed)]
    starts = np.array([n * apart + k * WARP_BYTES for n in range(timed) for k in range(times)])
    addresses = (1 << 40) + starts[:, None] + 16 * np.arange(32)
    code = parse_listing(CODE, "k.yaml", 1, 1)
    active = np.ones(addresses.shape, np.bool_)
    return Trace("k", "sm_90", Launch((grid, 1, 1), (32, 1, 1)), code, tuple(warps), addresses, active)


def of(trace: Trace, **changes: object) -> gpuemu.Result:
    return gpuemu.run(trace, ARCH.with_overrides({name.replace("__", "."): v for name, v in changes.items()}))


@pytest.mark.parametrize(
    ("trace", "at_least", "at_most"),
    [
        (loading(1, 1), 512, 512),
        (loading(4 * 132, 4), 2048, 4 * 132 * 512),
        (loading(1000 * 132, 4, apart=0), 512, 512),  # all read the same
        (loading(8, 4, times=3, apart=3 * 512), 4 * 1536, 8 * 1536),
        (loading(6, 4, apart=256), 512 + 3 * 256, 512 + 5 * 256),  # each has half of the one before
    ],
)
def test_what_a_launch_touches_grows_as_it_did_over_the_later_half_of_what_was_timed(
    trace: Trace, at_least: int, at_most: int
) -> None:
    found = of(trace).footprint
    assert (found.at_least, found.at_most, found.l2) == (at_least, at_most, 60 * MIB)


def test_it_touches_no_more_than_the_buffers_that_it_has() -> None:
    trace = replace(loading(1_000_000, 4), buffer_bytes=3 * MIB)
    assert of(trace).footprint.at_most == 3 * MIB


def told(result: gpuemu.Result) -> tuple[str, str]:
    """What the summary says of the caches, and its notes."""
    text = " ".join(" ".join(line for _, line in report(result, everything=True)).split())
    found = re.search(r"SM Active Cycles run from the launch to the last store, (.*?)\.", text)
    assert found is not None
    return found[1], " ".join(result.notes)


def test_warm_caches_are_said_of_what_fits_alone() -> None:
    small, large = loading(4 * 132, 4), loading(1 << 20, 4)
    assert told(of(small)) == ("caches warm", "")
    where, note = told(of(large))
    assert where == "data assumed to be in L2"
    assert note == (
        "the launch touches up to 512.0 MiB, and L2 of H200 holds 60.0 MiB: the rest comes from DRAM, which "
        "takes longer than the cycles here"
    )
    assert of(large).cycles == of(replace(large, launch=small.launch)).cycles


def test_what_the_timed_ctas_touch_alone_may_be_too_much() -> None:
    assert (
        "the launch touches 2.0 KiB, and L2 of H200 holds 1.0 KiB"
        in told(of(loading(4, 4), chips__H200__l2_kibibytes=1))[1]
    )
    assert "touches 2.0 KiB and more, and" in told(of(loading(400, 4), chips__H200__l2_kibibytes=1))[1]


def test_a_chip_whose_l2_nobody_told_holds_what_there_is(tmp_path: object) -> None:
    path = f"{tmp_path}/own.yaml"
    with open(path, "w") as file:
        file.write("extends: sm_90\nchip: Own\nchips:\n  Own: {sms: 10, clock_mhz: 1000}\n")
    own = gpuemu.load_arch(path)
    assert "chips.Own.l2_kibibytes" not in own.flat()
    result = gpuemu.run(loading(1 << 20, 4), own)
    assert result.footprint.l2 is None
    assert told(result) == ("caches warm", "")


def test_cold_caches_say_what_they_leave_out() -> None:
    where, note = told(of(loading(1 << 20, 4), global_memory__first_touch="dram"))
    assert where == "caches cold"
    assert note == ("caches cold: data from DRAM come later. The lower bandwidth of DRAM is not modeled")
