"""Kernels with a fault each, and the same kernels without: `kernels/*.cu`, every `x_bad` with its `x_good`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
Arguments = Callable[[], list[Any]]


@cache
def cubin(source: str, arch: str) -> Cubin:
    return load_cubin(KERNELS / f"{source}.cu", arch, "nvrtc")


def array(count: int, kind: Any = np.float32) -> Arguments:
    return lambda: [np.zeros(count, kind)]


FLOATS = array(1024)


def with_counter() -> list[Any]:
    return [np.zeros(1024, np.float32), np.zeros(1, np.uint32)]


@dataclass(frozen=True)
class Case:
    """What is found in `x_bad`: the tool and how the title begins. The launch is that of both twins."""

    source: str
    tool: str
    title: str
    args: Arguments = FLOATS
    ctas: int = 1
    threads: int = 128
    severity: Severity = Severity.ERROR
    shared_bytes: int = 0


def race(kind: str, **more: Any) -> Case:
    return Case("races", "racecheck", f"Potential {kind} hazard in __shared__ memory", **more)


def global_race(kind: str, **more: Any) -> Case:
    return Case("others", "racecheck", f"Potential {kind} hazard in __global__ memory", **more)


def other(tool: str, title: str, **more: Any) -> Case:
    return Case("others", tool, title, **more)


def two_arrays() -> list[Any]:
    return [np.zeros(128, np.float32), np.zeros(128, np.float32)]


def copies() -> list[Any]:
    return [np.zeros(128, np.float32), np.arange(256, dtype=np.float32)]


def distance() -> list[Any]:
    return [*two_arrays(), (1 << 21) // 4]


def indices() -> list[Any]:
    return [np.zeros(128, np.int32), np.array([1, *([0] * 127)], np.int32)]


CASES = {
    "neighbour": race("RAW"),
    "reuse": race("WAR"),
    "both_write": race("WAW"),
    "reduce": race("RAW"),
    "diverged": race("RAW", args=array(256, np.int32)),
    "count": race("", args=array(128, np.int32)),
    "atomic_read": race("RAW", args=array(128, np.int32)),
    "initialise": race("RAW", args=array(128, np.int32)),
    "flag": race("RAW", args=array(128, np.int32)),
    "flag_twice": race("WAW", args=array(128, np.int32)),
    "walk": race("RAW", args=array(128, np.int32)),
    "bytes": race("", args=array(128, np.uint8)),
    "named": race("RAW"),
    "arrive": race("RAW"),
    "copy": race("RAW", args=copies),
    "copy_stage": race("RAW", args=copies),
    "mbarrier": race("RAW"),
    "lanes": race("WAW", args=array(128, np.int32), severity=Severity.WARNING),
    "ctas_write": global_race("WAW", ctas=2),
    "shift": global_race("", ctas=2),
    "in_cta": global_race("RAW", ctas=2),
    "last_cta": global_race("RAW", args=with_counter, ctas=4),
    "last_cta_narrow": global_race("RAW", args=with_counter, ctas=4),
    "plain_flag": global_race("RAW", args=with_counter, ctas=2),
    "sum": global_race("", ctas=1),
    "two_barriers": other("synccheck", "Barrier error: divergent threads in CTA", args=array(128, np.int32)),
    "miscounted": other("synccheck", "Barrier error: divergent threads in CTA", args=array(128, np.int32)),
    "exits": other("synccheck", "Barrier error: exited threads", args=array(128, np.int32), severity=Severity.WARNING),
    "endless": other("synccheck", "Barrier error: divergent threads", args=lambda: [np.zeros(128, np.int32)] * 2),
    "half_shuffle": other("synccheck", "Barrier error", args=array(128, np.int32)),
    "wrong_mask": other("synccheck", "Barrier error: invalid mask", args=lambda: [np.zeros(128, np.int32), 0xFFFF0000]),
    "shared_unwritten": other("initcheck", "Uninitialized __shared__ memory read of size 4 bytes"),
    "local_unwritten": other("initcheck", "Uninitialized __local__ memory read", args=indices),
    "global_unwritten": other(
        "initcheck", "Uninitialized __global__ memory read of size 4 bytes",
        args=lambda: [gpuemu.empty(128), np.zeros(128, np.float32)],
    ),
    "past_end": other("memcheck", "Invalid __global__ write of size 4 bytes", args=array(128)),
    "before_start": other("memcheck", "Invalid __global__ read of size 4 bytes", args=array(128)),
    "misaligned": other("memcheck", "Misaligned __global__ write of size 4 bytes", args=array(128, np.uint8)),
    "null": other(
        "memcheck", "Invalid __global__ write of size 4 bytes",
        args=lambda: [np.zeros(128, np.float32), np.zeros(1, np.uint64)],
    ),
    "shared_outside": other("memcheck", "Invalid __shared__ write of size 4 bytes", shared_bytes=256),
    "foreign": other("memcheck", "Invalid __global__ write of size 4 bytes", args=distance),
}  # fmt: skip


def checked(case: Case, kernel: str, arch: str) -> Report:
    return gpuemu.check(
        cubin(case.source, arch), kernel, (case.ctas, 1, 1), (case.threads, 1, 1), case.shared_bytes, case.args(),
        budget=100_000,
    )  # fmt: skip


def test_there_are_thirty_kernels() -> None:
    assert len(CASES) >= 30


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", CASES)
def test_what_was_planted_is_found(name: str, arch: str) -> None:
    case = CASES[name]
    report = checked(case, f"{name}_bad", arch)
    found = [f for f in report.findings if f.tool == case.tool and f.severity is case.severity]
    wanted = case.title.replace("Potential  hazard in ", "")
    assert [f for f in found if wanted in f.title], report.findings
    assert all(point.source is not None for f in found for point in f.points)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", CASES)
def test_its_twin_is_clean(name: str, arch: str) -> None:
    report = checked(CASES[name], f"{name}_good", arch)
    assert [f for f in report.findings if f.severity is not Severity.INFORMATION] == []


@pytest.mark.slow
def test_one_wrong_does_not_hide_another() -> None:
    case = Case("others", "", "", args=array(128))
    report = checked(case, "two_wrongs_bad", "sm_90")
    assert {f.tool for f in report.errors} == {"memcheck", "racecheck"}
    assert checked(case, "two_wrongs_good", "sm_90").findings == ()
