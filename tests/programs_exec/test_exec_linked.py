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


VIRTUAL = r"""
#include <cstdio>
#include <new>
struct Shape { __device__ virtual float area() const = 0; };
struct Square : Shape { float side; __device__ Square(float s) : side(s) {} __device__ float area() const override; };
struct Disk : Shape { float radius; __device__ Disk(float r) : radius(r) {} __device__ float area() const override; };
__device__ float Square::area() const { return side * side; }
__device__ float Disk::area() const { return 3 * radius * radius; }
typedef float (*Function)(float);
__device__ __noinline__ float twice(float x) { return 2 * x; }
__device__ __noinline__ float half(float x) { return x / 2; }
__device__ Function chosen = twice, other = half;
__global__ void create(char* shapes) {
    if (threadIdx.x % 2) new (shapes + 16 * threadIdx.x) Square(threadIdx.x);
    else new (shapes + 16 * threadIdx.x) Disk(threadIdx.x);
}
__global__ void use(const char* shapes, float* out, Function given) {
    float area = reinterpret_cast<const Shape*>(shapes + 16 * threadIdx.x)->area();
    out[threadIdx.x] = given(area);
}
int main() {
    char* shapes;
    float* out;
    Function function;
    cudaMallocManaged(&shapes, 16 * 32), cudaMallocManaged(&out, 2 * 32 * sizeof(float));
    create<<<1, 32>>>(shapes);
    cudaMemcpyFromSymbol(&function, chosen, sizeof function);
    use<<<1, 32>>>(shapes, out, function);
    cudaMemcpyFromSymbol(&function, other, sizeof function);
    use<<<1, 32>>>(shapes, out + 32, function);
    cudaDeviceSynchronize();
    int right = 0;
    for (int i = 0; i < 32; ++i) {
        float area = (i % 2 ? 1 : 3) * i * i;
        right += (out[i] == 2 * area) + (out[32 + i] == area / 2);
    }
    printf("%s: %d right\n", cudaGetErrorString(cudaGetLastError()), right);
}
"""


def test_pointers_to_functions_have_one_value_in_all_kernels(tmp_path: Path) -> None:
    """One kernel makes objects with virtual functions, another calls these; the host passes pointers on."""
    ran = built_and_run(tmp_path, app=VIRTUAL)
    assert (ran.returncode, ran.stdout) == (0, "no error: 64 right\n"), ran.stderr
