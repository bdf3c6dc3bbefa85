"""What a GPU answers: error codes that stay, streams and graphs in order, host functions, kinds of memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.slow

HEAD = r"""
#include <cstdio>
#include <cstring>
#include <vector>
__global__ void add(const int *a, const int *b, int *c, int n) { if (threadIdx.x < n) c[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x]; }
__global__ void twice(int *a, int n) { if (threadIdx.x < n) a[threadIdx.x] *= 2; }
__global__ void crash() { *(volatile int *)nullptr = 1; }
__global__ void say() { printf("hello from the device\n"); }
__device__ int counter[16];
__global__ void counts() { ++counter[0]; }
#define SHOW(call) printf("%s %d\n", #call, int(call))
"""


def test_a_fault_shows_up_where_the_program_waits_and_stays(execute: Callable[..., Any]) -> None:
    run = execute(HEAD + r"""
    int main() {
      int *a;
      cudaMalloc(&a, 64);
      crash<<<1, 1>>>();
      SHOW(cudaGetLastError());
      SHOW(cudaDeviceSynchronize());
      SHOW(cudaGetLastError());
      SHOW(cudaPeekAtLastError());
      SHOW(cudaMemset(a, 0, 64));
      SHOW(cudaMalloc(&a, 64));
      puts(cudaGetErrorString(cudaGetLastError()));
    }""")  # fmt: skip
    codes = [int(line.rsplit(" ", 1)[1]) for line in run.out.splitlines()[:-1]]
    assert codes == [0, 700, 700, 700, 700, 700]
    assert run.out.splitlines()[-1] == "an illegal memory access was encountered"


def test_a_wrong_launch_is_an_error_that_is_forgotten_once_it_is_read(execute: Callable[..., Any]) -> None:
    run = execute(HEAD + r"""
    __global__ void unknown() {}
    int main() {
      int *a;
      cudaMalloc(&a, 64);
      twice<<<1, 1025>>>(a, 1);
      SHOW(cudaPeekAtLastError());
      SHOW(cudaGetLastError());
      SHOW(cudaGetLastError());
      twice<<<0, 32>>>(a, 1); SHOW(cudaGetLastError());
      twice<<<1, 1024>>>(a, 1); SHOW(cudaGetLastError());
      twice<<<1, 32, 50000>>>(a, 1); SHOW(cudaGetLastError());
      SHOW(cudaFuncSetAttribute(twice, cudaFuncAttributeMaxDynamicSharedMemorySize, 50000));
      twice<<<1, 32, 50000>>>(a, 1); SHOW(cudaGetLastError());
      SHOW(cudaFuncSetAttribute(twice, cudaFuncAttributeMaxDynamicSharedMemorySize, 232000));
      unknown<<<1, 32>>>(); SHOW(cudaGetLastError());
      SHOW(cudaMemcpy(a, nullptr, 4, cudaMemcpyHostToDevice));
      SHOW(cudaMemcpy(a, &a, 1000, cudaMemcpyHostToDevice));
      SHOW(cudaMemcpy(&a, a, 4, cudaMemcpyKind(9)));
      SHOW(cudaMalloc(&a, size_t(1) << 40));
      SHOW(cudaFree((char *)a + 8));
      SHOW(cudaSetDevice(1));
      SHOW(cudaStreamSynchronize((cudaStream_t)0x1234));
      SHOW(cudaEventRecord((cudaEvent_t)0x1234));
      SHOW(cudaGetLastError());
      SHOW(cudaGetLastError());
    }""")  # fmt: skip
    codes = [int(line.rsplit(" ", 1)[1]) for line in run.out.splitlines()]
    assert codes == [9, 9, 0, 9, 701, 1, 0, 0, 1, 500, 1, 1, 21, 2, 1, 101, 400, 400, 400, 0]


def test_events_advance_by_the_time_of_the_device(execute: Callable[..., Any]) -> None:
    run = execute(HEAD + r"""
    int main() {
      int *a; float ms = -1;
      cudaMalloc(&a, 64);
      cudaEvent_t first, second, untimed;
      cudaEventCreate(&first), cudaEventCreate(&second), cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming);
      SHOW(cudaEventElapsedTime(&ms, first, second));
      cudaEventRecord(first);
      twice<<<1, 32>>>(a, 16), twice<<<1, 32>>>(a, 16);
      cudaEventRecord(second), cudaEventRecord(untimed);
      SHOW(cudaEventQuery(second));
      SHOW(cudaEventSynchronize(second));
      SHOW(cudaEventElapsedTime(&ms, first, second));
      printf("%.1f ms\n", ms);
      SHOW(cudaEventElapsedTime(&ms, first, untimed));
    }""")  # fmt: skip
    assert [line.rsplit(" ", 1)[1] for line in run.out.splitlines()] == ["400", "0", "0", "0", "ms", "400"]
    assert "3.0 ms" in run.out


CAPTURE = (
    HEAD
    + r"""
    int main() {
      int *a, *b, host[8] = {1, 2, 3, 4, 5, 6, 7, 8};
      cudaMalloc(&a, 32), cudaMalloc(&b, 32);
      cudaStream_t one, two; cudaEvent_t fork, join;
      cudaStreamCreate(&one), cudaStreamCreate(&two), cudaEventCreate(&fork), cudaEventCreate(&join);
      SHOW(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
      cudaMemcpyAsync(a, host, 32, cudaMemcpyHostToDevice, one);
      cudaEventRecord(fork, one);
      cudaStreamWaitEvent(two, fork, 0);
      cudaMemcpyAsync(b, a, 32, cudaMemcpyDeviceToDevice, two);
      cudaEventRecord(join, two);
      twice<<<1, 32, 0, one>>>(a, 8);
      cudaStreamWaitEvent(one, join, 0);
      add<<<1, 32, 0, one>>>(a, b, b, 8);
      cudaGraph_t graph; cudaGraphExec_t exec; size_t nodes = 0;
      SHOW(cudaStreamEndCapture(one, &graph));
      cudaGraphGetNodes(graph, nullptr, &nodes);
      printf("nodes %d\n", int(nodes));
      SHOW(cudaGraphInstantiate(&exec, graph, 0));
      host[0] = 100;
      SHOW(cudaGraphLaunch(exec, one)), SHOW(cudaGraphLaunch(exec, one));
      cudaMemcpyAsync(host, b, 32, cudaMemcpyDeviceToHost, one);
      SHOW(cudaStreamSynchronize(one));
      printf("%d %d\n", host[0], host[7]);
    }"""
)


def test_a_captured_graph_runs_when_it_is_launched_and_in_order(execute: Callable[..., Any]) -> None:
    run = execute(CAPTURE)
    assert run.out.splitlines()[-1] == "300 24"
    assert "nodes 4" in run.out
    assert run.names().count("launch") == 4
    assert all(line.endswith(" 0") for line in run.out.splitlines() if line.startswith("cuda"))


def test_a_stream_may_be_destroyed_after_its_part_of_a_capture(execute: Callable[..., Any]) -> None:
    joined = CAPTURE.replace("SHOW(cudaStreamEndCapture", "SHOW(cudaStreamDestroy(two)); SHOW(cudaStreamEndCapture")
    run = execute(joined)
    assert run.out.splitlines()[-1] == "300 24"
    assert "nodes 4" in run.out
    assert all(line.endswith(" 0") for line in run.out.splitlines() if line.startswith("cuda"))
    run = execute(joined.replace("cudaStreamWaitEvent(one, join, 0);", "").partition("cudaGraphGetNodes")[0] + "}")
    assert [line.rsplit(" ", 1)[1] for line in run.out.splitlines()] == ["0", "0", "904"], "the part is not joined"


def test_what_may_not_be_done_while_a_stream_is_captured(execute: Callable[..., Any]) -> None:
    run = execute(HEAD + r"""
    int main() {
      int *a, host = 0; cudaStream_t one, two; cudaEvent_t event; cudaGraph_t graph;
      cudaMalloc(&a, 32);
      cudaStreamCreate(&one), cudaStreamCreate(&two), cudaEventCreate(&event);
      cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal);
      SHOW(cudaStreamSynchronize(one));
      SHOW(cudaStreamEndCapture(one, &graph));
      cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal);
      SHOW(cudaMemcpy(a, &host, 4, cudaMemcpyHostToDevice));
      SHOW(cudaStreamEndCapture(one, &graph));
      cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal);
      cudaEventRecord(event, one), cudaStreamWaitEvent(two, event, 0);
      twice<<<1, 32, 0, two>>>(a, 1);
      SHOW(cudaStreamEndCapture(two, &graph));
      SHOW(cudaStreamEndCapture(one, &graph));
      SHOW(cudaStreamEndCapture(one, &graph));
    }""")  # fmt: skip
    assert [int(line.rsplit(" ", 1)[1]) for line in run.out.splitlines()] == [900, 901, 906, 901, 903, 904, 401]
    assert "launch" not in run.names()


def test_a_graph_made_by_hand_follows_its_edges(execute: Callable[..., Any]) -> None:
    run = execute(HEAD + r"""
    int main() {
      int *a, n = 1, host = 5, got = 0;
      cudaMalloc(&a, 4);
      cudaGraph_t graph; cudaGraphNode_t last, kernel, first; cudaGraphExec_t exec;
      cudaGraphCreate(&graph, 0);
      cudaGraphAddMemcpyNode1D(&last, graph, nullptr, 0, &got, a, 4, cudaMemcpyDeviceToHost);
      void *arguments[] = {&a, &n};
      cudaKernelNodeParams how = {(void *)twice, dim3(1), dim3(32), 0, arguments, nullptr};
      cudaGraphAddKernelNode(&kernel, graph, nullptr, 0, &how);
      cudaGraphAddMemcpyNode1D(&first, graph, nullptr, 0, a, &host, 4, cudaMemcpyHostToDevice);
      SHOW(cudaGraphAddDependencies(graph, &first, &kernel, nullptr, 1));
      SHOW(cudaGraphAddDependencies(graph, &kernel, &last, nullptr, 1));
      SHOW(cudaGraphInstantiate(&exec, graph, 0));
      SHOW(cudaGraphLaunch(exec, 0));
      cudaDeviceSynchronize();
      printf("got %d\n", got);
      int other = 7;
      SHOW(cudaGraphExecMemcpyNodeSetParams1D(exec, first, a, &other, 4, cudaMemcpyHostToDevice));
      cudaGraphLaunch(exec, 0), cudaDeviceSynchronize();
      printf("got %d\n", got);
      SHOW(cudaGraphAddDependencies(graph, &last, &first, nullptr, 1));
      SHOW(cudaGraphInstantiate(&exec, graph, 0));
    }""")  # fmt: skip
    lines = [line.rsplit(" ", 1)[1] for line in run.out.splitlines()]
    assert lines == ["0", "0", "0", "0", "10", "0", "14", "0", "1"]


def test_host_functions_run_between_the_work_of_their_stream(execute: Callable[..., Any]) -> None:
    run = execute(HEAD + r"""
    int *a, seen = 0, code = -1;
    void look(void *) { seen = *a; code = int(cudaDeviceSynchronize()); }
    int main() {
      cudaStream_t stream; cudaStreamCreate(&stream);
      cudaMallocManaged(&a, 4);
      *a = 1;
      twice<<<1, 32, 0, stream>>>(a, 1);
      cudaLaunchHostFunc(stream, look, nullptr);
      twice<<<1, 32, 0, stream>>>(a, 1);
      cudaStreamSynchronize(stream);
      printf("%d %d %d\n", seen, *a, code);
    }""")  # fmt: skip
    assert run.out == "2 4 800\n"


def test_pinned_registered_and_managed_memory_are_reached_by_kernels(execute: Callable[..., Any]) -> None:
    run = execute(HEAD + r"""
    __managed__ int shared_by_both[4] = {1, 2, 3, 4};
    int main() {
      int first = 10;
      SHOW(cudaMemcpyToSymbol(shared_by_both, &first, 4));
      twice<<<1, 32>>>(shared_by_both, 2), cudaDeviceSynchronize();
      printf("managed %d %d\n", shared_by_both[0], shared_by_both[1]);
      int *pinned, *device; std::vector<int> own(10000, 3);
      SHOW(cudaHostAlloc(&pinned, 64, cudaHostAllocMapped));
      pinned[0] = 21;
      twice<<<1, 32>>>(pinned, 1);
      SHOW(cudaHostRegister(own.data(), own.size() * 4, cudaHostRegisterDefault));
      SHOW(cudaHostRegister(own.data(), own.size() * 4, cudaHostRegisterDefault));
      SHOW(cudaHostGetDevicePointer(&device, own.data(), 0));
      twice<<<1, 32>>>(device, 20);
      cudaDeviceSynchronize();
      cudaPointerAttributes found;
      for (const void *one : {(void *)pinned, (void *)own.data(), (void *)&found}) {
        cudaPointerGetAttributes(&found, one);
        printf("type %d\n", int(found.type));
      }
      SHOW(cudaHostUnregister(own.data()));
      SHOW(cudaHostUnregister(own.data()));
      printf("%d %d %d\n", pinned[0], own[19], own[20]);
    }""")  # fmt: skip
    lines = run.out.splitlines()
    assert lines[:2] == ["cudaMemcpyToSymbol(shared_by_both, &first, 4) 0", "managed 20 0"]
    assert lines[-1] == "42 6 3"
    assert [line.rsplit(" ", 1)[1] for line in lines[2:-1]] == ["0", "0", "712", "0", "1", "1", "0", "0", "713"]


def test_symbols_and_printf_and_attributes(execute: Callable[..., Any]) -> None:
    run = execute(HEAD + r"""
    int main() {
      int value[16] = {7}, got = 0; size_t bytes = 0; void *address;
      SHOW(cudaMemcpyToSymbol(counter, value, sizeof value));
      counts<<<1, 1>>>();
      SHOW(cudaMemcpyFromSymbol(&got, counter, 4));
      printf("%d\n", got);
      SHOW(cudaGetSymbolSize(&bytes, counter)); SHOW(cudaGetSymbolAddress(&address, counter));
      SHOW(cudaMemcpyToSymbol(counter, value, 4, 64));
      printf("before\n");
      say<<<1, 1>>>();
      cudaDeviceSynchronize();
      printf("after\n");
      cudaFuncAttributes found; int blocks;
      cudaFuncGetAttributes(&found, twice);
      printf("%d %d %d %d %d\n", found.numRegs, found.ptxVersion, found.binaryVersion, found.maxThreadsPerBlock, int(found.sharedSizeBytes));
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, twice, 256, 40000);
      printf("%d\n", blocks);
      cudaDeviceProp is; cudaGetDeviceProperties(&is, 0);
      printf("%s %d.%d %d %d %d %d %d\n", is.name, is.major, is.minor, is.multiProcessorCount, int(is.sharedMemPerBlockOptin),
             is.maxThreadsPerMultiProcessor, is.clusterLaunch, is.maxBlocksPerMultiProcessor);
    }""")  # fmt: skip
    lines = run.out.splitlines()
    assert [line.rsplit(" ", 1)[1] for line in lines[:2]] == ["0", "0"]
    assert lines[2] == "8"
    assert [line.rsplit(" ", 1)[1] for line in lines[3:6]] == ["0", "0", "1"]
    assert lines[6:9] == ["before", "hello from the device", "after"]
    assert lines[9:] == ["16 90 90 512 1024", "5", "Fake GPU 9.0 132 232448 2048 1 32"]


def test_memory_in_the_order_of_streams(execute: Callable[..., Any]) -> None:
    run = execute(HEAD + r"""
    int main() {
      int *a, got = 0; cudaStream_t stream; cudaStreamCreate(&stream);
      SHOW(cudaMallocAsync(&a, 64, stream));
      SHOW(cudaMemsetAsync(a, 1, 64, stream));
      SHOW(cudaMemcpyAsync(&got, a, 4, cudaMemcpyDeviceToHost, stream));
      SHOW(cudaFreeAsync(a, stream));
      cudaStreamSynchronize(stream);
      printf("%x\n", got);
      size_t left, total; cudaMemGetInfo(&left, &total);
      printf("%d\n", left == total);
    }""")  # fmt: skip
    assert run.out.splitlines()[4:] == ["1010101", "1"]


def test_memory_of_a_graph_lives_as_long_as_the_graph(execute: Callable[..., Any]) -> None:
    run = execute(HEAD + r"""
    int main() {
      int *a, got = 0; cudaStream_t stream; cudaStreamCreate(&stream);
      cudaGraph_t graph; cudaGraphExec_t exec; size_t left, total;
      cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
      cudaMallocAsync(&a, 64, stream), cudaMemsetAsync(a, 1, 64, stream);
      twice<<<1, 32, 0, stream>>>(a, 16);
      cudaMemcpyAsync(&got, a, 4, cudaMemcpyDeviceToHost, stream), cudaFreeAsync(a, stream);
      cudaStreamEndCapture(stream, &graph);
      cudaGraphInstantiate(&exec, graph, 0), cudaGraphDestroy(graph);
      for (int k = 0; k < 2; ++k) cudaGraphLaunch(exec, stream), cudaStreamSynchronize(stream);
      cudaMemGetInfo(&left, &total);
      printf("%x %d\n", got, left == total);
      cudaGraphExecDestroy(exec), cudaMemGetInfo(&left, &total);
      printf("%d %d\n", left == total, int(cudaGetLastError()));
    }""")  # fmt: skip
    assert run.out == "2020202 0\n1 0\n"


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("cudaTextureObject_t t; cudaCreateTextureObject(&t, nullptr, nullptr, nullptr)", "cudaCreateTextureObject"),
        ("cudaIpcMemHandle_t h; cudaIpcGetMemHandle(&h, nullptr)", "cudaIpcGetMemHandle"),
    ],
)
def test_what_is_not_provided_ends_the_program_and_is_named(execute: Callable[..., Any], call: str, name: str) -> None:
    run = execute(HEAD + f'int main() {{ cudaFree(0); puts("begun"); {call}; puts("never"); }}')
    assert (run.code, run.out) == (125, "begun\n")
    assert [text.partition(" ")[0] for text in run.refusals] == [name]


def test_a_process_that_is_forked_off_after_cuda_began_has_no_device(execute: Callable[..., Any]) -> None:
    run = execute(r"""
    #include <cstdio>
    #include <sys/wait.h>
    #include <unistd.h>
    int main() {
      int *a; int before = 0, status = 0;
      if (!fork()) _exit(int(cudaMalloc(&a, 64)));
      wait(&status);
      printf("before %d\n", WEXITSTATUS(status));
      cudaMalloc(&a, 64);
      if (!fork()) _exit(int(cudaMalloc(&a, 64)));
      wait(&status);
      printf("after %d\n", WEXITSTATUS(status));
    }""")  # fmt: skip
    assert run.out == "before 0\nafter 3\n"
    assert len(run.devices) == 2


def test_threads_share_the_device_and_have_errors_of_their_own(execute: Callable[..., Any]) -> None:
    run = execute(HEAD + r"""
    #include <thread>
    int main() {
      int wrong[4] = {}, last[4];
      std::vector<std::thread> all;
      for (int t = 0; t < 4; ++t) all.emplace_back([&, t] {
        int *a, got;
        for (int k = 0; k < 50; ++k) {
          cudaMalloc(&a, 4), cudaMemcpy(a, &k, 4, cudaMemcpyHostToDevice);
          twice<<<1, 32>>>(a, 1);
          cudaMemcpy(&got, a, 4, cudaMemcpyDeviceToHost), cudaFree(a);
          wrong[t] += got != 2 * k;
        }
        if (t == 2) cudaSetDevice(9);
        last[t] = cudaGetLastError();
      });
      for (auto &one : all) one.join();
      for (int t = 0; t < 4; ++t) printf("%d %d\n", wrong[t], last[t]);
    }""", "-std=c++17")  # fmt: skip
    assert run.out == "0 0\n0 0\n0 101\n0 0\n"


def test_the_clocks_of_the_program_advance_by_the_time_of_the_device(execute: Callable[..., Any]) -> None:
    """The two kernels take a second here, and 3 ms of the emulated GPU. A wait for a deadline takes its time still."""
    run = execute(HEAD + r"""
    #include <chrono>
    #include <condition_variable>
    #include <ctime>
    #include <mutex>
    #include <sys/syscall.h>
    #include <unistd.h>
    __global__ void slow() {}
    double real() {
      timespec now;
      syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
      return now.tv_sec + now.tv_nsec * 1e-9;
    }
    int main() {
      slow<<<1, 1>>>(), cudaDeviceSynchronize();
      auto begin = std::chrono::steady_clock::now(); auto processor = clock(); double real_begin = real();
      slow<<<1, 1>>>(), slow<<<1, 1>>>();
      cudaDeviceSynchronize();
      std::chrono::duration<double> seen = std::chrono::steady_clock::now() - begin;
      double used = double(clock() - processor) / CLOCKS_PER_SEC, took = real() - real_begin;
      printf("%d %d %d\n", seen.count() >= 0.003 && seen.count() < 0.5, used >= 0.003 && used < 0.5, took >= 1.0);
      std::mutex mutex; std::condition_variable condition; std::unique_lock<std::mutex> lock(mutex);
      real_begin = real();
      auto found = condition.wait_for(lock, std::chrono::milliseconds(200));
      printf("%d %d\n", found == std::cv_status::timeout, real() - real_begin >= 0.19);
    }""", "-std=c++17")  # fmt: skip
    assert run.out == "1 1 1\n1 1\n"
