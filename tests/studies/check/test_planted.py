"""More kernels with a fault each, and the same kernels without it: barriers, the heap."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.tools.disassembly import load_cubin
from gpuemu.studies.check.findings import Severity
from gpuemu.studies.check.report import Report

KERNELS = Path(__file__).parent / "kernels"
ARCHS = ("sm_80", "sm_90")
DIVERGENT = "synccheck", "Barrier error: divergent threads in CTA", "one __syncthreads(), outside of the branch"
PLANTED = {
    ("barriers", "branches"): DIVERGENT,
    ("barriers", "calls"): DIVERGENT,
    ("barriers", "rounds"): DIVERGENT,
    ("heap", "unwritten"): ("initcheck", "Uninitialized __global__ memory read of size 4 bytes", "a store to it"),
    ("heap", "past_the_end"): ("memcheck", "Invalid __global__ write of size 4 bytes", "the first 20 bytes"),
    ("heap", "before_the_start"): ("memcheck", "Invalid __global__ write of size 4 bytes", ""),
    ("heap", "used_after_free"): ("memcheck", "Invalid __global__ read of size 8 bytes", "no access after the free"),
    ("heap", "of_all"): ("memcheck", "Invalid __global__ read of size 4 bytes", "no access after the free"),
    ("heap", "freed_twice"): ("memcheck", "Malloc/Free error: a free of what is no block", "a block that malloc gave"),
}
"""Each fault: the tool that finds it, the title, and how what is right begins."""
CLEAN = [("barriers", "copies"), ("barriers", "unrolled"), ("barriers", "roles")]
"""Kernels that look as if they had one of these faults."""
THREADS = {"barriers": 128, "heap": 32}
N = {"copies": [3], "unrolled": [6]}


@cache
def cubin(source: str, arch: str) -> Cubin:
    return load_cubin(KERNELS / f"{source}.cu", arch, "nvrtc")


def checked(source: str, kernel: str, arch: str) -> Report:
    arguments: list[Any] = [np.zeros(256, np.int32), *N.get(kernel.rpartition("_")[0], [])]
    return gpuemu.check(
        cubin(source, arch), kernel, (1, 1, 1), (THREADS[source], 1, 1), 0, arguments, budget=100_000
    )  # fmt: skip


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("source", "name"), PLANTED)
def test_the_fault_is_found(source: str, name: str, arch: str) -> None:
    tool, title, right = PLANTED[source, name]
    report = checked(source, f"{name}_bad", arch)
    assert [f for f in report.errors if (f.tool, f.title) == (tool, title) and f.right.startswith(right)], (
        report.findings
    )
    assert all(point.source is not None for f in report.findings for point in f.points)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("source", "name"), [*PLANTED, *CLEAN])
def test_its_twin_is_clean(source: str, name: str, arch: str) -> None:
    report = checked(source, f"{name}_good", arch)
    assert [f for f in report.findings if f.severity is not Severity.INFORMATION] == []
