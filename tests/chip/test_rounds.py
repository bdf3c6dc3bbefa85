"""When the CTAs beyond those that were run end: whether places fall free together, or while other CTAs go on."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.arch import load_arch
from gpuemu.chip.launch import _until


def sm(ends: list[int], issues: list[list[int]]) -> Any:
    """CTAs of one warp, two of which fill an SM: when they end, and when their instructions issue."""
    counts = np.cumsum([0, *map(len, issues)])
    program = SimpleNamespace(ctas=len(ends), resident_ctas=2, first_warp=np.arange(len(ends) + 1), first_issue=counts)
    log = SimpleNamespace(cycles=max(ends), cta_end=np.array(ends), issue=np.concatenate(issues))
    return SimpleNamespace(program=program, log=log)


SLOW, FAST = [0, 600, 700, 800, 900], [0, 100, 200, 300, 500]


def test_places_of_ctas_that_end_first_are_taken_while_the_others_go_on():
    # The second has all of the pipe that both want until it ends; the first does four fifths of its work behind that.
    run = sm([1000, 600], [SLOW, FAST])
    assert _until(run, 2) == 1000
    assert _until(run, 102) == pytest.approx(1000 + 100 * 600 / 1.2)


def test_ctas_that_were_run_behind_them_count_until_a_place_stays_free():
    run = sm([1000, 600, 1100], [SLOW, FAST, [650, 750, 850, 950, 1050]])
    assert _until(run, 103) == pytest.approx(1100 + 100 * 1000 / 2.8)


def test_ctas_that_end_together_are_followed_by_others_that_do():
    run = sm([1000, 950], [[0, 500, 990], [0, 400, 900]])
    assert _until(run, 102) == pytest.approx(51 * 1000)


@pytest.mark.slow
def test_sms_whose_ctas_follow_one_another_do_not_ask_for_their_tiles_all_at_once():
    """Tiles of 4 KiB and 2,000 cycles of work, one behind the other: DRAM is busy for less than half of the time."""
    trace = gpuemu.TraceBuilder("tiles", arch="sm_89", grid=(1, 1, 1), block=(32, 1, 1), registers_per_thread=255)
    for turn in range(8):
        for line in range(8):
            lanes = f"16*lane+{16384 * turn + 512 * line}+131072*cta"
            trace.emit(f"LDG.E.128 R{4 * line + 4}, [R2.64]", lanes=lanes, control="B------:R-:W0:-:S02")
        trace.emit("NOP", control="B0-----:R-:W-:-:S15")
        for _ in range(180):
            trace.emit("NOP", control="B------:R-:W-:-:S11")
    trace.emit("EXIT", control="B------:R-:W-:-:S05")
    built = trace.build()
    built = replace(built, launch=replace(built.launch, grid=(6600, 1, 1), static_shared_bytes=80_000))
    arch = load_arch("sm_89").with_overrides({"chip": "RTX 4070 Ti SUPER"})
    found = gpuemu.run(built, arch).on_the_chip()
    assert found.elapsed < 1.2 * found.limits["the SM with the most CTAs"]
