"""CTAs that take over others (clusterlaunchcontrol): each tile is marked once, by the CTA whose turn it is."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.machine.scheduling.launch_control import LaunchControl, response
from gpuemu.sass.machine.scheduling.line import Line
from gpuemu.sass.tools.disassembly import load_cubin
from gpuemu.studies.check.findings import Severity
from gpuemu.trace.model import Trace

SOURCE = Path(__file__).parent / "kernels" / "launch_control.cu"
SMS, THREADS, SHARED = 148, 64, 200_000
"""A B200's SMs; so much shared memory leaves room for one CTA each."""
FOREVER = 1 << 20
ANSWER = "Potential hazard in __shared__ memory: exit before an answer"
GONE = "Invalid access to distributed shared memory"
ENDLESS = "Barrier error: mbarrier phase that never ends"
MISSED = "Barrier error: mbarrier phase that a wait may miss"
RAW, WAR, WAW = (f"Potential {kind} hazard in __shared__ memory" for kind in ("RAW", "WAR", "WAW"))


@cache
def cubin() -> Cubin:
    return load_cubin(SOURCE, "sm_100", "auto", ("-arch=sm_100a", "-std=c++17"))


def run(kernel: str, grid: tuple[int, int, int], asks: int, **given: object) -> tuple[np.ndarray, Trace]:
    """Who marked each tile, and the trace."""
    marks = np.zeros((int(np.prod(grid)), THREADS), np.uint32)
    trace = gpuemu.trace_kernel(
        cubin(), kernel=kernel, grid=grid, block=THREADS, dynamic_shared_bytes=SHARED, args=[marks, asks],
        arch="sm_100", **given,
    )  # fmt: skip
    assert (marks == marks[:, :1]).all()
    return marks[:, 0].astype(int) - 1, trace


@pytest.mark.slow
def test_each_cta_takes_every_148th_until_none_is_left() -> None:
    marked, trace = run("right", (7, 20, 4), FOREVER)
    np.testing.assert_array_equal(marked, np.arange(560) % SMS)
    assert trace.launch.grid == (SMS, 1, 1)
    assert trace.lacks == ("148 of 560 CTAs begin and take over the others, in equal shares (cluster launch control)",)


@pytest.mark.slow
def test_a_cluster_takes_a_cluster_and_all_its_ctas_learn_of_it() -> None:
    marked, trace = run("right_pair", (10, 14, 3), FOREVER)
    np.testing.assert_array_equal(marked, np.arange(420) % SMS)
    assert trace.launch.ctas == SMS


@pytest.mark.slow
def test_ctas_that_nobody_takes_begin_by_themselves() -> None:
    marked, _ = run("right", (7, 20, 4), 1)
    tiles = np.arange(560)
    np.testing.assert_array_equal(marked, np.where(tiles // SMS % 2 == 0, tiles, tiles - SMS))


def test_no_cta_is_taken_from_a_grid_that_fits_on_the_chip() -> None:
    marked, trace = run("right", (100, 1, 1), FOREVER)
    np.testing.assert_array_equal(marked, np.arange(100))
    assert (trace.launch.grid, trace.lacks) == ((100, 1, 1), ())


def test_a_cta_that_others_take_has_no_record() -> None:
    _, trace = run("right", (300, 1, 1), FOREVER, ctas=[2, 150])
    assert {warp.cta for warp in trace.warps} == {2}


@pytest.mark.slow
def test_more_work_takes_more_time() -> None:
    once, often = (gpuemu.run(run("right", (ctas, 1, 1), FOREVER)[1], "sm_100").cycles for ctas in (SMS, 4 * SMS))
    assert once + 3 * 200 < often < 4 * once


def test_a_cluster_without_one_of_its_ctas_in_line_has_begun() -> None:
    control = LaunchControl((4, 4, 1), (2, 2, 1), 4)
    line = Line(range(16))
    for number in (0, 1, 4, 5, 2, 3):
        line.remove(number)
    control.watch(line)
    assert control.first_ctas == 4
    assert control.take((0, 0, 0)) == (0, 2, 0)  # cluster 1 has begun, as its CTAs 2 and 3 have
    assert control.just_taken() == [8, 9, 12, 13]
    assert control.take((1, 1, 0)) == (2, 2, 0)
    assert control.take((0, 1, 0)) is None
    assert sorted(control.taken) == [8, 9, 10, 11, 12, 13, 14, 15]
    assert len(line) == 2


def test_an_answer_has_the_first_cta_of_the_cluster() -> None:
    assert response((5, 6, 7)).view(np.uint32).tolist() == [5, 6 | 7 << 16, 1, 0]
    assert response(None).view(np.uint32).tolist() == [0, 0, 0, 0]


def titles(kernel: str) -> set[str]:
    """What check says of 320 CTAs."""
    marks = np.zeros((320, THREADS), np.uint32)
    report = gpuemu.check(
        cubin(), kernel, grid=(320, 1, 1), block=(THREADS, 1, 1), dynamic_shared_bytes=SHARED, arch="sm_100",
        args=[marks, FOREVER], budget=500_000,
    )  # fmt: skip
    return {f.title for f in report.findings if f.severity is not Severity.INFORMATION}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("right", set()),
        ("right_pair", set()),
        ("exits_unanswered", {ANSWER}),
        ("no_wait", {RAW, WAW, ANSWER}),
        ("asks_early", {WAR, MISSED}),
        ("peer_exits", {GONE, ENDLESS}),
        ("peer_expects_nothing", {"Execution ended"}),
    ],
)
def test_mistakes_with_requests_are_found(kernel: str, expected: set[str]) -> None:
    assert titles(kernel) == expected
