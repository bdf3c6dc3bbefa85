"""Programs of several sources, which nvlink links: functions of one name, and addresses of functions in memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("nvcc") is None, reason="host code needs nvcc")]

DIVIDES = r"""
#include <cstdio>
__global__ void KERNEL(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x] / in[threadIdx.x + 32]; }
void FUNCTION() {
    float *in, *out;
    cudaMallocManaged(&in, 64 * sizeof(float)), cudaMallocManaged(&out, 32 * sizeof(float));
    for (int i = 0; i < 64; ++i) in[i] = i < 32 ? 3e-39f * i : 0.75f;
    KERNEL<<<1, 32>>>(in, out);
    int right = 0;
    cudaDeviceSynchronize();
    for (int i = 0; i < 32; ++i) right += out[i] == 3e-39f * i / 0.75f;
    printf("%s: %d right\n", cudaGetErrorString(cudaGetLastError()), right);
}
"""
MAIN = "void first(); void second(); int main() { first(); second(); }"


def built_and_run(folder: Path, **sources: str) -> subprocess.CompletedProcess[str]:
    for name, text in sources.items():
        (folder / f"{name}.cu").write_text(text)
    command = ["nvcc", "-arch=sm_90", "-rdc=true", "-o", "app", *(f"{name}.cu" for name in sources)]
    subprocess.run(command, cwd=folder, check=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-m", "gpuemu", "exec", "--chip", "H200", "--", "./app"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_each_source_has_a_function_for_divisions_of_its_own(tmp_path: Path) -> None:
    """Both have the same name. Small numbers take the path that calls it."""
    parts = {
        name: DIVIDES.replace("KERNEL", f"divide_{name}").replace("FUNCTION", name) for name in ("first", "second")
    }
    ran = built_and_run(tmp_path, **parts, app=MAIN)
    assert (ran.returncode, ran.stdout) == (0, "no error: 32 right\n" * 2), ran.stderr
