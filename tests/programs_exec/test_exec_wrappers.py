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


@pytest.mark.slow
def test_jumps_that_a_stripped_library_exports_name_its_runtime(execute: Callable[..., Any], tmp_path: Path) -> None:
    build(tmp_path, WRAPPERS, "-shared", "-O2", "-Xcompiler", "-fPIC,-O2", name="wrappers.so")
    library = tmp_path / "wrappers.so"
    subprocess.run(["strip", "-s", str(library)], check=True)
    run = execute(CLIENT, "-ldl", arguments=(str(library),))
    assert (run.code, run.out) == (0, "0\n0 1\n"), run.err + str(run.refusals)
    assert run.names() == ["allocate", "free"]


WARP = r"""
#define API extern "C" __attribute__((visibility("default")))
typedef int (*Attribute)(int *, int, int);
API const char *wp_version() { return VERSION; }
API void *wp_cuda_context_get_stream(void *) { return nullptr; }
API int wp_alloc_tracker_is_enabled() { return 0; }
API void *wp_apic_get_cuda_recording_state() { return nullptr; }
API void *wp_alloc_device_default(void *, size_t bytes, const char *) {
  void *made = nullptr;
  cudaMalloc(&made, bytes);
  return made;
}
API void wp_memtile_device(void *, void *to, const void *, size_t, size_t) { cudaMemset(to, 1, 1000); }
API bool wp_array_copy_device(void *, void *to, void *source, int, int, int) { return cudaMemcpy(to, source, 8, cudaMemcpyDefault); }
API void wp_array_sum_float_device(void *to) { cudaMemset(to, 3, 1000); }
API int pools(Attribute get) {
  int found = -1;
  get(&found, 115, 0);
  return found;
}
"""
USER_OF_WARP = r"""
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
struct Array { void *data, *gradient; int shape[4], strides[4]; unsigned short dimensions, flags; };
template <class F> F *find(void *library, const char *name) { return (F *)dlsym(library, name); }
int main(int count, char **words) {
  void *library = dlopen(words[1], RTLD_NOW), *driver = dlopen("libcuda.so.1", RTLD_NOW);
  find<int(unsigned)>(driver, "cuInit")(0);
  printf("pools %d\n", find<int(void *)>(library, "pools")(dlsym(driver, "cuDeviceGetAttribute")));
  auto memory = (int *)find<void *(void *, size_t, const char *)>(library, "wp_alloc_device_default")(nullptr, 4096, "");
  int host[12], value[3] = {5, 6, 7};
  find<void(void *, void *, const void *, size_t, size_t)>(library, "wp_memtile_device")(nullptr, memory, value, 12, 4);
  Array even = {memory, nullptr, {2, 3}, {24, 8}, 2, 0}, odd = {memory + 1, nullptr, {2, 3}, {24, 8}, 2, 0};
  printf("%d\n", find<bool(void *, void *, void *, int, int, int)>(library, "wp_array_copy_device")(nullptr, &even, &odd, 0, 0, 4));
  cudaMemcpy(host, memory, sizeof host, cudaMemcpyDeviceToHost);
  for (int one : host) printf("%d ", one);
  fflush(stdout);
  find<void(void *)>(library, "wp_array_sum_float_device")(memory);
}
"""


def run_warp(execute: Callable[..., Any], folder: Path, version: str) -> Any:
    options = ("-shared", "-O2", "-Xcompiler", "-fPIC,-O2", f'-DVERSION="{version}"')
    build(folder, WARP, *options, name="warp.so")
    subprocess.run(["strip", "-s", str(folder / "warp.so")], check=True)
    return execute(USER_OF_WARP, "-ldl", arguments=(str(folder / "warp.so"),))


@pytest.mark.slow
def test_warps_own_functions_lead_to_this_runtime(execute: Callable[..., Any], tmp_path: Path) -> None:
    run = run_warp(execute, tmp_path, "1.19.3")
    assert run.out == "pools 0\n1\n6 6 5 5 7 7 6 6 5 5 7 7 ", run.err + str(run.refusals)
    assert run.names() == ["allocate", *["fill"] * 3, "copy", "copy"]
    assert run.refusals == [
        "wp.utils.array_sum calls CUB in warp.so, which gpuemu does not provide. "
        "Sum in a kernel, with wp.tile_sum or wp.atomic_add."
    ]


@pytest.mark.slow
def test_another_version_of_warp_is_refused_by_name(execute: Callable[..., Any], tmp_path: Path) -> None:
    run = run_warp(execute, tmp_path, "1.12.0")
    assert run.code == 125
    assert run.refusals == ["warp.so is of Warp 1.12.0. gpuemu knows the functions of Warp 1.19. Install it."]


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


@pytest.mark.slow
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
