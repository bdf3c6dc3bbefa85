"""Solutions of leaderboards in inline CUDA: nvcc compiles their host code, and their launches are taken."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gpuemu
from gpuemu.studies.judge.api import end_workers

pytest.importorskip("torch", reason="references need PyTorch")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="Triton is Linux's"),
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="host code needs nvcc"),
]

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x, factor):
        return torch.relu(x) * factor

def get_inputs():
    return [torch.randn(6, 50, dtype=torch.float32), 3.0]

def get_init_inputs():
    return []
"""
SOLUTION = """
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda = r'''
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

template <typename T>
__global__ void scaled(const T *__restrict__ x, T *out, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] > T(0) ? T(x[i] * factor) : T(0);
}

__global__ void rows(at::PackedTensorAccessor32<float, 2, at::RestrictPtrTraits> x,
                     at::PackedTensorAccessor32<float, 2> out, float factor) {
    auto row = x[blockIdx.x];
    for (int c = threadIdx.x; c < x.size(1); c += blockDim.x) out[blockIdx.x][c] = fmaxf(row[c], 0.0f) * factor;
}

CODE
'''
module = load_inline(
    name="scaled", cpp_sources="torch::Tensor run(torch::Tensor x, double factor);", cuda_sources=cuda,
    functions=["run"], extra_cuda_cflags=["-O3", "-gencode=arch=compute_80,code=sm_80"], verbose=False,
)

class ModelNew(nn.Module):
    def forward(self, x, factor):
        return module.run(x, factor)
"""
TYPED = """
torch::Tensor run(torch::Tensor x, double factor) {
    TORCH_CHECK(x.is_cuda() && x.is_contiguous(), "x is not ", x.sizes());
    auto out = torch::empty(x.sizes(), x.options());
    const at::cuda::OptionalCUDAGuard guard(device_of(x));
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "scaled", [&] {
        scaled<scalar_t><<<(x.numel() + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
            x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), float(factor), int(x.numel()));
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}
"""
ACCESSORS = """
torch::Tensor run(torch::Tensor x, double factor) {
    auto out = torch::zeros_like(x);
    rows<<<x.size(0), 32>>>(x.packed_accessor32<float, 2, torch::RestrictPtrTraits>(),
                            out.packed_accessor32<float, 2>(), float(factor));
    return out;
}
"""
VIEWS = TYPED.replace("auto out", "x = x.view({-1, 25}).flatten();\n    auto out").replace(
    "return out;", "return out.view({6, 2, 25}).flatten(1);"
)


@pytest.fixture(scope="module", autouse=True)
def no_process_stays() -> Iterator[None]:
    yield
    end_workers()


def judged(folder: Path, code: str, solution: str = SOLUTION) -> dict[str, Any]:
    (folder / "problem.py").write_text(PROBLEM)
    (folder / "new.py").write_text(solution.replace("CODE", code))
    return gpuemu.judge(folder / "new.py", folder / "problem.py", "sm_89", draws=1, seconds=300.0)


@pytest.mark.parametrize("code", [TYPED, ACCESSORS, VIEWS], ids=["dispatch", "accessors", "views"])
def test_launches_of_host_code_are_judged(tmp_path: Path, code: str) -> None:
    found = judged(tmp_path, code)
    assert found["verdict"] == "right", found["reason"]
    assert found["times"][0]["launches"] == 1


@pytest.mark.parametrize(
    ("old", "new", "verdict", "reason"),
    [
        (
            "return out;",
            "return torch::relu(x) * factor;",
            "refused",
            "torch's operators, which have no time here: relu",
        ),
        ("return out;", "return out.to(torch::kHalf);", "refused", "which have no time here: to"),
        ("auto out", "x.zero_(); auto out", "refused", "which have no time here: zero_"),
        ("return out;", "out.zero_(); return out;", "refused", "which have no time here: zero_"),
        ("return out;", "return torch::empty_like(x);", "wrong", "elements are wrong"),
        ("auto out", "cudaStream_t s; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking); auto out", "right", ""),
        ("auto out", "void *p; cudaMalloc(&p, 4); auto out", "refused", "calls cudaMalloc, which has no time here"),
        ("auto out", "cublasCreate_v2(nullptr); auto out", "refused", "calls cublasCreate_v2, which has no time here"),
        ("return out;", "return out", "refused", "does not compile (line"),
        ("is_contiguous()", "size(7)", "refused", "a dimension that the tensor does not have"),
        ('"x is not "', '"x is not "', "right", ""),
        ("x.is_contiguous()", "!x.is_contiguous()", "refused", "x is not [6, 50]"),
    ],
)
def test_what_has_no_time_is_refused_by_name(tmp_path: Path, old: str, new: str, verdict: str, reason: str) -> None:
    declared = 'extern "C" int cublasCreate_v2(void *);\n' if "cublas" in new else ""
    found = judged(tmp_path, declared + TYPED.replace(old, new))
    assert (found["verdict"], reason in found["reason"]) == (verdict, True), found["reason"]


def test_a_module_may_define_its_own_functions(tmp_path: Path) -> None:
    """Without `functions`, the sources contain PYBIND11_MODULE."""
    module = (
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run, "scaled", py::arg("x"), py::arg("factor")); }'
    )
    solution = SOLUTION.replace('functions=["run"], ', "")
    assert judged(tmp_path, TYPED + module, solution)["verdict"] == "right"


def test_further_files_are_refused(tmp_path: Path) -> None:
    solution = SOLUTION.replace("import load_inline", "import load, load_inline").replace(
        "module = load_inline(", "load('a', ['a.cu'])\nmodule = load_inline("
    )
    found = judged(tmp_path, TYPED, solution)
    assert (found["verdict"], "load(...) of further files" in found["reason"]) == ("refused", True)
