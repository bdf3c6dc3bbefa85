"""Times of launches that differ only in arguments, long CTAs, and the time limit within a CTA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small import Program, compiled

from gpuemu.programs import executing
from gpuemu.programs.executing import Timing
from gpuemu.programs.kinds import Family, Kind
from gpuemu.programs.settings import Settings


@pytest.fixture(scope="module")
def cubin() -> bytes:
    return compiled()


def test_launches_that_differ_in_an_argument_are_soon_predicted(cubin: bytes) -> None:
    program = Program(cubin)
    data = program.allocate(np.zeros(200, "i4"))
    for n in range(100, 110):
        program.launch("increase", 1, 128, "Qi", data, n)
    assert program.read(data, "i4", 110).tolist() == [10] * 100 + list(range(10, 0, -1))[1:] + [0]
    assert [one.timed for one in program.launches] == [True] * 4 + [False] * 3 + [True] + [False] * 2
    by_sectors = dict[int, set[float]]()
    for n, one in enumerate(program.launches, start=100):
        if one.timed:
            by_sectors.setdefault(-(-n // 8), set()).add(one.elapsed_cycles or 0)
    assert [len(found) for found in by_sectors.values()] == [1, 1], "the same sectors take the same time"
    simulated = set[float]().union(*by_sectors.values())
    assert {one.elapsed_cycles for one in program.launches if not one.timed} <= simulated


@pytest.mark.slow
def test_launches_whose_argument_changes_their_accesses_are_simulated(cubin: bytes) -> None:
    program = Program(cubin)
    data, out = program.allocate(np.zeros(1 << 18, "i4")), program.allocate(np.zeros(64, "i4"))
    for stride in (1, 4, 1, 8, 2, 64, 16, 32):
        program.launch("strided", 1, 64, "QQi", data, out, stride)
    timed = {one.number: one.elapsed_cycles for one in program.launches if one.timed}
    assert {1, 2, 4, 5, 6}.issubset(timed), "the times of these strides do not predict each other"
    assert (timed[6] or 0) > 1.2 * (timed[1] or 0)


def timing(cycles: int) -> Timing:
    return Timing(cycles, float(cycles), "", None)


def test_a_family_predicts_after_three_hits_and_until_a_miss() -> None:
    family = Family()
    for number, cycles in enumerate((1000, 1040, 990, 2000, 1980, 2010, 2000)):
        assert not family.predicts, number
        Kind(family).keep(timing(cycles), 500 + number)
    assert not family.predicts, "the eighth is a check"
    Kind(family).keep(timing(2000), 507)
    later = Kind(family)
    guess = later.predict(1014)
    assert guess is not None
    assert guess.elapsed_cycles == 4000
    assert Kind(family).predict(5000) is None, "no launch is near enough"
    for _ in range(6):
        assert Kind(family).predict(507) is not None
    Kind(family).keep(timing(9000), 507)
    assert not family.predicts


def test_a_late_launch_takes_the_time_of_its_family(cubin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(cubin, seconds=100.0)
    data = program.allocate(np.zeros(200, "i4"))
    program.launch("increase", 1, 128, "Qi", data, 100)
    monkeypatch.setattr(Settings, "left", property(lambda self: -1000.0))
    program.launch("increase", 1, 128, "Qi", data, 90)
    first, late = program.launches
    assert (late.values, late.timed, late.elapsed_cycles) == ("sampled", False, first.elapsed_cycles)


def test_a_late_launch_of_a_family_that_does_not_predict_is_sampled(
    cubin: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(cubin, seconds=100.0)
    data = program.allocate(np.zeros(200, "i4"))
    program.launch("increase", 1, 128, "Qi", data, 100)
    monkeypatch.setattr(Settings, "left", property(lambda self: -1.0))
    program.launch("increase", 1, 128, "Qi", data, 90)
    _, late = program.launches
    assert (late.values, late.timed) == ("sampled", True)


def test_the_time_limit_ends_a_cta(cubin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(cubin, seconds=100.0)
    count, out = program.allocate(np.array([(1 << 31) - 1], "i4")), program.allocate(np.zeros(64, "i4"))
    left = iter([100.0] * 5)
    monkeypatch.setattr(Settings, "left", property(lambda self: next(left, -1000.0)))
    program.launch("loops", 1, 32, "QQ", count, out)
    (one,) = program.launches
    assert (one.values, one.is_late, one.elapsed_cycles) == ("sampled", True, None)


@pytest.mark.slow
def test_long_ctas_are_recorded_less_often(cubin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    traces: list[Any] = []
    before = executing.time
    monkeypatch.setattr(executing, "time", lambda trace, arch: (traces.append(trace), before(trace, arch))[1])
    program = Program(cubin)
    count, out = program.allocate(np.array([10], "i4")), program.allocate(np.zeros(64, "i4"))
    for grid, times in ((160, 10), (161, 50_000)):
        program.write(count, np.array([times], "i4"))
        program.launch("loops", grid, 32, "QQ", count, out)
    short, long = ({warp.cta for warp in trace.sample.others.warps} for trace in traces)
    assert len(short) == 6
    assert len(long) == 2


@pytest.mark.slow
def test_a_launch_finds_in_l2_what_the_program_used_before(cubin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    traces: list[Any] = []
    before = executing.time
    monkeypatch.setattr(executing, "time", lambda trace, arch: (traces.append(trace), before(trace, arch))[1])
    program, count = Program(cubin), 3 << 20
    data, out = program.allocate(np.zeros(count, "f4")), program.allocate(np.zeros(count, "f4"))
    program.launch("scale", count // 256, 256, "QQi", data, out, count)
    (one,) = program.launches
    arch = program.maker.settings.arch
    assert arch.chips[arch.chip].l2_kept_kibibytes is not None
    profiled = before(traces[0], arch).elapsed_cycles
    assert one.elapsed_cycles is not None
    assert one.elapsed_cycles < 0.97 * profiled, "24 MiB stay in L2 unless a profiler evicts them"


@pytest.mark.slow
def test_a_launch_that_ends_with_a_long_cta_takes_the_time_of_that(cubin: bytes) -> None:
    """Only CTA 77 has iterations. None of the CTAs that gpuemu records at first is that one."""
    program = Program(cubin)
    out = program.allocate(np.zeros(600 * 32, "f4"))
    program.launch("one_is_long", 600, 32, "Qii", out, 77, 3000)
    program.launch("one_is_long", 1, 32, "Qii", out, 0, 3000)
    many, one = program.launches
    assert one.elapsed_cycles is not None
    assert many.elapsed_cycles == pytest.approx(one.elapsed_cycles, rel=0.1)
    assert np.ptp(program.read(out, "f4", 600 * 32)[77 * 32 : 78 * 32]) < 1e-3
