"""The library in a program's process: registration, launches, memory, copies, however the runtime is linked."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_device import build

pytestmark = pytest.mark.slow

ADD = r"""
#include <cstdio>
__global__ void add(const int *a, const int *b, int *c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
int main() {
  const int n = 1000;
  int *a, *b, *c, host[n];
  cudaMalloc(&a, n * 4), cudaMalloc(&b, n * 4), cudaMalloc(&c, n * 4);
  for (int i = 0; i < n; ++i) host[i] = i;
  cudaMemcpy(a, host, n * 4, cudaMemcpyHostToDevice);
  cudaMemcpy(b, host, n * 4, cudaMemcpyHostToDevice);
  add<<<(n + 127) / 128, 128>>>(a, b, c, n);
  cudaMemcpy(host, c, n * 4, cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += host[i] != 2 * i;
  printf("%d wrong\n", wrong);
  return cudaFree(a) != cudaSuccess || wrong ? 1 : 7;
}
"""


@pytest.mark.parametrize("options", [(), ("-cudart", "shared"), ("-rdc=true",)], ids=["static", "shared", "rdc"])
def test_an_unmodified_program_runs(execute: Callable[..., Any], options: tuple[str, ...]) -> None:
    run = execute(ADD, *options)
    assert (run.code, run.out) == (7, "0 wrong\n"), run.err
    assert run.names() == ["allocate"] * 3 + ["copy", "copy", "load", "launch", "copy", "free"]
    assert ("launch", "add", (8, 1, 1), (128, 1, 1), 0) in run.asked
    assert [size for what, size, *_ in run.asked if what == "allocate"] == [4000] * 3


def test_a_stripped_runtime_is_refused_by_name(execute: Callable[..., Any], tmp_path: Path) -> None:
    program = build(tmp_path, ADD)
    subprocess.run(["strip", str(program)], check=True)
    run = execute.file(program)  # type: ignore[attr-defined]
    assert run.code == 125
    assert run.refusals[0].startswith("program has a CUDA runtime of its own")


def test_the_runtime_of_an_earlier_cuda_is_refused_by_name(execute: Callable[..., Any]) -> None:
    run = execute(ADD + 'extern "C" int cudaThreadSynchronize() { return 0; }')
    assert run.code == 125
    assert run.refusals == [
        "program has the CUDA runtime of CUDA 12 or of an earlier version, whose functions take other arguments. "
        "Build the program with CUDA 13."
    ]
