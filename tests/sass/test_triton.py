"""Kernels that Triton compiled compute what they say, and their traces run.

`other_compilers/triton` has their sources and cases, and `cubins`, made by `build.py` and packed with xz, so that
nobody needs Triton to test them: each kernel for one or two architectures.
"""

from __future__ import annotations

import importlib.util
import json
import lzma
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import gpuemu

TRITON = Path(__file__).parent / "other_compilers" / "triton"
SHARED_BYTES = json.loads((TRITON / "cubins" / "shared_bytes.json").read_text())


@cache
def cases() -> ModuleType:
    specification = importlib.util.spec_from_file_location("triton_cases", TRITON / "cases.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SHARED_BYTES))
def test_it_computes_what_it_says(name: str, tmp_path: Path) -> None:
    case, arch = name.split(".")
    cubin = tmp_path / f"{name}.cubin"
    cubin.write_bytes(lzma.decompress((TRITON / "cubins" / f"{name}.cubin.xz").read_bytes()))
    launch = cases().CASES[case]()
    trace = gpuemu.trace_kernel(cubin, launch.kernel, launch.grid, launch.block, SHARED_BYTES[name], launch.args)
    launch.printed = trace.printed
    launch.check()
    assert gpuemu.run(trace, gpuemu.load_arch(arch)).cycles > 0


def test_every_kernel_has_a_case() -> None:
    assert {name.split(".")[0] for name in SHARED_BYTES} == set(cases().CASES)
