"""Nothing is found in kernels that are right: those that ship, ordinary programs, CUB's and cooperative groups', Triton's."""

from __future__ import annotations

import importlib.util
import json
import lzma
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.image.cubin import Cubin, read_cubin
from gpuemu.sass.tools.toolchain import compile_cuda
from gpuemu.studies.check.findings import Severity

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = ROOT / "tests" / "sass" / "programs"
TRITON = ROOT / "tests" / "sass" / "other_compilers" / "triton"
RIGHTLY_FOUND = {
    ("barriers", "early"),  # threads that exit before a barrier: a warning
    ("warps", "large_groups"),  # writes what the other half of the CTA may still read
}


def module(path: Path, name: str) -> ModuleType:
    sys.path.insert(0, str(ROOT / "tests" / "sass"))  # where `launches` is
    try:
        specification = importlib.util.spec_from_file_location(name, path)
        assert specification is not None
        assert specification.loader is not None
        found = sys.modules[name] = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(found)
    finally:
        sys.path.pop(0)
    return found


WITHIN_A_WARP = {"v5_generic"}
"""As it was published: its one warp reads what it has stored, without a __syncwarp() between."""
SOURCES = {p.stem: module(p, f"checked_{p.stem}") for p in sorted(PROGRAMS.glob("*.py"))}
SHARED_BYTES = json.loads((TRITON / "cubins" / "shared_bytes.json").read_text())


@cache
def cubin(source: str) -> Cubin:
    path = str(PROGRAMS / f"{source}.cu")
    return read_cubin(compile_cuda(path, "sm_90", "nvrtc", ("--std=c++17", "--device-int128")), path)


def alarms(kernel: Any, name: str, launch: Any, shared_bytes: int) -> list[Any]:
    report = gpuemu.check(kernel, name, launch.grid, launch.block, shared_bytes, launch.args, budget=200_000_000)
    return [f for f in report.findings if f.severity is not Severity.INFORMATION]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "case"),
    [
        (source, case)
        for source, cases in SOURCES.items()
        for case in cases.CASES
        if "sm_90" in getattr(cases, "ONLY", {}).get(case, ("sm_90",))
    ],
)
def test_a_program_is_clean(source: str, case: str) -> None:
    with np.errstate(all="ignore"):
        launch = SOURCES[source].CASES[case]()
    found = alarms(cubin(source), launch.kernel or case, launch, launch.shared_bytes)
    assert bool(found) == ((source, case) in RIGHTLY_FOUND), found


@cache
def triton() -> ModuleType:
    return module(TRITON / "cases.py", "checked_triton")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SHARED_BYTES))
def test_a_kernel_of_triton_is_clean(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name}.cubin"
    file.write_bytes(lzma.decompress((TRITON / "cubins" / f"{name}.cubin.xz").read_bytes()))
    launch = triton().CASES[name.split(".")[0]]()
    assert alarms(read_cubin(file), launch.kernel, launch, SHARED_BYTES[name]) == []


EXAMPLES = module(ROOT / "tools" / "example_kernels.py", "example_kernels_to_check")


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES.EXAMPLES, ids=lambda e: e.kernel)
def test_a_kernel_that_ships_is_clean(example: Any) -> None:
    given, output, expected = example.arguments()
    arguments = EXAMPLES.passed(given)
    report = gpuemu.check(
        EXAMPLES.SOURCES / example.source, example.kernel, example.grid, example.block, example.dynamic_shared_bytes,
        arguments, options=example.options, arch=example.architectures[0] if example.options else None,
    )  # fmt: skip
    np.testing.assert_allclose(arguments[output], expected, rtol=0, atol=example.tolerance)
    found = [f for f in report.findings if f.severity is not Severity.INFORMATION]
    assert {f.severity for f in found} == ({Severity.WARNING} if example.kernel in WITHIN_A_WARP else set()), found
