"""NANOSLEEP: until a clock of nanoseconds comes to the next multiple of a power of two."""

from __future__ import annotations

from itertools import pairwise

import pytest

import gpuemu
from gpuemu import TraceBuilder

ARCH = gpuemu.load_arch("sm_90")
MHZ = ARCH.chips[ARCH.chip].clock_mhz


def sleeps(text: str, count: int = 4, **event: int) -> gpuemu.Result:
    trace = TraceBuilder("k", arch="sm_90", block=(32, 1, 1))
    for _ in range(count):
        trace.emit("CS2R R2, SR_CLOCKLO", control="B------:R-:W-:-:S01")
        trace.emit(text, control="B------:R-:W-:-:S01", event=event or None)
    trace.emit("CS2R R2, SR_CLOCKLO", control="B------:R-:W-:-:S01")
    trace.emit("EXIT", control="B------:R-:W-:-:S05")
    simpy, compiled = (gpuemu.run(trace.build(), ARCH, engine=engine) for engine in ("simpy", "compiled"))
    assert simpy.warps == compiled.warps
    return simpy


def turns(result: gpuemu.Result) -> list[int]:
    reads = result.warps[0].clock_reads
    return [then - first for first, then in pairwise(reads)]


@pytest.mark.parametrize("nanoseconds", [0, 1, 63])
def test_a_short_sleep_takes_its_least_cycles_and_arithmetic_waits(nanoseconds: int) -> None:
    result = sleeps("NANOSLEEP R4", nanoseconds=nanoseconds)
    assert set(turns(result)) == {ARCH.sleep.cycles + 1}
    assert result.stalls["sleeping"] == 4 * (ARCH.sleep.cycles - 1)


@pytest.mark.parametrize(("nanoseconds", "turn"), [(64, 128), (127, 128), (500, 512), (512, 1024), (1 << 24, 1 << 20)])
def test_sleeps_end_at_multiples_of_the_power_of_two_above(nanoseconds: int, turn: int) -> None:
    reads = sleeps("NANOSLEEP R4", nanoseconds=nanoseconds).warps[0].clock_reads
    assert (reads[4] - reads[2]) == pytest.approx(2 * turn * MHZ / 1000, abs=2)


def test_without_an_event_the_instruction_says_for_how_long() -> None:
    assert turns(sleeps("NANOSLEEP 0x40")) == turns(sleeps("NANOSLEEP R4", nanoseconds=64))


@pytest.mark.parametrize(
    ("text", "nanoseconds"), [("@!P0 NANOSLEEP 0x989680", -1), ("NANOSLEEP.SYNCS 0x989680", 1 << 24)]
)
def test_a_warp_goes_on_that_does_not_sleep_or_has_waited_for_an_mbarrier(text: str, nanoseconds: int) -> None:
    result = sleeps(text, nanoseconds=nanoseconds)
    assert max(turns(result)) < ARCH.sleep.cycles
    assert result.stalls["sleeping"] == 0
