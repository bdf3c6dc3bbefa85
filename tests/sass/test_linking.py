"""A kernel and the functions that it calls by address are one piece of code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.image.cubin import Cubin, read_cubin
from gpuemu.sass.machine.linking import variable_addresses
from gpuemu.sass.machine.memory.storage import GLOBAL_START
from gpuemu.sass.tools.disassembly import decode_function
from gpuemu.sass.tools.toolchain import compile_cuda

Forget = Callable[..., None]

ARCHS = ("sm_75", "sm_80", "sm_90")
SOURCE = """
__device__ int offset = 5;
__device__ int zeros[3];
__device__ __noinline__ int third(int a) { return a * 3 + offset; }
__device__ __noinline__ int second(int a) { return third(a) + 1; }
__device__ int plus(int a) { return a + 7; }
__device__ int minus(int a) { return a - 7; }
__device__ int (*table[2])(int) = {plus, minus};
__device__ __noinline__ int unused(int a) { return a ^ 1; }
extern "C" __global__ void chain(int *o) { o[threadIdx.x] = second(o[threadIdx.x]); }
extern "C" __global__ void through(int *o) { o[threadIdx.x] = table[threadIdx.x & 1](o[threadIdx.x]); }
extern "C" __global__ void alone(int *o) { o[threadIdx.x] += 1; }
extern "C" __global__ void other(int *o) { o[threadIdx.x] = unused(o[threadIdx.x]); }
"""


@pytest.fixture(scope="module", params=ARCHS)
def debug(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Cubin:
    path = tmp_path_factory.mktemp("linking") / "k.cu"
    path.write_text(SOURCE)
    return read_cubin(compile_cuda(path, request.param, "nvrtc", ("-G",)), "k.cu")


def pieces(cubin: Cubin, kernel: str) -> list[str]:
    return [piece.name for piece in decode_function(cubin, kernel).image.pieces]


def test_a_kernel_brings_the_functions_it_can_reach_and_no_others(debug: Cubin) -> None:
    assert pieces(debug, "alone") == ["alone"]
    assert pieces(debug, "chain") == ["chain", "_Z6secondi", "_Z5thirdi"]
    assert sorted(pieces(debug, "through")) == ["_Z4plusi", "_Z5minusi", "through"]


def test_code_and_lines_are_those_of_all_pieces(debug: Cubin) -> None:
    function = decode_function(debug, "chain")
    assert len(function.code) * 16 == len(function.machine_code) == 16 * len(function.source_lines)
    assert [i.offset for i in function.code] == list(range(0, len(function.machine_code), 16))
    start = function.image.starts["_Z5thirdi"]
    assert function.image.place(start + 32) == "_Z5thirdi+0x0020"
    assert function.image.entries[function.image.addresses["_Z5thirdi"]] == start, "a pointer has a value of its own"
    assert function.source_line(start + 16) == (function.source_file, 4)
    calls = [i for i in function.code if i.opcode.startswith("CALL")]
    assert {f"{function.image.starts[name]:#x}" for name in ("_Z6secondi", "_Z5thirdi")} <= {
        i.operands[0] for i in calls
    }
    most = max(piece.code.registers_per_thread for piece in function.image.pieces)
    assert function.registers_per_thread == most


def test_variables_lie_where_the_image_says(debug: Cubin) -> None:
    addresses = variable_addresses(debug)
    assert min(addresses.values()) == GLOBAL_START
    assert {"offset", "zeros", "table"} <= set(addresses)
    values = np.arange(32, dtype=np.int32)
    gpuemu.trace_kernel(debug, "chain", args=[values])
    assert values.tolist() == [3 * t + 6 for t in range(32)]
    gpuemu.trace_kernel(debug, "through", args=[values])
    assert values.tolist() == [3 * t + 6 + (-7 if t % 2 else 7) for t in range(32)]


def test_what_is_not_known_is_refused_by_the_function_it_stands_in(debug: Cubin, forget: Forget) -> None:
    forget("IMAD")
    with pytest.raises(gpuemu.GpuemuError, match=r"_Z5thirdi\+0x[0-9a-f]{4}: unknown instruction 'IMAD"):
        decode_function(debug, "chain")
    assert decode_function(debug, "alone").code


def test_a_form_that_is_not_known_is_refused_by_function_address_and_line(debug: Cubin) -> None:
    function = decode_function(debug, "alone")
    place = next(i for i in function.code if i.opcode.startswith("S2R") and "TID" in i.operands[1])
    broken = bytearray(debug.content)
    at = debug.content.find(function.machine_code) + place.offset
    broken[at + 9] = 0x64  # the number of the special register: SR_PM0
    cubin = read_cubin(bytes(broken), "k.cu")
    with pytest.raises(gpuemu.GpuemuError) as caught:
        gpuemu.trace_kernel(cubin, "alone", args=[np.zeros(32, np.int32)])
    (problem,) = caught.value.problems
    assert problem.field == f"alone+{place.offset:#06x}"
    assert problem.line == 12
    assert problem.found.startswith(f"{place.opcode} {place.operands[0]}, SR")


def test_barriers_in_registers_are_replayed_with_their_numbers(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(
        'extern "C" __global__ void k(int *o, int n) {\n'
        'asm volatile("bar.sync %0, 64;" :: "r"(1 + threadIdx.x / 64));\n'
        'asm volatile("bar.sync %0;" :: "r"(n));\n o[threadIdx.x] = 1; }'
    )
    cubin = read_cubin(compile_cuda(source, "sm_89", "nvrtc"), "k.cu")
    trace = gpuemu.trace_kernel(cubin, "k", block=(128, 1, 1), args=[np.zeros(128, np.int32), 5])
    executed = [[str(trace.code[i]) for i in w.path if trace.code[i].opcode.startswith("BAR")] for w in trace.warps]
    opcode = next(i.opcode for i in trace.code if i.opcode.startswith("BAR"))
    both = [f"{opcode} 0x1, 0x40", f"{opcode} 0x5"], [f"{opcode} 0x2, 0x40", f"{opcode} 0x5"]
    assert executed == [both[0], both[0], both[1], both[1]]
    offsets = [i.offset for i in trace.code]
    assert offsets == sorted(set(offsets))
    assert gpuemu.run(trace, gpuemu.load_arch("sm_89")).cycles > 0
