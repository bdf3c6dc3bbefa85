"""The recorded H200: what was measured there and what the emulator makes of the same machine code."""

from __future__ import annotations

import pytest

import gpuemu
from validation import records
from validation.replay import INSTRUCTIONS, LOAD_WAVEFRONTS, STORE_WAVEFRONTS, replay
from validation.split import JUDGED_FAMILIES, held_out

FOLDER = records.data_folder("h200")
MEASURED = records.read_measurements(FOLDER / records.MEASUREMENTS_FILE)


def test_over_500_whole_kernels_and_over_1500_microbenchmarks_were_measured() -> None:
    judged = [m for m in MEASURED if m.family in JUDGED_FAMILIES]
    assert len(judged) >= 500
    assert len(MEASURED) - len(judged) >= 1500
    assert sum(held_out(m.name, m.family) for m in judged) >= 150


def test_the_clocks_of_each_kernel_agree_with_its_cycles() -> None:
    for m in MEASURED:
        assert len(m.clocks) == m.ctas * len(m.launch.running_warps), m.name
        assert min(warp[0] for warp in m.clocks) == 0, m.name
        assert max(warp[-1] for warp in m.clocks) == m.cycles_min <= m.cycles_median <= m.cycles_max, m.name


def test_the_code_that_ran_has_every_kernel() -> None:
    units = records.read_code(FOLDER / records.CODE_FILE)
    for m in MEASURED:
        assert m.name.encode() in units[m.unit], m.name
    assert (FOLDER / records.CODE_FILE).stat().st_size < 2 << 20


@pytest.mark.slow
def test_counts_of_a_sample_equal_the_profiler_s() -> None:
    """Instructions and store wavefronts to the last one; loads but for those that an S2R costs, which hang on cycles."""
    counted = records.read_counters(FOLDER / records.COUNTERS_FILE)
    arch = gpuemu.load_arch("sm_90")
    sample = [m for m in MEASURED if m.name in counted and m.family in JUDGED_FAMILIES][::29]
    assert len(sample) >= 15
    refused = []
    for m in sample:
        got = replay(FOLDER / records.CODE_FILE, m.launch, arch)
        if "does not know" in got.error or "unknown instruction" in got.error:
            refused.append(m.name)  # by name; the score counts it as a failure
            continue
        assert not got.error, f"{m.name}: {got.error}"
        for name in (INSTRUCTIONS, STORE_WAVEFRONTS):
            assert got.counters[name] == counted[m.name][name], f"{m.name}: {name}"
        loads = counted[m.name][LOAD_WAVEFRONTS]
        assert abs(got.counters[LOAD_WAVEFRONTS] - loads) <= 0.05 * loads, m.name
    assert len(refused) <= len(sample) // 10, refused
