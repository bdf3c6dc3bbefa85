"""Lower bounds of a launch."""

from __future__ import annotations

import pytest

import gpuemu
from gpuemu.chip.least import Least, least
from gpuemu.program.lowering import lower


@pytest.mark.parametrize("name", ["product_mma", "product_wgmma"])
def test_bounds_count_cycles_of_the_chips_clock_as_estimates_do(name: str) -> None:
    trace = gpuemu.load_trace(name)

    def bound(tensor_clock_mhz: int) -> Least:
        arch = gpuemu.load_arch("sm_90").with_overrides({"chips.H200.tensor_clock_mhz": tensor_clock_mhz})
        return least(trace, arch, lower(trace, arch))

    assert bound(900) == bound(1800)
    assert bound(900).resource != "L2"
