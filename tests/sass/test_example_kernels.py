"""Every example kernel computes the right result from its own machine code, on each architecture it compiles for."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.tools.disassembly import load_cubin

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def tool(name: str) -> Any:
    specification = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


examples = tool("example_kernels")
recording = tool("record_traces")


def architectures(example: Any) -> list[str]:
    """sm_90, and one of those for which no trace ships: compiling takes most of the time. Sources take turns."""
    others = [arch for arch in example.architectures if arch not in ("sm_90", *recording.folders(example))]
    turn = sorted({e.source for e in examples.EXAMPLES}).index(example.source)
    return ["sm_90"] * ("sm_90" in example.architectures) + others[turn % max(1, len(others)) :][:1]


@pytest.mark.parametrize(
    ("example", "arch"),
    [(e, arch) for e in examples.EXAMPLES for arch in architectures(e)],
    ids=lambda x: getattr(x, "kernel", x),
)
def test_it_computes_what_numpy_does(example: Any, arch: str) -> None:
    """`test_shipped_traces` does so for each architecture whose trace ships.

    nvcc compiles for sm_90, where there is one, and NVRTC for all others, in a third of the time.
    """
    trace = recording.record(example, arch, compiler="auto" if arch == "sm_90" else "nvrtc")  # compares the result
    assert gpuemu.run(trace, gpuemu.load_arch(arch)).cycles > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "source", sorted({e.source for e in examples.EXAMPLES if e.architectures == examples.AMPERE_AND_LATER})
)
def test_it_does_not_compile_for_what_it_is_not_for(source: str) -> None:
    with pytest.raises(gpuemu.GpuemuError):
        recording.cubin(source, "sm_75")


@pytest.mark.slow
def test_a_wrong_result_is_not_recorded() -> None:
    example = next(e for e in examples.EXAMPLES if e.kernel == "toy_transpose_plain")
    wrong = dataclasses.replace(example, arguments=lambda: (*example.arguments()[:2], np.ones((4, 4), np.float32)))
    with pytest.raises(AssertionError):
        recording.record(wrong, "sm_89")


@pytest.mark.slow
def test_every_kernel_of_the_sources_is_an_example() -> None:
    named = {(e.source, e.kernel) for e in examples.EXAMPLES}
    compiled = {e.source: e for e in examples.EXAMPLES}
    for source in sorted(examples.SOURCES.glob("*.cu")):
        example = compiled[source.name]
        arch = "sm_89" if "sm_89" in example.architectures else example.architectures[0]
        kernels = {k.source_name for k in load_cubin(str(source), arch, options=example.options).kernels.values()}
        included = {kernel for file, kernel in named if f'"{file}"' in source.read_text(encoding="utf-8")}
        assert kernels - included == {kernel for file, kernel in named if file == source.name}
