"""Every example kernel computes the right result from its own machine code, on each architecture it compiles for."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.disassembly import load_cubin
from gpuemu.sass.launch import trace_kernel

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def tool(name: str) -> Any:
    specification = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


examples = tool("example_kernels")
SOURCES = examples.SOURCES


@pytest.fixture(scope="module")
def cubins(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], str]:
    """Compile a source for an architecture, once."""
    folder = tmp_path_factory.mktemp("cubins")

    def path(source: str, arch: str) -> str:
        target = folder / f"{Path(source).stem}.{arch}.cubin"
        if not target.exists():
            target.write_bytes(load_cubin(str(SOURCES / source), arch).content)
        return str(target)

    return path


@pytest.mark.parametrize("arch", examples.ARCHITECTURES)
@pytest.mark.parametrize("example", examples.EXAMPLES, ids=lambda e: e.kernel)
def test_it_computes_what_numpy_does(example: Any, arch: str, cubins: Callable[[str, str], str]) -> None:
    if arch not in example.architectures:
        with pytest.raises(gpuemu.GpuemuError):
            cubins(example.source, arch)
        return
    arguments, output, expected = example.arguments()
    trace = trace_kernel(
        cubins(example.source, arch), example.kernel, example.grid, example.block,
        example.dynamic_shared_bytes, arguments,
    )  # fmt: skip
    np.testing.assert_array_equal(arguments[output], expected)
    result = gpuemu.run(trace, gpuemu.load_arch(arch))
    assert result.cycles > 0


def test_every_kernel_of_the_sources_is_an_example() -> None:
    named = {(e.source, e.kernel) for e in examples.EXAMPLES}
    for source in sorted(SOURCES.glob("*.cu")):
        kernels = {k.source_name for k in load_cubin(str(source), "sm_89").kernels.values()}
        assert kernels == {kernel for file, kernel in named if file == source.name}
