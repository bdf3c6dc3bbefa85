"""Each wheel that some system lacks may be missing: a trace runs as ever, and what needs the wheel gets one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuemu.base.extras import CUDA_TOOLS, INSTALL

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
TRANSPOSE = ("examples/kernels/transpose.cu", "--block", "256")
WITHOUT = """
import importlib.metadata, sys

hidden = sys.argv.pop(1)
found = importlib.metadata.Distribution.from_name.__func__

def from_name(cls, name):
    if name == hidden:
        raise importlib.metadata.PackageNotFoundError(name)
    return found(cls, name)

importlib.metadata.Distribution.from_name = classmethod(from_name)
sys.modules[{"pyelftools": "elftools"}.get(hidden, hidden)] = None
sys.argv[0] = "gpuemu"
from gpuemu.cli.main import main
main()
"""
SAID = {
    "nvidia-cuda-nvdisasm": f"error: nvdisasm: not installed. {CUDA_TOOLS}.",
    "nvidia-cuda-nvrtc": f"error: nvrtc: not installed. {CUDA_TOOLS}.",
    "nvidia-cuda-runtime": f"error: the headers of nvidia-cuda-runtime: not installed. {CUDA_TOOLS}.",
    "nvidia-cuda-crt": f"error: the headers of nvidia-cuda-crt: not installed. {CUDA_TOOLS}.",
    "nvidia-cuda-cccl": f"error: the headers of nvidia-cuda-cccl: not installed. {CUDA_TOOLS}.",
    "pyelftools": f"error: pyelftools, which reads machine code: not installed. Install it with {INSTALL}.",
}
"""What a .cu gets without a wheel."""


def run(hidden: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`gpuemu run` as if a wheel were not installed, and with no tools but those of wheels."""
    command = [sys.executable, "-c", WITHOUT, hidden, "run", *words]
    environment = {**os.environ, "PATH": "", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def complete() -> str:
    """What a trace's run prints with all wheels."""
    return run("none", "v5_swizzle", "--arch", "sm_89").stdout


@pytest.mark.parametrize("wheel", [*SAID, "numba", "jinja2"])
def test_a_trace_runs_without_a_wheel(wheel: str, complete: str) -> None:
    ran = run(wheel, "v5_swizzle", "--arch", "sm_89")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == complete != ""


@pytest.mark.parametrize("wheel", SAID)
def test_a_kernel_without_a_tool_gets_one_sentence(wheel: str) -> None:
    ran = run(wheel, *TRANSPOSE)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert [line for line in ran.stderr.splitlines() if "no --arg" not in line] == [SAID[wheel]]


@pytest.mark.parametrize("wheel", ["numba", "jinja2"])
def test_a_kernel_runs_without_a_wheel_that_it_does_not_need(wheel: str) -> None:
    ran = run(wheel, *TRANSPOSE)
    assert ran.returncode == 0, ran.stderr
    assert "transpose on sm_89" in ran.stdout
