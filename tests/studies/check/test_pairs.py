"""Races and their clean twins, `x_bad` and `x_good` of one body in `pairs/`: every one is found, nobody is accused."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.tools.disassembly import load_cubin
from gpuemu.studies.check.findings import Finding, Severity

KERNELS = Path(__file__).parent / "pairs"
ARCHS = {"barriers": ("sm_80", "sm_90"), "warps": ("sm_80", "sm_90"), "flags": ("sm_80", "sm_90")}
ARCHS["hopper"] = ARCHS["clusters"] = ("sm_90",)
ARCHS["mbarriers"] = ("sm_80", "sm_90")
ONLY_SM_90 = {"one_lane_expects", "missed_phase", "missed_by_one", "missed_at_once"}
CTAS = {
    "lock_global", "last_cta", "last_cta_all", "last_cta_ref", "last_cta_resets", "chain_released", "chain_scope", "own_part", "shifted",
    "sum_of_ctas", "sum_read_early", "out_twice", "one_lane_done",
}  # fmt: skip
"""Pairs that four CTAs execute; all others take one."""
WITHIN_A_WARP = {
    "neighbours", "warp_war", "warp_tree", "warp_transpose", "leader", "warp_list", "matrices", "parted", "tile16",
}  # fmt: skip
"""Pairs whose fault is a warning: lockstep happens to hide it."""
REMEDIES = {
    "neighbours": "__syncwarp()", "matrix": "__syncthreads() between them", "copy_wait": "cp.async.wait_group",
    "copy_barrier": "__syncthreads() between cp.async.wait_group", "copy_over_store": "__syncthreads() before the copy",
    "last_cta": "a release and an acquire", "bulk_wait": "a wait at the mbarrier", "out_proxy": "fence.proxy.async",
    "out_reuse": "cp.async.bulk.wait_group.read", "out_exit": "cp.async.bulk.wait_group.read 0 before",
    "mbarrier_not_there": "__syncthreads() between the mbarrier's initialisation",
    "wrong_parity": "wait for the other parity", "expects_too_much": "call expect_tx with as many bytes as the copies bring",
    "arrives_too_seldom": "arrive in every phase as many times", "histogram_begins": "(cluster.sync()) between them",
    "barrier_made": "(cluster.sync()) between the mbarrier's initialisation", "multicast": "a wait at the mbarrier",
    "one_lane": "__syncwarp() before the arrival or release", "one_lane_done": "__syncwarp() before the arrival or release",
    "sent": "a wait at the mbarrier that the store tells",
    "given_back": "behind the read an arrival of CTA 0 at the mbarrier that CTA 1 waits at before it copies again",
}  # fmt: skip

MISSED = {"missed_phase", "missed_by_one", "missed_at_once"}
"""Pairs whose fault is no race, and may end the execution or not."""
FOR_EVER = {"wrong_parity", "expects_too_much", "arrives_too_seldom"}
"""Pairs whose fault ends the execution before anything races."""


def names(source: str) -> list[str]:
    return re.findall(r"^PAIR\((\w+)\)", (KERNELS / f"{source}.cu").read_text(), re.MULTILINE)


PAIRS = [
    (source, arch, name)
    for source, archs in ARCHS.items()
    for arch in archs
    for name in names(source)
    if arch == "sm_90" or name not in ONLY_SM_90
]


@cache
def cubin(source: str, arch: str) -> Cubin:
    return load_cubin(KERNELS / f"{source}.cu", arch, "nvrtc", ("--std=c++17",))


ORDERING = ("racecheck", "synccheck")


def found(source: str, arch: str, kernel: str, tools: tuple[str, ...]) -> list[Finding]:
    arguments: list[Any] = [np.zeros(8192, np.int32), np.arange(8192, dtype=np.int32), 2 if source == "flags" else 4]
    cluster = 2 if source == "clusters" else 1
    grid = (4 if kernel.rpartition("_")[0] in CTAS else cluster, 1, 1)
    report = gpuemu.check(
        cubin(source, arch), kernel, grid, (128, 1, 1), 1024, arguments, budget=500_000,
        tools=tools, cluster=cluster,
    )  # fmt: skip
    return [f for f in report.findings if f.severity is not Severity.INFORMATION]


def test_there_are_more_than_a_hundred_pairs() -> None:
    assert len({name for _, _, name in PAIRS}) >= 100


@pytest.mark.slow
@pytest.mark.parametrize(("source", "arch", "name"), PAIRS)
def test_the_race_is_found_with_what_would_order_it(source: str, arch: str, name: str) -> None:
    findings = [
        f
        for f in found(source, arch, f"{name}_bad", ORDERING)
        if f.tool == ("synccheck" if name in FOR_EVER | MISSED else "racecheck")
    ]
    assert findings
    if name in WITHIN_A_WARP:
        assert {f.severity for f in findings} == {Severity.WARNING}
    else:
        assert Severity.ERROR in {f.severity for f in findings}
    assert any(REMEDIES.get(name, "") in f.right for f in findings), findings


@pytest.mark.slow
@pytest.mark.parametrize(("source", "arch", "name"), PAIRS)
def test_its_twin_is_clean(source: str, arch: str, name: str) -> None:
    assert found(source, arch, f"{name}_good", ("memcheck", "initcheck", *ORDERING)) == []
