"""Launches of many CTAs that follow one another, in which SMs come out of step."""

from dataclasses import replace

import pytest

import gpuemu
from gpuemu.arch import load_arch


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
