"""More kernels with a fault each, and the same kernels without it: barriers, shuffles, the heap, arrays, words."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.tools.disassembly import load_cubin
from gpuemu.studies.check import array_overruns
from gpuemu.studies.check.check_text import lines
from gpuemu.studies.check.findings import Severity
from gpuemu.studies.check.report import Report

KERNELS = Path(__file__).parent / "kernels"
ARCHS = ("sm_80", "sm_90")
ERROR, WARNING = Severity.ERROR, Severity.WARNING


class Fault(NamedTuple):
    """What is found: the tool, how the title begins, how what is right begins, and how bad it is."""

    tool: str
    title: str
    right: str
    severity: Severity = ERROR


DIVERGENT = Fault("synccheck", "Barrier error: divergent threads in CTA", "one __syncthreads(), outside of the branch")
SHUFFLE = Fault("synccheck", "Shuffle error: a source lane that takes no part", "read a lane that is in the mask")
READ, WRITE = (f"Invalid __shared__ {access} of size" for access in ("read", "write"))
UPDATE = "an atomic, or a word for each thread"
LOOK = Fault("racecheck", "Plain read of a word in __global__", "an atomic load, such as cuda::atomic_ref", WARNING)
PLANTED = {
    ("barriers", "branches"): DIVERGENT,
    ("barriers", "calls"): DIVERGENT,
    ("barriers", "rounds"): DIVERGENT,
    ("barriers", "line"): DIVERGENT,
    ("barriers", "shared_number"): Fault(
        "synccheck", "Barrier error: named barrier that others may still meet at", "a barrier number of its own"
    ),
    ("shuffles", "tail"): SHUFFLE,
    ("shuffles", "absent"): SHUFFLE,
    ("shuffles", "exited"): SHUFFLE,
    ("shuffles", "scan"): SHUFFLE,
    ("shuffles", "unmasked"): SHUFFLE,
    ("heap", "unwritten"): Fault("initcheck", "Uninitialized __global__ memory read of size 4 bytes", "store to it"),
    ("heap", "past_the_end"): Fault("memcheck", "Invalid __global__ write of size 4 bytes", "the first 20 bytes"),
    ("heap", "before_the_start"): Fault("memcheck", "Invalid __global__ write of size 4 bytes", ""),
    ("heap", "used_after_free"): Fault("memcheck", "Invalid __global__ read of size 8 bytes", "no access after the"),
    ("heap", "of_all"): Fault("memcheck", "Invalid __global__ read of size 4 bytes", "no access after the free"),
    ("heap", "freed_twice"): Fault(
        "memcheck", "Malloc/Free error: free of an unallocated block", "free a block that malloc"
    ),
    ("arrays", "next"): Fault("memcheck", READ, "keep the index within a (128 bytes)"),
    ("arrays", "before"): Fault("memcheck", READ, "keep the index within b (1024 bytes)"),
    ("arrays", "one"): Fault("memcheck", WRITE, "keep the index within bins (64 bytes)"),
    ("arrays", "dynamic"): Fault("memcheck", WRITE, "keep the index within a (256 bytes)"),
    ("words", "fields_warps"): Fault("racecheck", "Potential RAW hazard in __shared__ memory", UPDATE),
    ("words", "fields_lanes"): Fault("racecheck", "Potential RAW hazard in __global__ memory", UPDATE, WARNING),
    ("words", "hashed"): LOOK,
    ("words", "largest"): LOOK,
    ("words", "ticket"): Fault("racecheck", "Potential WAR hazard in __global__ memory", "__syncthreads()"),
    ("words", "padded"): Fault("racecheck", "Potential WAW hazard in __shared__", "a guard or an index", WARNING),
}
CLEAN = [
    ("barriers", "unrolled"), ("barriers", "roles"), ("barriers", "number_again"),
    ("shuffles", "masked"), ("arrays", "braces"), ("arrays", "folded"), ("arrays", "swapped"), ("arrays", "whole"),
    ("arrays", "unused"),
]  # fmt: skip
"""Kernels that look as if they had one of these faults."""
THREADS = {"heap": 32, "shuffles": 48, "masked": 32, "unmasked": 32}
N = {"unrolled": [6], "swapped": [3], "whole": [8]}
SHARED_BYTES = {"dynamic": 512}


@cache
def cubin(source: str, arch: str) -> Cubin:
    return load_cubin(KERNELS / f"{source}.cu", arch, "nvrtc")


def checked(source: str, kernel: str, arch: str) -> Report:
    name = kernel.rpartition("_")[0]
    arguments: list[Any] = [np.zeros(256, np.int32), *N.get(name, [])]
    threads = THREADS.get(name, THREADS.get(source, 128))
    return gpuemu.check(
        cubin(source, arch), kernel, (1, 1, 1), (threads, 1, 1), SHARED_BYTES.get(name, 0), arguments, budget=100_000
    )


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("source", "name"), PLANTED)
def test_the_fault_is_found(source: str, name: str, arch: str) -> None:
    fault = PLANTED[source, name]
    report = checked(source, f"{name}_bad", arch)
    found = [f for f in report.findings if (f.tool, f.severity) == (fault.tool, fault.severity)]
    assert [f for f in found if f.title.startswith(fault.title) and f.right.startswith(fault.right)], report.findings
    assert bool(report.errors) == (fault.severity is ERROR)
    assert all(point.source is not None for f in report.findings for point in f.points)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("source", "name"), [*PLANTED, *CLEAN])
def test_its_twin_is_clean(source: str, name: str, arch: str) -> None:
    report = checked(source, f"{name}_good", arch)
    assert [f for f in report.findings if f.severity is not Severity.INFORMATION] == []


@pytest.mark.slow
def test_without_ptxas_a_note_says_that_nobody_looked_between_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_overruns.shutil, "which", lambda tool: None)
    report = checked("arrays", "next_bad", "sm_90")
    assert report.errors == []
    assert any("that takes ptxas on the PATH" in note for note in report.notes)
    assert checked("arrays", "alone_good", "sm_90").notes == (), "it has one array, which takes no ptxas"


PARTED = """
extern "C" __global__ void parted(int *out) {
    int v = threadIdx.x;
    if (out[threadIdx.x] > 0) v += 5;
    __syncwarp();
    if (threadIdx.x < 2)
        v = __shfl_sync(0xffffffffu, v, 1);
    __syncwarp();
    out[threadIdx.x] = v;
}
"""


@pytest.mark.slow
def test_lanes_that_wait_for_ever_are_named_where_they_wait(tmp_path: Path) -> None:
    source = tmp_path / "parted.cu"
    source.write_text(PARTED)
    report = gpuemu.check(
        load_cubin(source, "sm_90", "nvrtc"), "parted", block=(32, 1, 1), args=[np.zeros(32, np.int32)]
    )
    (error,) = report.errors
    assert (error.tool, error.title) == ("synccheck", "Barrier error: divergent threads in warp")
    assert [(p.source[1], p.thread) for p in error.points if p.source is not None] == [(7, 0), (8, 2)]


STEPS = """
extern "C" __global__ void rows(int *out) {
    __shared__ int s[128];
    volatile int *v = s;
    const int t = threadIdx.x;
    v[t] = out[t];
    v[t + 64] = 1 << 30;
    __syncthreads();
    if (t >= 32) return;
    v[t] = v[t + 32];
    v[t] = v[t + 16];
    v[t] = v[t + 8];
    v[t] = v[t + 4];
    v[t] = v[t + 2];
    v[t] = v[t + 1];
    out[t] = v[0];
}
"""


@pytest.mark.slow
def test_steps_that_are_unrolled_by_hand_are_one_finding(tmp_path: Path) -> None:
    source = tmp_path / "steps.cu"
    source.write_text(STEPS)
    out = np.random.default_rng(1).integers(0, 1000, 64).astype(np.int32)
    report = gpuemu.check(load_cubin(source, "sm_90", "nvrtc"), "rows", block=(64, 1, 1), args=[out])
    assert len(report.warnings) > 10
    assert [len(group) for group in report.groups] == [len(report.warnings)]
    text = "\n".join(line for _, line in lines(report))
    assert "more pairs of instructions at " in text
    assert "places between" in text
    assert text.count("Fix: __syncwarp() between") == 1
    assert {finding["place"] for finding in report.data()["findings"]} == {0}
