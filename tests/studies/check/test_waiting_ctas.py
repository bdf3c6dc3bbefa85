"""What check knows of a CTA stays what it was while that CTA waits for another one."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.tools.disassembly import load_cubin
from gpuemu.studies.check.bulk_copy_sizes import BlockSizes
from gpuemu.studies.check.findings import Findings, Point
from gpuemu.studies.check.launch_notice import Notice
from gpuemu.studies.check.per_cta import WaitingCtas
from gpuemu.trace.listing import parse_listing

KERNELS = Path(__file__).parent / "kernels"
PACKAGE = Path(__file__).resolve().parents[3] / "gpuemu" / "studies" / "check"
RECORDS = {"per_cta", "per_cluster"}
MAKES_RECORDS = ("start", "begin", "_begin")


@cache
def cubin() -> Cubin:
    return load_cubin(KERNELS / "waiting_ctas.cu", "sm_80", "nvrtc")


def flag_and_out() -> list[Any]:
    return [np.zeros(1, np.int32), np.zeros(128, np.int32)]


def test_a_barrier_that_threads_wait_at_is_remembered() -> None:
    report = gpuemu.check(cubin(), "two_barriers", 2, 64, args=flag_and_out(), tools=["synccheck"])
    assert ["32 threads wait at one __syncthreads(), 32 at another" in f.sentence for f in report.errors] == [True]


def test_a_run_notices_it_too() -> None:
    notice = Notice()
    gpuemu.trace_kernel(cubin(), "two_barriers", grid=2, block=64, args=flag_and_out(), observer=notice)
    assert "divergent threads" in notice.sentence()


def test_a_register_with_a_value_that_nobody_has_written_is_remembered() -> None:
    report = gpuemu.check(cubin(), "unwritten_local", 2, 32, args=[*flag_and_out(), 2], tools=["initcheck"])
    assert [(f.title, f.points[0].cta) for f in report.errors] == [("Uninitialized __local__ memory read", 0)]


def test_the_size_that_a_copy_takes_is_remembered() -> None:
    code = parse_listing(
        "0000: USHF.R.U32.HI UR5, URZ, 0x4, UR4\n0010: UBLKCP.S.G [UR8], [UR6], UR5\n0020: EXIT\n", "k", 1
    )
    sizes = BlockSizes(code, None, Findings(), lambda i, thread, cta, does="": Point(i, thread, cta, None, does))
    bytes_: list[int] = []
    site = SimpleNamespace(
        instruction=code[0], lanes=SimpleNamespace(count=32), source=lambda k: lambda: np.full(32, bytes_[-1])
    )
    step, waiting = sizes.around(site, lambda mask: None), WaitingCtas(sizes)
    for cta, count in ((0, 40), (1, 72)):
        sizes.start(cta)
        bytes_.append(count)
        step(None)
        waiting.put(cta)
    waiting.take(0)
    assert (sizes.per_cta.cta, set(sizes.per_cta.bytes[0].tolist())) == (0, {40})


def classes() -> list[tuple[str, ast.ClassDef]]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += [(f"{path.stem}.{n.name}", n) for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    return found


def assigned(function: ast.FunctionDef) -> set[str]:
    """The attributes of self that a function assigns."""
    targets: list[ast.AST] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            targets += [part for target in node.targets for part in ast.walk(target)]
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            targets.append(node.target)
    return {t.attr for t in targets if isinstance(t, ast.Attribute) and ast.unparse(t.value) == "self"}


def test_a_cta_that_starts_changes_nothing_but_records() -> None:
    """An attribute that a new CTA resets and that is in no record would be another CTA's when one goes on."""
    seen, wrong = 0, {}
    for name, node in classes():
        functions = [f for f in node.body if isinstance(f, ast.FunctionDef) and f.name in MAKES_RECORDS]
        for function in functions:
            seen += bool(assigned(function) & RECORDS)
            if name != "detector.RaceDetector" and not assigned(function) <= RECORDS:
                wrong[name] = assigned(function) - RECORDS
    assert (seen >= 14, wrong) == (True, {})


@pytest.mark.parametrize("name", ["listener.ToolListener", "launch_notice.Notice", "shuffles.Disturbed"])
def test_who_hears_that_a_cta_starts_hears_that_it_waits_and_goes_on(name: str) -> None:
    node = dict(classes())[name]
    assert {"starts", "waits", "resumes"} <= {f.name for f in node.body if isinstance(f, ast.FunctionDef)}
