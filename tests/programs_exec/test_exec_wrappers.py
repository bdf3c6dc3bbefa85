"""Runtimes without names of their own, parameters that host code fills in, and what Python imports at its start."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_device import SEVEN, build

from gpuemu.sass.image.host_code import host_functions

WRAPPERS = r"""
#define API extern "C" __attribute__((visibility("default"))) cudaError_t
API _cudaMalloc(void **address, size_t bytes) { return cudaMalloc(address, bytes); }
API _cudaFree(void *address) { return cudaFree(address); }
API counted(void *address, int *counts) { ++*counts; return cudaFree(address); }
"""
CLIENT = r"""
#include <cstdio>
#include <dlfcn.h>
int main(int count, char **words) {
  void *library = dlopen(words[1], RTLD_NOW), *memory = nullptr;
  auto allocate = (int (*)(void **, size_t))dlsym(library, "_cudaMalloc");
  auto release = (int (*)(void *, int *))dlsym(library, "counted");
  printf("%d\n", allocate(&memory, 4000));
  int counts = 0, code = release(memory, &counts);
  printf("%d %d\n", code, counts);
}
"""


def test_jumps_that_a_stripped_library_exports_name_its_runtime(execute: Callable[..., Any], tmp_path: Path) -> None:
    build(tmp_path, WRAPPERS, "-shared", "-O2", "-Xcompiler", "-fPIC,-O2", name="wrappers.so")
    library = tmp_path / "wrappers.so"
    subprocess.run(["strip", "-s", str(library)], check=True)
    run = execute(CLIENT, "-ldl", arguments=(str(library),))
    assert (run.code, run.out) == (0, "0\n0 1\n"), run.err + str(run.refusals)
    assert run.names() == ["allocate", "free"]


FILLED = r"""
__global__ void fills(int *to, int given, int filled) { to[0] = given + filled; }
int main() {
  int *to;
  cudaMalloc(&to, 64);
  fills<<<1, 32>>>(to, 30, 0);
  int found = 0;
  cudaMemcpy(&found, to, 4, cudaMemcpyDeviceToHost);
  return found;
}
"""


def test_host_code_fills_in_parameters(execute: Callable[..., Any]) -> None:
    assert execute(FILLED).code == 37


OBJECT = r"""
extern "C" {
extern const char __CUDA_TILEIR_FUNC_NAME_0[] = "alone";
extern const char __CUDA_TILEIR_FUNC_NAME_1[] = "calls";
extern const char __CUDA_TILEIR_FUNC_NAME_2[] = "none";
int elsewhere();
int __CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE_0(void *, void *, void *, int *at) { at[3] = 7; return 0; }
int __CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE_1(void *, void *, void *, int *at) { at[3] = elsewhere(); return 0; }
}
"""


def test_host_code_is_read_from_its_object(tmp_path: Path) -> None:
    build(tmp_path, OBJECT, "-c", "-x", "c++", "-Xcompiler", "-O1,-fcf-protection=none", name="host.o")
    found = host_functions((tmp_path / "host.o").read_bytes())
    alone = found.pop("alone")
    assert (alone[:7], alone[-1:]) == (SEVEN[:7], SEVEN[-1:])
    assert found == {"calls": b"", "none": b""}


BINDINGS = """
import ctypes
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
kept = b"cudaError_t (int *)"
__pyx_capi__ = {"_cudaGetDeviceCount": new(1, kept, None), "helper": new(1, kept, None)}
"""
USER = """
import ctypes
from cuda.bindings._internal import runtime
get = ctypes.pythonapi.PyCapsule_GetPointer
get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
pointers = {name: get(capsule, runtime.kept) for name, capsule in runtime.__pyx_capi__.items()}
count = ctypes.c_int()
code = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(pointers["_cudaGetDeviceCount"])(ctypes.addressof(count))
import sitecustomize
print(code, count.value, pointers["helper"], sitecustomize.name)
"""


def test_pointers_of_cuda_bindings_lead_to_this_runtime(
    execute: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "cuda" / "bindings" / "_internal"
    package.mkdir(parents=True)
    (package / "runtime.py").write_text(BINDINGS, encoding="utf-8")
    (tmp_path / "sitecustomize.py").write_text("name = 'of the user'\n", encoding="utf-8")
    (tmp_path / "user.py").write_text(USER, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run = execute.file(sys.executable, tmp_path / "user.py")  # type: ignore[attr-defined]
    assert (run.code, run.out) == (0, "0 1 1 of the user\n"), run.err
