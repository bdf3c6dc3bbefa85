"""Ordinary CUDA programs compute from their own machine code what they say: `programs/*.cu`, cases in `*.py` beside."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.image.cubin import Cubin, read_cubin
from gpuemu.sass.tools.toolchain import compile_cuda

PROGRAMS = Path(__file__).parent / "programs"
ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_120", "sm_90")


@cache
def cubin(source: str, arch: str, options: tuple[str, ...]) -> Cubin:
    """NVRTC's, with 128-bit integers where it can have them."""
    path = str(PROGRAMS / f"{source}.cu")
    more = () if "-G" in options else ("--device-int128",)
    return read_cubin(compile_cuda(path, arch, "nvrtc", ("--std=c++17", *more, *options)), path)


def cases(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(f"programs_{name}", PROGRAMS / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = sys.modules[specification.name] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


SOURCES = {name: cases(name) for name in sorted(p.stem for p in PROGRAMS.glob("*.cu"))}
# Compiling takes most of the time: each source is compiled for the last architecture and for one of the others.
RUNS = [
    (source, case, arch)
    for number, (source, module) in enumerate(SOURCES.items())
    for arch in (ARCHS[number % 5], ARCHS[-1])
    for case in module.CASES
    if arch in getattr(module, "ONLY", {}).get(case, ARCHS)
]


def run(source: str, case: str, arch: str, options: tuple[str, ...] = (), replay: bool = True) -> None:
    with np.errstate(invalid="ignore", over="ignore"):
        launch = SOURCES[source].CASES[case]()
    trace = gpuemu.trace_kernel(
        cubin(source, arch, options), launch.kernel or case, launch.grid, launch.block, launch.shared_bytes, launch.args
    )
    launch.printed = trace.printed
    launch.check()
    if replay:
        assert gpuemu.run(trace, gpuemu.load_arch(arch)).cycles > 0


@pytest.mark.slow
@pytest.mark.parametrize(("source", "case", "arch"), RUNS)
def test_it_computes_what_it_says(source: str, case: str, arch: str) -> None:
    run(source, case, arch)


BUILDS = {
    ("-G", "sm_75"): ("control",),
    ("-G", "sm_90"): ("control", "memory", "warps"),
    ("--ptxas-options=-O0", "sm_75"): ("halves", "integers"),
    ("--ptxas-options=-O0", "sm_80"): ("atomics",),
    ("--maxrregcount=24", "sm_86"): ("floats",),
}
"""Other ways to compile: functions called by address, no optimisation, registers spilled to local memory."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "source", "case", "arch"),
    [
        (option, source, case, arch)
        for (option, arch), sources in BUILDS.items()
        for source in sources
        for case in SOURCES[source].CASES
        if arch in getattr(SOURCES[source], "ONLY", {}).get(case, ARCHS)
    ],
)
def test_it_does_however_it_is_built(option: str, source: str, case: str, arch: str) -> None:
    run(source, case, arch, (option,), replay=False)
