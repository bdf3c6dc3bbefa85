"""Sectors that whole launches ask L2 for, as an H100's profiler counts them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpuemu.chip.streams import _agreeing, _away
from validation.grids.records import read
from validation.grids.score import estimate

MEASURED = Path(__file__).resolve().parents[2] / "validation" / "data" / "h100" / "grids.csv"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "count_hits_65536_256x1",  # lanes that mean one word are sectors of their own
        "histogram_global_262144_1024x1",
        "takes_turns_512000_2000_132x1",  # each CTA takes tiles that no other has
        "heat2d_1048576_1024_32x128",  # of most requests L1 has a part
        "attention_causal_131072_512_8x4",  # copies in pieces, by CTAs of unequal work
        "tensor_128x64_1048576_1024_16x8",  # copies of which every other row is half a sector off
    ],
)
def test_a_launch_asks_l2_for_what_was_measured(name):
    grid, measured = read(MEASURED)[name]
    _, _, _, found = estimate((grid, "sm_90", "H100"))
    for counter in ("l1tex__m_xbar2l1tex_read_sectors.sum", "lts__t_sectors_srcunit_tex.sum"):
        assert found[counter] == pytest.approx(measured[counter], rel=0.1)


def test_of_a_request_l1_lacks_what_it_met_longest_ago():
    sector, request = np.array([1, 2, 3, 2, 3, 4, 3, 4, 1, 9]), np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 2])
    away = _away(sector, request, np.array([3, 1, 2]))
    assert sector[away].tolist() == [1, 2, 3, 4, 1, 9]


def test_a_stream_that_all_begin_in_one_place_stays_there_though_an_earlier_one_moves():
    """The requests of the reference lack its first line, which hit L1."""
    touched = {0: (128, 1024), 1: (0, 896), 3: (0, 896)}
    assert _agreeing([np.arange(4) * 128], [], touched, 0).tolist() == [0]
    touched = {0: (128, 1024), 1: (256, 1152), 3: (512, 1408)}
    assert _agreeing([np.arange(4) * 128], [], touched, 0).tolist() == [0, 128, 256, 384]
