"""Mistakes with mbarriers and bulk copies, each with its corrected twin: -D FIXED."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.studies.check.findings import Finding, Severity

KERNELS = Path(__file__).parent / "kernels"


def found(kernel: str, *defines: str, arch: str = "sm_90", args: tuple[Any, ...] = ()) -> list[Finding]:
    """What check says of a kernel of mbarriers.cu with one CTA of 128 threads."""
    arguments = args or (np.arange(4096, dtype=np.int32), np.zeros(4096, np.int32))
    options = ("--std=c++17", *(f"-D{name}" for name in defines))
    report = gpuemu.check(
        KERNELS / "mbarriers.cu", kernel, block=(128, 1, 1), args=arguments, arch=arch, options=options, budget=500_000
    )
    return [f for f in report.findings if f.severity is not Severity.INFORMATION]


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_a_phase_that_never_ends_is_found_though_the_waiting_loop_counts_and_sleeps(arch: str) -> None:
    (finding,) = found("one_arrival_too_few", arch=arch)
    assert finding.title == "Barrier error: mbarrier phase that never ends"
    assert "lacks 1 of 129 arrivals" in finding.sentence
    assert found("one_arrival_too_few", "FIXED", arch=arch) == []


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_cooperative_groups_that_bring_their_barriers_numbers_in_registers(arch: str) -> None:
    assert found("groups", arch=arch) == []


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["IN", "OUT", "ADD", "PREFETCH"])
@pytest.mark.parametrize("size", ["100", "(in[25]*4)", "(in[0]+20)"])
def test_a_bulk_copy_whose_size_is_no_multiple_of_16(direction: str, size: str) -> None:
    findings = found("bulk", direction, f"BYTES={size}")
    count = 20 if "in[0]" in size else 100
    assert [(f.tool, f.sentence) for f in findings] == [
        ("memcheck", f"a bulk copy of {count} bytes, of which the hardware takes {count & ~15}")
    ]
    assert found("bulk", direction, "BYTES=96") == []
    assert found("bulk", direction, f"BYTES=({size}/16*16)") == []


@pytest.mark.slow
def test_a_size_that_begins_with_a_constant_is_not_taken_for_one() -> None:
    (finding,) = found("bulk_of_rounds")
    assert finding.sentence == "a bulk copy of 100 bytes, of which the hardware takes 96"


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["IN", "OUT", "ADD", "PREFETCH"])
def test_a_bulk_copy_at_an_address_that_is_no_multiple_of_16(direction: str) -> None:
    findings = found("bulk", direction, "SHIFT=1")
    assert [f.title for f in findings] == ["Misaligned bulk copy"]
    assert found("bulk", direction, "SHIFT=4") == []


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_a_test_whose_result_nobody_uses(arch: str) -> None:
    for defines in ((), ("MIXED",)):
        (finding,) = found("tested", *defines, arch=arch)
        assert finding.title == "Barrier error: unused result of an mbarrier's test"
        assert finding.sentence.startswith("128 threads test whether")
    assert found("tested", "FIXED", arch=arch) == []
    assert found("tested", "TESTED_AGAIN", arch=arch) == []


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["right_ring", "right_arrivals"])
def test_one_lane_that_arrives_for_a_synchronized_warp_is_not_accused(kernel: str) -> None:
    assert found(kernel) == []
