"""The caches of code: which lines they keep, and when a line is there that they do not have."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from probes import builder, emit, issues, machine, run, shipped

import gpuemu
from gpuemu.arch import Architecture

LINE = 8
"""Instructions in a line of code of 128 bytes."""


def small(**values: Any) -> Architecture:
    """Caches of four and of eight lines, and times that tell where a line came from."""
    chosen = {
        "code__icc__capacity_bytes": 512, "code__icc__ways": 4, "code__gcc__capacity_bytes": 1024, "code__gcc__ways": 8,
        "code__gcc__preloaded_bytes": 0, "code__gcc__latency_cycles": 50, "code__gcc__line_cycles": 18,
        "code__l2__latency_cycles": 260, "code__l2__line_cycles": 45, "global_memory__first_touch": "l2",
    }  # fmt: skip
    return machine(**(chosen | values))


def lines_at(lines: int, arch: Architecture, stall: int = 1, passes: int = 1, warps: int = 1) -> list[list[int]]:
    """When a warp issues the first instruction of each line of straight code, pass by pass."""
    trace = builder(warps)
    with trace.repeat(passes):
        for _ in range(lines * LINE - 1):
            emit(trace, f"NOP | S{stall}")
        emit(trace, f"BRA 0x0 | S{stall}")
    emit(trace, "EXIT | S05")
    times = issues(gpuemu.run(trace.build(), arch), warps - 1)
    return [[times[(p * lines + line) * LINE] for line in range(lines)] for p in range(passes)]


def apart(times: list[int]) -> list[int]:
    return [b - a for a, b in pairwise(times)]


def test_a_warm_launch_finds_code_that_its_caches_can_hold():
    assert lines_at(3, small())[0] == [0, 8, 16]


def test_straight_code_beyond_the_first_cache_comes_a_line_at_a_time():
    """Of six lines and the exit's, each is asked for when four others have been since: none is ever there."""
    for times in lines_at(6, small(), passes=3):
        assert apart(times) == [18] * 5


@pytest.mark.parametrize(("stall", "takes"), [(1, 18), (2, 18), (3, 24)])
def test_the_next_line_is_asked_for_with_the_one_before(stall: int, takes: int):
    assert apart(lines_at(6, small(), stall)[0]) == [takes] * 5


def test_a_branch_waits_for_all_of_the_way():
    """To a line that left the cache; with 51 cycles more of latency it comes 51 cycles later."""
    at = [lines_at(6, small(code__gcc__latency_cycles=n), passes=2)[1][0] for n in (50, 101)]
    assert at[1] - at[0] == 2 * 51  # the first line of the launch waits, too


def test_code_beyond_both_caches_comes_from_l2():
    assert apart(lines_at(12, small(), passes=2)[1]) == [45] * 11


def test_what_the_launch_before_used_last_is_there():
    """Straight code of nine lines and the exit's leaves the last eight in the second cache; the loop needs two more."""
    once = apart(lines_at(9, small())[0])
    assert once == [45] * 8
    assert apart(lines_at(7, small())[0]) == [18] * 6


def test_lines_too_many_for_a_set_make_all_of_that_set_late():
    """Two sets of two lines: five lines are three of one set, which never meet, and two of the other, which stay."""
    arch = small(code__icc__ways=2)
    trace = builder()
    with trace.repeat(3):
        for _ in range(4 * LINE):
            emit(trace, "NOP | S1")
        emit(trace, "BRA 0x0 | S1")
    emit(trace, "EXIT | S05")
    times = issues(gpuemu.run(trace.build(), arch))[4 * LINE + 1 :]
    second = [times[line * LINE] for line in range(5)]
    assert apart(second) == [8, 18, 8, 18]


def test_a_flushed_launch_has_what_is_preloaded_and_fetches_the_rest_from_memory():
    arch = small(
        global_memory__first_touch="dram", code__gcc__preloaded_bytes=512,
        code__dram__line_cycles=115, code__dram__latency_cycles=750,
    )  # fmt: skip
    first, second = lines_at(7, arch, passes=2)
    assert first[0] == 50
    assert apart(first) == [18] * 3 + [115] * 3
    assert apart(second) == [18] * 6


def test_warps_that_run_one_code_wait_for_the_same_lines():
    one, four = (lines_at(6, small(), warps=warps)[0] for warps in (1, 4))
    assert one == four


@pytest.mark.slow
@pytest.mark.parametrize(("instructions", "cycles"), [(1920, 8), (2560, 18), (7168, 18), (9216, 45)])
def test_straight_code_takes_what_it_takes_on_an_h200(instructions: int, cycles: int):
    """A line of eight instructions, in a loop: measured 8.0, 17.7, 17.7 and 45.4."""
    warm = shipped("sm_90").with_overrides({"global_memory.first_touch": "l2"})
    assert set(apart(lines_at(instructions // LINE, warm, passes=2)[1])) == {cycles}


def test_small_code_never_looks_into_the_caches():
    result = run([*["NOP | S01"] * 20, "EXIT | S05"], small(code__icc__capacity_bytes=32768))
    assert issues(result) == list(range(21))
