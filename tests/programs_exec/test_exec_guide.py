"""The programs of docs/howto/exec.md as they are written there, and clients of the driver in Python."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "exec.md"

pytestmark = pytest.mark.slow


def shown(name: str) -> str:
    """The file of this name in the guide."""
    blocks = re.findall(r"^```(?:cuda|py)\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if block.splitlines()[0].split()[1] == name]
    return str(found)


def ran(folder: Path, *command: str) -> tuple[str, list[dict[str, Any]]]:
    """The output of a program with `gpuemu exec`, and its launches."""
    file = folder / "launches.json"
    options = ("--chip", "H200", "--format", "json", "-o", str(file))
    words = [sys.executable, "-m", "gpuemu", "exec", *options, "--", *command]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(file.read_text(encoding="utf-8"))["launches"]


def needs(package: str) -> None:
    """Skip without this package of a Python front end, or without ptxas, which assembles its PTX."""
    top = package.partition(".")[0]
    if importlib.util.find_spec(top) is None or importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed, and the program imports it")
    if shutil.which("ptxas") is None:
        pytest.skip("ptxas is not installed, and it assembles the PTX of Python front ends")


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed, and the program is built with it")
@pytest.mark.parametrize("options", [(), ("-arch=sm_90",), ("-arch=sm_90", "-cudart", "shared")], ids=" ".join)
def test_the_program_of_the_guide_runs_as_it_is_written(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "vectorAdd.cu").write_text(shown("vectorAdd.cu"), encoding="utf-8")
    subprocess.run(["nvcc", *options, "vectorAdd.cu"], cwd=tmp_path, check=True)
    out, (launch,) = ran(tmp_path, "./a.out")
    assert out == "999 + 999 = 1998, no error\n"
    assert (launch["kernel"], launch["grid"], launch["block"]) == ("add", [4, 1, 1], [256, 1, 1])
    assert launch["values"] == "executed"
    assert 2_000 < launch["elapsed_cycles"] < 6_000


def test_the_program_of_numba_in_the_guide_runs_as_it_is_written(tmp_path: Path) -> None:
    needs("numba_cuda")
    (tmp_path / "axpy.py").write_text(shown("axpy.py"), encoding="utf-8")
    out, (launch,) = ran(tmp_path, sys.executable, "axpy.py")
    assert out == "largest error: 0.0\n"
    assert launch["kernel"].endswith("axpy")


CORE = """
import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch

SOURCE = '''extern "C" __global__ void twice(float* x, size_t n) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}'''
device = Device()
device.set_current()
stream = device.create_stream()
kernel = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin").get_kernel("twice")
memory = LegacyPinnedMemoryResource().allocate(4000, stream=stream)
host = np.from_dlpack(memory).view(np.float32)
host[:] = np.arange(1000)
launch(stream, LaunchConfig(grid=8, block=128), kernel, memory, np.uint64(1000))
stream.sync()
print("largest error:", abs(host - 2 * np.arange(1000)).max())
"""


def test_a_program_of_cuda_core_runs(tmp_path: Path) -> None:
    needs("cuda.core")
    (tmp_path / "core.py").write_text(CORE, encoding="utf-8")
    out, (launch,) = ran(tmp_path, sys.executable, "core.py")
    assert out == "largest error: 0.0\n"
    assert (launch["kernel"], launch["grid"]) == ("twice", [8, 1, 1])


CUPY = """
import cupy

twice = cupy.RawKernel('extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }', "twice")
x = cupy.arange(128, dtype=cupy.float32)
twice((1,), (128,), (x,))
print(float((x + 1)[127]))
"""


def test_kernels_and_functions_of_cupy_run(tmp_path: Path) -> None:
    needs("cupy")
    (tmp_path / "array.py").write_text(CUPY, encoding="utf-8")
    out, launches = ran(tmp_path, sys.executable, "array.py")
    assert out == "255.0\n"
    assert [one["kernel"].split("_")[0] for one in launches] == ["cupy", "twice", "cupy"]
