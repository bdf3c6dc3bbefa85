"""Clients of the driver: they find our libcuda.so.1 by its name, and its functions by theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DRIVER = r"""
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
typedef int (*Get)(const char *, void **, int, unsigned long long, int *);
Get get;
template <class... Rest> int call(const char *name, int version, Rest... rest) {
  void *function = nullptr; int status = -1;
  int code = get(name, &function, version, 0, &status);
  if (code || !function) return printf("%s: %d %d\n", name, code, status), code;
  return reinterpret_cast<int (*)(Rest...)>(function)(rest...);
}
#define DO(name, ...) printf("%s %d\n", #name, call(#name, 13000, ##__VA_ARGS__))
int main() {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  get = (Get)dlsym(library, "cuGetProcAddress_v2");
  void *context = nullptr, *module, *function, *stream; unsigned long long memory = 0; int count = 0, value = 0;
  size_t bytes = 0;
  DO(cuMemAlloc, &memory, size_t(64));
  DO(cuInit, 0u);
  DO(cuDeviceGetCount, &count);
  DO(cuMemAlloc, &memory, size_t(64));
  DO(cuDevicePrimaryCtxRetain, &context, 0);
  DO(cuCtxSetCurrent, context);
  DO(cuMemAlloc, &memory, size_t(64));
  const char *ptx = ".version 8.0\n.target sm_90\n";
  DO(cuModuleLoadData, &module, (const void *)ptx);
  DO(cuModuleGetFunction, &function, module, "missing");
  DO(cuModuleGetFunction, &function, module, "twice");
  DO(cuFuncGetAttribute, &value, 4, function);
  printf("registers %d\n", value);
  DO(cuMemsetD32, memory, 21u, size_t(16));
  DO(cuStreamCreate, &stream, 1u);
  int n = 16; void *arguments[] = {&memory, &n};
  DO(cuLaunchKernel, function, 1u, 1u, 1u, 32u, 1u, 1u, 0u, stream, arguments, (void **)nullptr);
  DO(cuLaunchKernel, function, 1u, 1u, 1u, 4096u, 1u, 1u, 0u, stream, arguments, (void **)nullptr);
  struct { unsigned long long memory; int n; } packed = {memory, 16}; size_t size = 12;
  void *extra[] = {(void *)1, &packed, (void *)2, &size, nullptr};
  DO(cuLaunchKernel, function, 1u, 1u, 1u, 32u, 1u, 1u, 0u, stream, (void **)nullptr, extra);
  DO(cuStreamSynchronize, stream);
  int got[16] = {};
  DO(cuMemcpyDtoH, (void *)got, memory, sizeof got);
  printf("%d %d\n", got[0], got[15]);
  DO(cuMemGetAddressRange, (unsigned long long *)nullptr, &bytes, memory + 8);
  printf("range %d\n", int(bytes));
  DO(cuModuleUnload, module);
  DO(cuModuleGetFunction, &function, module, "twice");
  call("cuNothingOfThisName", 13000);
  unsigned char table[16] = {1, 2, 3}; const void *found = table;
  printf("table %d\n", ((int (*)(const void **, const void *))dlsym(library, "cuGetExportTable"))(&found, table));
  DO(cuTexObjectCreate, (void *)nullptr);
}
"""


def test_a_client_of_the_driver(execute: Callable[..., Any]) -> None:
    run = execute(DRIVER)
    lines = dict(line.rsplit(" ", 1) for line in run.out.splitlines())
    codes = [line.rsplit(" ", 1)[1] for line in run.out.splitlines() if line.startswith("cu")]
    assert codes[:7] == ["3", "0", "0", "201", "0", "0", "0"]
    assert run.out.count("cuModuleGetFunction 500\n") == 1  # a name that the module does not have
    assert run.out.count("cuModuleGetFunction 400\n") == 1  # a module that is gone
    assert lines["registers"] == "16"
    assert "cuLaunchKernel 0\ncuLaunchKernel 1\ncuLaunchKernel 0\n" in run.out
    assert "84 84\n" in run.out
    assert lines["range"] == "64"
    assert "cuNothingOfThisName: 500 1\n" in run.out
    assert lines["table"] == "500"
    assert run.code == 125
    assert [text.partition(" ")[0] for text in run.refusals] == ["cuTexObjectCreate"]
    assert run.names().count("launch") == 2


def test_a_program_that_is_not_an_elf_file_of_this_processor_is_refused(
    execute: Callable[..., Any], tmp_path: Any
) -> None:
    import pytest

    from gpuemu.base.errors import GpuemuError

    other = tmp_path / "other"
    other.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(11) + b"\xb7\x00" + bytes(44))
    other.chmod(0o755)
    with pytest.raises(GpuemuError, match="another processor"):
        execute.file(other)  # type: ignore[attr-defined]
    setuid = tmp_path / "setuid"
    setuid.write_bytes(b"#!/bin/sh\n")
    setuid.chmod(0o4755)
    with pytest.raises(GpuemuError, match="setuid"):
        execute.file(setuid)  # type: ignore[attr-defined]
    with pytest.raises(GpuemuError, match="no program"):
        execute.file(tmp_path / "missing")  # type: ignore[attr-defined]
