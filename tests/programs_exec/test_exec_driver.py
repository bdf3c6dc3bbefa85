"""Clients of the driver: they find our libcuda.so.1 by its name, and its functions by theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpuemu.sass.machine.memory.tensor_map import decode

CPP = ("-x", "c++")
"""These programs have no device code: nvcc passes them to the host compiler, in a sixth of the time."""
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


@pytest.mark.slow
def test_a_client_of_the_driver(execute: Callable[..., Any]) -> None:
    run = execute(DRIVER, *CPP)
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


HEAD = DRIVER[: DRIVER.index("#define DO")]
DO = r"""
#define DO(name, ...) printf("%s %d\n", #name, call(#name, 13000, ##__VA_ARGS__))
void begin() {
  void *context;
  get = (Get)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2");
  call("cuInit", 13000, 0u), call("cuDevicePrimaryCtxRetain", 13000, &context, 0), call("cuCtxSetCurrent", 13000, context);
}
"""

VIRTUAL = r"""
int main() {
  begin();
  struct { int type, handles, place, device; void *security; char flags[8]; } kind = {1, 0, 1, 0, nullptr, {}};
  struct { int place, device, flags; } access = {1, 0, 3};
  typedef unsigned long long Address;
  size_t page = 0; Address at = 0; void *one, *two, *again;
  DO(cuMemGetAllocationGranularity, &page, &kind, 0);
  DO(cuMemAddressReserve, &at, 2 * page, size_t(0), Address(0), 0ull);
  DO(cuMemCreate, &one, page, &kind, 0ull);
  DO(cuMemCreate, &two, page, &kind, 0ull);
  DO(cuMemCreate, &two, page - 1, &kind, 0ull);
  DO(cuMemMap, at, page, size_t(0), one, 0ull);
  DO(cuMemMap, at, page, size_t(0), two, 0ull);
  DO(cuMemMap, at + page, page, size_t(0), two, 0ull);
  DO(cuMemSetAccess, at, 2 * page, &access, size_t(1));
  int values[4] = {1, 2, 3, 4}, got[4] = {};
  DO(cuMemcpyHtoD, at + page - 8, (const void *)values, sizeof values);  // a part of it in each
  DO(cuMemcpyDtoH, (void *)got, at + page - 8, sizeof got);
  printf("got %d%d%d%d\n", got[0], got[1], got[2], got[3]);
  DO(cuMemcpyHtoD, at + 2 * page - 8, (const void *)values, sizeof values);  // past the end
  DO(cuMemFree, at);
  DO(cuMemUnmap, at, page);
  DO(cuMemMap, at, page, size_t(0), one, 0ull);
  DO(cuMemcpyDtoH, (void *)got, at + page - 8, sizeof got);
  printf("kept %d%d%d%d\n", got[0], got[1], got[2], got[3]);
  DO(cuMemRetainAllocationHandle, &again, at + 100);
  printf("handle %d\n", again == one);
  DO(cuMemRelease, one), DO(cuMemRelease, one), DO(cuMemRelease, one);
  DO(cuMemAddressFree, at, 2 * page);
  DO(cuMemUnmap, at, 2 * page);
  DO(cuMemcpyDtoH, (void *)got, at, sizeof got);
  DO(cuMemRelease, one), DO(cuMemRelease, two);
  DO(cuMemAddressFree, at, 2 * page);
  access.flags = 1;
  DO(cuMemAddressReserve, &at, page, size_t(0), Address(0), 0ull);
  DO(cuMemCreate, &one, page, &kind, 0ull);
  DO(cuMemMap, at, page, size_t(0), one, 0ull);
  DO(cuMemSetAccess, at, page, &access, size_t(1));
}
"""


@pytest.mark.slow
def test_virtual_memory_is_mapped_moved_and_given_back(execute: Callable[..., Any]) -> None:
    run = execute(HEAD + DO + VIRTUAL, *CPP)
    lines = run.out.splitlines()
    assert [line for line in lines if not line.startswith("cu")] == ["got 1234", "kept 1234", "handle 1"]
    wrong = [line for line in lines if line.startswith("cu") and not line.endswith(" 0")]
    assert wrong == [
        "cuMemCreate 1",  # not whole pages
        "cuMemMap 1",  # where something is
        "cuMemcpyHtoD 1",
        "cuMemFree 1",
        "cuMemRelease 1",  # a third time, of two
        "cuMemAddressFree 1",  # while memory is there
        "cuMemcpyDtoH 1",
        "cuMemRelease 1",  # gone when it was unmapped
    ]
    assert [text.partition(" ")[0] for text in run.refusals] == ["cuMemSetAccess"]


LINK = r"""
int main() {
  begin();
  void *link, *module; const void *cubin; size_t bytes = 1;
  char log[8] = "full"; int options[] = {5, 6, 2}; void *values[] = {log, (void *)8, (void *)7};
  const char *ptx = ".version 8.0\n.target sm_90\n";
  DO(cuLinkCreate, 3u, options, values, &link);
  printf("log %d %d %d\n", log[0], values[1] != nullptr, values[2] != nullptr);
  DO(cuLinkComplete, link, &cubin, &bytes);
  DO(cuLinkAddData, link, 1, (void *)ptx, strlen(ptx) + 1, "name", 0u, (int *)nullptr, (void **)nullptr);
  DO(cuLinkAddFile, link, 1, "there_is_no_such_file", 0u, (int *)nullptr, (void **)nullptr);
  DO(cuLinkAddData, link, 0, (void *)"cubin", size_t(5), "name", 0u, (int *)nullptr, (void **)nullptr);
  DO(cuLinkComplete, link, &cubin, &bytes);
  printf("bytes %d\n", int(bytes));
  DO(cuModuleLoadData, &module, cubin);
  DO(cuLinkDestroy, link);
  DO(cuLinkDestroy, link);
  int grid, block;
  void *function;
  DO(cuModuleGetFunction, &function, module, "twice");
  size_t (*of_block)(int) = [](int threads) { return size_t(threads) * 400; };
  DO(cuOccupancyMaxPotentialBlockSize, &grid, &block, function, (size_t (*)(int))nullptr, size_t(0), 0);
  printf("best %d %d\n", grid, block);
  DO(cuOccupancyMaxPotentialBlockSize, &grid, &block, function, of_block, size_t(0), 96);
  printf("best %d %d\n", grid, block);
  DO(cuLinkCreate, 0u, options, values, &link);
  DO(cuLinkAddData, link, 4, (void *)"library", size_t(7), "name", 0u, (int *)nullptr, (void **)nullptr);
}
"""


@pytest.mark.slow
def test_images_are_linked_and_the_best_block_is_found(execute: Callable[..., Any]) -> None:
    run = execute(HEAD + DO + LINK, *CPP)
    lines = run.out.splitlines()
    assert [line for line in lines if not line.startswith("cu")] == [
        "log 0 0 0", "bytes 64", "best 528 512", "best 1056 64",
    ]  # fmt: skip
    wrong = [line for line in lines if line.startswith("cu") and not line.endswith(" 0")]
    assert wrong == ["cuLinkComplete 1", "cuLinkAddFile 301", "cuLinkDestroy 400"]
    assert ("link", [28, 5]) in run.asked
    assert [text.partition(" ")[0] for text in run.refusals] == ["cuLinkAddData"]


LOGS = r"""
void told(void *, int, const char *, size_t) {}
int main() {
  get = (Get)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2");
  void *handle = nullptr;
  DO(cuLogsRegisterCallback, (void *)told, (void *)nullptr, &handle);
  DO(cuLogsUnregisterCallback, handle);
  DO(cuLogsRegisterCallback, (void *)nullptr, (void *)nullptr, &handle);
}
"""


@pytest.mark.slow
def test_a_callback_for_logs_is_registered_before_cuinit_and_hears_nothing(execute: Callable[..., Any]) -> None:
    """TileLang with torch 2.14 registers one."""
    assert execute(HEAD + DO + LOGS, *CPP).out.splitlines() == [
        "cuLogsRegisterCallback 0", "cuLogsUnregisterCallback 0", "cuLogsRegisterCallback 1",
    ]  # fmt: skip


MAPS = r"""
int main() {
  get = (Get)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2");
  unsigned map[32];
  const unsigned long long shape[] = {256, 8}, strides[] = {128};
  const unsigned box[] = {128, 4}, steps[] = {1, 1};
  struct { unsigned type, swizzle; } cases[] = {{7, 4}, {14, 3}, {13, 0}, {11, 0}, {7, 6}, {7, 5}, {7, 7}};
  for (auto one : cases) {
    DO(cuTensorMapEncodeTiled, (void *)map, one.type, 2u, (void *)4096, shape, strides, box, steps, 0u, one.swizzle, 0u, 0u);
    for (unsigned word : map) printf("%08x", __builtin_bswap32(word));
    printf("\n");
  }
}
"""


@pytest.mark.slow
def test_tensor_maps_of_sm_100_have_their_swizzles_and_elements_of_four_bits(execute: Callable[..., Any]) -> None:
    lines = execute(HEAD + DO + MAPS, *CPP).out.splitlines()
    assert lines[0::2] == ["cuTensorMapEncodeTiled 0"] * 6 + ["cuTensorMapEncodeTiled 1"]
    layouts = [decode(bytes.fromhex(line)) for line in lines[1:12:2]]
    assert layouts[-1] is not None
    assert layouts.pop().unknown == "a swizzle that flips 8 bytes"
    found = [(one.type, one.swizzle_bytes, one.chunk_bytes, one.shape, one.box) for one in layouts if one is not None]
    assert found == [
        ("f32", 128, 32, (256, 8), (128, 4)),
        ("b4x16_p64", 128, 16, (16, 8), (8, 4)),
        ("b4x16", 0, 16, (16, 8), (8, 4)),
        ("tf32", 0, 16, (256, 8), (128, 4)),
        ("f32", 128, 64, (256, 8), (128, 4)),
    ]


COLUMNS = r"""
int main() {
  get = (Get)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2");
  unsigned map[32];
  const unsigned long long shape[] = {64, 9, 9, 9, 9}, strides[] = {128, 1152, 10368, 93312};
  const unsigned steps[] = {1, 2, 1, 3, 1};
  struct { unsigned rank; int lower[3], upper[3]; unsigned channels, pixels; } cases[] = {
      {3, {-32768}, {127}, 16, 16}, {4, {-128, 1}, {-1, 127}, 64, 1024}, {5, {-1, 2, -16}, {15, -3, 0}, 32, 257},
      {4, {0, 128}, {0, 0}, 16, 16}, {5, {0}, {0}, 16, 1025}, {2, {0}, {0}, 16, 16}};
  for (auto one : cases) {
    DO(cuTensorMapEncodeIm2col, (void *)map, 1u, one.rank, (void *)4096, shape, strides, one.lower, one.upper,
       one.channels, one.pixels, steps, 0u, 0u, 0u, 0u);
    for (unsigned word : map) printf("%08x", __builtin_bswap32(word));
    printf("\n");
  }
}
"""


@pytest.mark.slow
def test_tensor_maps_of_im2col_have_their_corners_and_pixels(execute: Callable[..., Any]) -> None:
    lines = execute(HEAD + DO + COLUMNS, *CPP).out.splitlines()
    assert lines[0::2] == ["cuTensorMapEncodeIm2col 0"] * 3 + ["cuTensorMapEncodeIm2col 1"] * 3
    layouts = [decode(bytes.fromhex(line)) for line in lines[1:6:2]]
    assert [(one.window, one.box[0], one.steps) for one in layouts if one is not None] == [
        (((-32768,), (135,), 16), 16, (1, 2, 1)),
        (((-128, 1), (7, 135), 1024), 64, (1, 2, 1, 3)),
        (((-1, 2, -16), (23, 5, 8), 257), 32, (1, 2, 1, 3, 1)),
    ]
