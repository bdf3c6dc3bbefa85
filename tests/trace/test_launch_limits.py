"""What no GPU launches is refused wherever a grid or a block enters."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.tools.disassembly import load_cubin
from gpuemu.trace.launch_limits import beyond, extent

OF_TRITON = Path(__file__).parents[1] / "sass/other_compilers/triton/cubins/control.sm_90.cubin.xz"
BEYOND = [
    ("grid", (1 << 31, 1, 1)), ("grid", (1, 65536, 1)), ("grid", (1, 1, 65536)), ("block", (1, 1, 65)),
]  # fmt: skip
RIGHT = {"grid": "at most 2147483647 in x, 65535 in y and 65535 in z", "block": "at most 64 in z"}
KERNEL = """
extern "C" __global__ void any() {}
extern "C" __global__ void __launch_bounds__(64) bounded() {}
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("limits") / "k.cu"
    path.write_text(KERNEL)
    return load_cubin(path, "sm_90", "nvrtc")


@pytest.mark.parametrize(("name", "sizes"), BEYOND)
def test_a_size_beyond_the_hardware_is_refused_in_python(name: str, sizes: tuple[int, ...], kernel: Any) -> None:
    for function, where in ((gpuemu.trace_kernel, "trace_kernel()"), (gpuemu.check, "check()")):
        with pytest.raises(gpuemu.GpuemuError) as caught:
            function(kernel, "any", **{name: sizes})
        assert str(caught.value).startswith(f"{where}: {name}: found {sizes}")


@pytest.mark.parametrize(("name", "sizes"), BEYOND)
def test_a_trace_of_such_a_launch_is_refused(name: str, sizes: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    launch = {"grid": [1, 1, 1], "block": [1, 1, 1], name: list(sizes)}
    path.write_text(
        f"gpuemu_trace: 1\nkernel: k\narch: sm_90\nlaunch: {launch}\ncode: |\n  0000: EXIT\nwarps: [{{}}]\n"
    )
    with pytest.raises(gpuemu.GpuemuError, match=RIGHT[name]):
        gpuemu.load_trace(str(path))


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("grid", ((1 << 31) - 1, 65535, 65535)), ("block", (1024, 1, 1)), ("block", (1, 1024, 1)), ("block", (16, 1, 64))],
)
def test_the_largest_sizes_fit(name: str, sizes: tuple[int, int, int]) -> None:
    assert beyond(name, sizes) is None
    assert extent(name, sizes, "a test") == sizes


@pytest.mark.slow
def test_more_threads_than_the_architecture_takes_are_refused(kernel: Any) -> None:
    with pytest.raises(gpuemu.GpuemuError, match=r"launch.block: found 1056 threads"):
        gpuemu.trace_kernel(kernel, "any", block=(33, 32))


@pytest.mark.slow
def test_a_block_that_the_code_was_not_compiled_for_is_refused(kernel: Any) -> None:
    bounded = r"block: found \(65, 1, 1\), 65 threads"
    with pytest.raises(gpuemu.GpuemuError, match=bounded):
        gpuemu.trace_kernel(kernel, "bounded", block=65)
    assert gpuemu.trace_kernel(kernel, "bounded", block=(8, 8)).launch.block == (8, 8, 1)
    required = r"block: found \(64, 1, 1\)"
    with pytest.raises(gpuemu.GpuemuError, match=required):
        gpuemu.trace_kernel(load_cubin(lzma.decompress(OF_TRITON.read_bytes())), "control", block=64)


@pytest.mark.slow
def test_options_go_to_the_compiler_from_python_as_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "factor.h").write_text("#define FACTOR BY\n")
    path = tmp_path / "k.cu"
    path.write_text('#include <factor.h>\nextern "C" __global__ void k(float *x) { x[threadIdx.x] *= FACTOR; }\n')
    options = [f"-I{tmp_path / 'include'}", "-DBY=3", "--use_fast_math"]
    for function in (gpuemu.trace_kernel, gpuemu.check):
        values = np.ones(32, np.float32)
        function(str(path), args=[values], arch="sm_90", options=options)
        assert (values == 3).all()
    with pytest.raises(
        gpuemu.GpuemuError,
        match=r"options: found '-DBY=3'",
    ):
        gpuemu.trace_kernel(str(path), args=[np.ones(32, np.float32)], options="-DBY=3")


def test_what_is_compiled_already_takes_no_options(kernel: Any, tmp_path: Path) -> None:
    path = tmp_path / "k.cubin"
    path.write_bytes(kernel.content)
    for given in (kernel, str(path)):
        with pytest.raises(gpuemu.GpuemuError, match=r"machine code takes no options for a compiler \(-DA\)"):
            gpuemu.trace_kernel(given, "any", options=["-DA"])
    with pytest.raises(gpuemu.GpuemuError, match=r"a trace takes no options for a compiler"):
        gpuemu.check("v5_swizzle", options=["-DA"])
