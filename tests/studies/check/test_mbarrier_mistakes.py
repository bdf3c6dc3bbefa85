"""Mistakes with mbarriers and bulk copies, each with its corrected twin."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.tools.disassembly import load_cubin
from gpuemu.studies.check.findings import Finding, Severity

KERNELS = Path(__file__).parent / "kernels"


@cache
def cubin(source: str, arch: str) -> Cubin:
    return load_cubin(KERNELS / f"{source}.cu", arch, "nvrtc", ("--std=c++17",))


def found(kernel: str, arch: str = "sm_90", source: str = "mbarriers", args: tuple[Any, ...] = ()) -> list[Finding]:
    """What check says of a kernel of the source with one CTA of 128 threads."""
    arguments = args or (np.arange(4096, dtype=np.int32), np.zeros(4096, np.int32))
    report = gpuemu.check(cubin(source, arch), kernel, block=(128, 1, 1), args=arguments, budget=500_000)
    return [f for f in report.findings if f.severity is not Severity.INFORMATION]


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_a_phase_that_never_ends_is_found_though_the_waiting_loop_counts_and_sleeps(arch: str) -> None:
    (finding,) = found("one_arrival_too_few", arch)
    assert finding.title == "Barrier error: mbarrier phase that never ends"
    assert "lacks 1 of 129 arrivals" in finding.sentence
    assert found("all_arrivals", arch) == []


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_cooperative_groups_that_bring_their_barriers_numbers_in_registers(arch: str) -> None:
    assert found("groups", arch) == []


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["IN", "OUT", "ADD", "PREFETCH"])
@pytest.mark.parametrize("size", ["known", "read", "added"])
def test_a_bulk_copy_whose_size_is_no_multiple_of_16(direction: str, size: str) -> None:
    findings = found(f"{direction}_{size}", source="bulk_copies")
    count = 20 if size == "added" else 100
    assert [(f.tool, f.sentence) for f in findings] == [
        ("memcheck", f"a bulk copy of {count} bytes, of which the hardware takes {count & ~15}")
    ]
    assert found(f"{direction}_of_96", source="bulk_copies") == []
    assert found(f"{direction}_{size}_whole", source="bulk_copies") == []


@pytest.mark.slow
def test_a_size_that_begins_with_a_constant_is_not_taken_for_one() -> None:
    (finding,) = found("bulk_of_rounds", source="bulk_copies")
    assert finding.sentence == "a bulk copy of 100 bytes, of which the hardware takes 96"


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["IN", "OUT", "ADD", "PREFETCH"])
def test_a_bulk_copy_at_an_address_that_is_no_multiple_of_16(direction: str) -> None:
    findings = found(f"{direction}_shifted_by_4", source="bulk_copies")
    assert [f.title for f in findings] == ["Misaligned bulk copy"]
    assert found(f"{direction}_shifted_by_16", source="bulk_copies") == []


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_a_test_whose_result_nobody_uses(arch: str) -> None:
    for kernel in ("tested", "tested_in_part"):
        (finding,) = found(kernel, arch)
        assert finding.title == "Barrier error: unused result of an mbarrier's test"
        assert finding.sentence.startswith("128 threads test whether")
    assert found("tested_until_over", arch) == []
    assert found("tested_again", arch) == []


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["right_ring", "right_arrivals"])
def test_one_lane_that_arrives_for_a_synchronized_warp_is_not_accused(kernel: str) -> None:
    assert found(kernel) == []
