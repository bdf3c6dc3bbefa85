"""The programs in examples/front_ends, as their users start them, against NumPy."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gpuemu

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "front_ends"
PACKAGES = {
    "cuda_core": ("cuda.core",),
    "cupy": ("cupy",),
    "cute_dsl": ("cutlass.cute", "cupy"),
    "cutile": ("cuda.tile", "nvidia.cu13.bin", "cupy"),
    "helion": ("helion", "torch"),
    "numba": ("numba_cuda",),
    "pallas": ("jax", "triton"),
    "tilelang": ("tilelang", "cupy"),
    "torch_compile": ("torch", "triton"),
    "triton": ("torch", "triton"),
    "warp": ("warp",),
}
IN_THIS_PROCESS = {"helion", "pallas", "torch_compile", "triton"}
"""These run with `gpuemu triton`, the others with `gpuemu exec`."""
MOST = {"elementwise": 1e-6, "reduction": 1e-4, "product": 1e-4}
MOST_IN_HALF = 0.05
"""The program's result is float16, with values up to 50."""
PROGRAMS = sorted(path.relative_to(EXAMPLES) for path in EXAMPLES.glob("*/*.py"))

pytestmark = pytest.mark.slow


def missing(package: str) -> bool:
    top = package.partition(".")[0]
    try:
        return importlib.util.find_spec(top) is None or importlib.util.find_spec(package) is None
    except ModuleNotFoundError:
        return True


def check_packages(front_end: str) -> None:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        pytest.skip("front ends run on x86-64 Linux")
    for package in PACKAGES[front_end]:
        if missing(package):
            pytest.skip(f"{package} is not installed, and the programs of {front_end} import it")
    if front_end not in IN_THIS_PROCESS and shutil.which("ptxas") is None:
        pytest.skip("ptxas is not installed, and it assembles PTX")


def test_each_front_end_has_three_programs() -> None:
    found = {name: sorted(one.stem for one in PROGRAMS if one.parts[0] == name) for name in PACKAGES}
    assert found == dict.fromkeys(PACKAGES, sorted(MOST))


def test_a_step_of_a_compiled_gpt2_has_the_values_of_the_plain_one(tmp_path: Path) -> None:
    check_packages("torch_compile")
    command = [sys.executable, "-m", "gpuemu", "triton", "--untimed", str(EXAMPLES / "gpt2_step.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (error,) = re.findall(r"^largest error: (\S+)$", done.stdout, re.MULTILINE)
    assert float(error) <= 1e-5
    assert "backward" in done.stderr


WARP = """
import numpy as np
import warp as wp


@wp.kernel
def add(x: wp.array(dtype=float), a: float):
    x[wp.tid()] += a


wp.init()
right = np.arange(4 * 5 * 6 * 7, dtype=np.float32).reshape(4, 5, 6, 7)
x = wp.array(right, device="cuda")
odd = x[1::2, :, ::3, 2:]
odd.fill_(-1.0)
right[1::2, :, ::3, 2:] = -1
errors = [x.numpy() - right, wp.clone(odd).numpy() + 1, x.transpose().contiguous().numpy() - right.T]
errors += [wp.full(9, wp.vec3(1.0, 2.0, 3.0), dtype=wp.vec3, device="cuda").numpy() - [1, 2, 3]]
y = wp.zeros(100, dtype=float, device="cuda")
wp.load_module(device="cuda")
with wp.ScopedCapture(device="cuda") as capture:
    wp.launch(add, dim=100, inputs=[y, 1.0], device="cuda")
    wp.launch(add, dim=100, inputs=[y, 0.5], device="cuda")
errors += [y.numpy()]
for _ in range(2):
    wp.capture_launch(capture.graph)
errors += [y.numpy() - 3]
print("largest error:", max(np.abs(one).max() for one in errors), flush=True)
print(wp.utils.array_sum(y))
"""


def test_warp_fills_copies_and_captures_and_is_refused_for_cub(tmp_path: Path) -> None:
    check_packages("warp")
    (tmp_path / "app.py").write_text(WARP, encoding="utf-8")
    command = [sys.executable, "-m", "gpuemu", "exec", "--", sys.executable, "app.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "error: wp.utils.array_sum calls CUB in warp.so, which gpuemu does not provide." in done.stderr
    assert done.stdout.endswith("largest error: 0.0\n")


LINES = {
    "cute_dsl": ("reduction", "", ""),
    "cutile": ("reduction", "", ""),
    "numba": ("product", "@cuda.jit\n", "@cuda.jit(lineinfo=True)\n"),
    "warp": ("elementwise", "import warp as wp\n", "import warp as wp\n\nwp.config.lineinfo = True\n"),
}
"""Front end → a program, and what its user replaces for source lines."""


@pytest.mark.parametrize("front_end", LINES)
def test_instructions_have_lines_of_the_python_file(front_end: str, tmp_path: Path) -> None:
    check_packages(front_end)
    kind, usual, with_lines = LINES[front_end]
    text = (EXAMPLES / front_end / f"{kind}.py").read_text(encoding="utf-8")
    assert usual in text
    text = text.replace(usual, with_lines, 1)
    (tmp_path / "app.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "gpuemu", "exec", "--save-trace", "traces", "--", sys.executable, "app.py"]
    environment = {**os.environ, "CUTE_DSL_LINEINFO": "1"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    (saved,) = (tmp_path / "traces").iterdir()
    trace = gpuemu.load_trace(saved)
    lines = {line for one in trace.code for file, line in one.source or () if file == "app.py"}
    assert trace.source_text["app.py"] == text
    kernel = text[: text.index("np.random")].count("\n") + 1  # kernels are in front of the data
    assert len(lines) >= 3
    assert max(lines) < kernel


OUTSIDE = {
    "triton": """
import torch
import triton
import triton.language as tl


@triton.jit
def add(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) + 1)  # the mistake


x = torch.rand(1000, device="cuda")
add[(4,)](x, torch.empty(1024, device="cuda"), BLOCK=256)
""",
    "pallas": """
import jax
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu


def gather(x, at, out):
    out[...] = plgpu.load(x.at[at[...]]) + 1  # the mistake


shape = jax.ShapeDtypeStruct((1024,), np.float32)
call = pl.pallas_call(gather, out_shape=shape, compiler_params=plgpu.CompilerParams())
print(call(np.ones(1024, np.float32), np.arange(1024, dtype=np.int32) + 500))
""",
}


@pytest.mark.parametrize("front_end", OUTSIDE)
def test_an_invalid_access_has_the_line_of_its_load(front_end: str, tmp_path: Path) -> None:
    check_packages(front_end)
    text = OUTSIDE[front_end]
    (tmp_path / "app.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "gpuemu", "triton", "--check", "app.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    line = text[: text.index("  # the mistake")].count("\n") + 1
    assert f"app.py:{line}: " in done.stderr, done.stderr


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.with_suffix("").as_posix())
def test_a_program_has_numpys_values(program: Path, tmp_path: Path) -> None:
    front_end, kind = program.parts[0], program.stem
    check_packages(front_end)
    report, file = tmp_path / "launches.json", str(EXAMPLES / program)
    if front_end in IN_THIS_PROCESS:
        words = ["triton", "--json", str(report), file]
    else:
        words = ["exec", "--format", "json", "-o", str(report), "--", sys.executable, file]
    command = [sys.executable, "-m", "gpuemu", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ})
    assert done.returncode == 0, done.stderr
    (error,) = re.findall(r"^largest error: (\S+)$", done.stdout, re.MULTILINE)
    assert float(error) <= (MOST_IN_HALF if front_end == "torch_compile" and kind == "product" else MOST[kind])
    found = json.loads(report.read_text(encoding="utf-8"))
    launches = found if front_end in IN_THIS_PROCESS else found["launches"]
    assert launches
    assert {one.get("values", "executed") for one in launches} == {"executed"}
