"""What people hand to kernels reaches them as the parameter's type has it, or is refused with the ways to write it."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.image.cubin import Cubin, read_cubin
from gpuemu.sass.image.mangling import signature
from gpuemu.sass.image.nv_info import Parameter
from gpuemu.sass.image.parameter_types import Kind, declared_types, parameter_types
from gpuemu.sass.machine.memory.arguments import parameter_sizes
from gpuemu.sass.machine.memory.parameter_uses import Use, parameter_uses
from gpuemu.sass.numbers.narrow import decode, encode
from gpuemu.sass.tools.disassembly import decode_function, load_cubin

SOURCE = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
typedef double real;
using whole = long long;
#define NUMBER float
enum E : long long { X = 1 };
struct P { float a; int b; double c; long long d; };
extern "C" __global__ void plain(double *o, real d, NUMBER f, int i, whole n, E e) {
    o[0] = d; o[1] = f; o[2] = i; o[3] = n; o[4] = e;
}
extern "C" __global__ void by_fields(double *o, P p) { o[0] = p.a; o[1] = p.b; o[2] = p.c; o[3] = p.d; }
extern "C" __global__ void pairs(double *o, int2 a, float2 b) { o[0] = a.x; o[1] = a.y; o[2] = b.x; o[3] = b.y; }
extern "C" __global__ void narrow(double *o, __half h) { o[0] = __half2float(h); }
extern "C" __global__ void moved(float *o, int n, float f, int unused) {
    for (int i = 0; i < n; ++i) o[i] = i & 1 ? f : o[i + (n >> 1)] * f;
}
extern "C" __global__ void stored(int *o, int bits) { o[threadIdx.x] = bits; }
template <typename T> __global__ void axpy(T alpha, const T *x, T *y) { y[threadIdx.x] += alpha * x[threadIdx.x]; }
template __global__ void axpy<float>(float, const float *, float *);
template __global__ void axpy<int>(int, const int *, int *);
__global__ void brain(float *o, __nv_bfloat16 b) { o[0] = __bfloat162float(b); }
"""
PTX = b".nv_debug_ptx_txt"


@pytest.fixture(scope="module")
def cubin(tmp_path_factory: pytest.TempPathFactory) -> Cubin:
    path = tmp_path_factory.mktemp("arguments") / "k.cu"
    path.write_text(SOURCE)
    return load_cubin(path, "sm_90", "nvrtc")


@pytest.fixture(scope="module")
def bare(cubin: Cubin) -> Cubin:
    """The same without debug information: nothing but the code, and names that are not mangled."""
    return read_cubin(cubin.content.replace(PTX, b"." * len(PTX)), "k.cubin")


def values(cubin: Cubin, kernel: str, *args: Any) -> list[float]:
    out = np.zeros(8, np.float32 if kernel == "brain" else np.float64)
    gpuemu.trace_kernel(cubin, kernel, args=[out, *args])
    return out.tolist()


def refusal(cubin: Cubin, kernel: str, *args: Any) -> str:
    with pytest.raises(gpuemu.GpuemuError) as caught:
        gpuemu.trace_kernel(cubin, kernel, args=[np.zeros(64, np.float64), *args])
    (problem,) = caught.value.problems
    return f"{problem.field}: found {problem.found}"


@pytest.mark.parametrize(
    ("symbol", "parameters"),
    [
        ("_Z5scalePfif", "float* | int | float"), ("_Z4gemmPfS_i", "float* | float* | int"),
        ("_Z1kIfLi4EEvPT_ijd", "float* | int | unsigned | double"), ("_ZN12_GLOBAL__N_11kEPKfm", "const float* | unsigned long"),
        ("_Z3fooPK6__half6__halfS1_x", "const __half* | __half | const __half* | long long"),
        ("_Z4axpyIfEvT_PKS0_PS0_", "float | const float* | float*"), ("_Z2k3IdEvPdT_S1_", "double* | double | double"),
        ("_Z1kIJfidEEvPfDpT_", "float* | float | int | double"), ("_Z1k6float2S_", "float2 | float2"),
        ("_Z1kN5outer3VecIfLi4EEES1_PS1_", "outer::Vec<float, 4> | outer::Vec<float, 4> | outer::Vec<float, 4>*"),
        ("_ZN1n1KINS_1GIfLi3EEEEEvNT_6ParamsE", "n::G<float, 3>::Params"), ("_Z1kSt5arrayIfLm4EE", "std::array<float, 4>"),
        ("_ZL1kPfd", "float* | double"), ("_Z1kv", ""), ("_Z1kIXaaT_EEvv", ""), ("_Z1kU8__vectori", ""), ("_Z", ""), ("plain", ""),
        ("_Z1k" + "P" * 5000 + "f", ""),
    ],
)  # fmt: skip
def test_a_symbol_has_the_types_of_its_parameters(symbol: str, parameters: str) -> None:
    assert " | ".join(signature(symbol).parameters) == parameters


def test_each_part_of_a_symbol_that_grows_on_itself_stays_small() -> None:
    def symbol(steps: int) -> str:
        numbers = "02468ACEGIKMOQSUWY"
        return "_Z1k1aIiiE" + "".join(f"1bIS{numbers[n]}_S{numbers[n]}_E" for n in range(steps))

    assert len(signature(symbol(4)).parameters) == 5
    assert signature(symbol(16)).parameters == ()


def test_the_ptx_beside_line_information_declares_parameters() -> None:
    ptx = b".visible .entry k(\0.param .u64 .ptr .global .align 1 k_param_0,\0.param .f32 k_param_1,\0.param .align 8 .b8 k_param_2[24]\0)\0{"
    assert declared_types(ptx) == {"k": ("u64*", "f32", "b8[]")}
    parameters = Parameter(0, 8), Parameter(8, 4), Parameter(16, 24)
    kinds = [found.kind for found in parameter_types("k", declared_types(ptx), parameters)]
    assert kinds == [Kind.POINTER, Kind.FLOAT, Kind.STRUCTURE]
    assert {found.kind for found in parameter_types("k", declared_types(ptx), parameters[:2])} == {Kind.UNKNOWN}


def test_a_pointer_that_the_cubin_marks_is_one_if_nothing_says_otherwise() -> None:
    marked = (Parameter(0, 8, is_pointer=True), Parameter(8, 8))
    assert [found.kind for found in parameter_types("k", {}, marked)] == [Kind.POINTER, Kind.UNKNOWN]
    assert [found.kind for found in parameter_types("k", {"k": ("u64", "u64")}, marked)] == [Kind.POINTER, Kind.WHOLE]
    assert [found.kind for found in parameter_types("_Z1kdd", {}, marked)] == [Kind.FLOAT, Kind.FLOAT]


def test_typedefs_macros_and_enumerations_are_what_the_compiler_makes_of_them(cubin: Cubin) -> None:
    assert values(cubin, "plain", 7, 6, 5, 4, 3)[:5] == [7, 6, 5, 4, 3]
    assert parameter_sizes(decode_function(cubin, "plain")) == "8, 8 (f64), 4 (f32), 4 (i32), 8, 8"


def test_a_template_s_parameter_has_the_type_that_it_stands_for(bare: Cubin) -> None:
    for kind, name in ((np.float32, "float"), (np.int32, "int")):
        x, y = np.ones(32, kind), np.ones(32, kind)
        gpuemu.trace_kernel(bare, f"axpy<{name}>", args=[2, x, y])
        assert (y == 3).all()


def test_without_a_type_the_code_tells_integers_from_floats(bare: Cubin) -> None:
    def uses(kernel: str) -> list[Use]:
        code = decode_function(bare, kernel)
        return list(parameter_uses(code.code, code.parameter_base, code.parameters, code.branch_targets))

    assert uses("plain") == [Use.WHOLE, Use.EITHER, Use.FLOAT, Use.WHOLE, Use.WHOLE, Use.WHOLE]
    assert uses("moved") == [Use.WHOLE, Use.WHOLE, Use.FLOAT, Use.NONE]
    assert uses("stored") == [Use.WHOLE, Use.EITHER]
    assert uses("pairs") == [Use.WHOLE, Use.WHOLE, Use.FLOAT]
    assert uses("narrow") == [Use.WHOLE, Use.FLOAT]


def test_an_integer_that_the_code_may_take_for_a_float_is_refused_with_both_spellings(bare: Cubin) -> None:
    either = "argument 1: found 7 for 8 bytes that may be a whole number or a float"
    assert refusal(bare, "plain", 7, 1.0, 1, 1, 1).startswith(either)
    floats = "argument 2: found 7 for 4 bytes that the code uses as a float"
    assert refusal(bare, "plain", 7.0, 7, 1, 1, 1).startswith(floats)
    assert refusal(bare, "plain", 7.0, 7.0, 1.5, 1, 1) == "argument 3: found 1.5"
    assert refusal(bare, "pairs", 7, 7).startswith("argument 2: found 7 for 8 bytes that the code uses as a float")
    narrow = "argument 1: found 7 for 2 bytes that the code uses as a float"
    assert refusal(bare, "narrow", 7).startswith(narrow)
    assert refusal(bare, "narrow", 7.5).startswith("argument 1: found 7.5 for 2 bytes that the code uses as a float")


def test_an_integer_that_the_code_takes_for_one_runs_as_it_always_did(bare: Cubin) -> None:
    assert values(bare, "plain", 7.0, 6.0, 5, 4, 3)[:5] == [7, 6, 5, 4, 3]
    out = np.ones(16, np.float32)
    gpuemu.trace_kernel(bare, "moved", args=[out, 4, 2.0, 9], block=1)
    assert out[:4].tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("zero", [0, 0.0, False, np.int64(0)])
def test_a_zero_is_the_same_in_all_types(bare: Cubin, zero: Any) -> None:
    assert values(bare, "narrow", zero)[0] == 0
    if not isinstance(zero, float):
        assert values(bare, "plain", zero, zero, zero, zero, zero)[:5] == [0] * 5


def test_what_says_its_type_is_taken_by_it(bare: Cubin) -> None:
    assert values(bare, "plain", np.float64(7), np.float32(6), np.int32(5), np.int64(4), ctypes.c_longlong(3))[:5] == [
        7,
        6,
        5,
        4,
        3,
    ]
    assert values(bare, "plain", ctypes.c_double(7), ctypes.c_float(6), ctypes.c_int(5), 4, 3)[:5] == [7, 6, 5, 4, 3]
    out = np.zeros(32, np.int32)
    gpuemu.trace_kernel(bare, "stored", args=[out, np.int32(7)])
    assert (out == 7).all()


def test_a_structure_is_a_tuple_a_numpy_scalar_a_ctypes_structure_or_bytes(cubin: Cubin) -> None:
    class P(ctypes.Structure):
        _fields_ = (("a", ctypes.c_float), ("b", ctypes.c_int), ("c", ctypes.c_double), ("d", ctypes.c_longlong))

    kind = np.dtype([("a", "f4"), ("b", "i4"), ("c", "f8"), ("d", "i8")], align=True)
    scalar = np.array([(1, 2, 3, 4)], kind)[0]
    members = (np.float32(1), ctypes.c_int(2), np.float64(3), np.int64(4))
    for given in (members, scalar, P(1, 2, 3, 4), scalar.tobytes()):
        assert values(cubin, "by_fields", given)[:4] == [1, 2, 3, 4]


def test_a_number_for_a_structure_is_refused(cubin: Cubin) -> None:
    assert refusal(cubin, "by_fields", 7) == "argument 1: found 7 for the structure of 24 bytes"
    assert refusal(cubin, "pairs", 7, 7) == "argument 2: found 7 for the structure of 8 bytes"


def test_a_bf16_is_rounded_as_conversions_do_and_its_bits_are_taken_as_uint16(cubin: Cubin) -> None:
    assert values(cubin, "brain", 1.5)[0] == values(cubin, "brain", np.uint16(0x3FC0))[0] == 1.5
    assert values(cubin, "brain", 3)[0] == 3
    assert values(cubin, "brain", 1.00390625)[0] == 1


@pytest.mark.parametrize("kind", ["bf16", "e4m3", "e5m2"])
def test_each_narrow_number_is_itself_behind_its_bits(kind: str) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16) if kind == "bf16" else np.arange(256).astype(np.uint8)
    numbers = decode(kind, bits)
    kept = np.isfinite(numbers)
    assert np.array_equal(encode(kind, numbers[kept]), bits[kept])
    assert np.isnan(decode(kind, encode(kind, np.nan))).all()


def test_narrow_floats_of_eight_bits_end_at_their_largest() -> None:
    assert decode("e4m3", encode("e4m3", [1e9, -1e9])).tolist() == [448, -448]
    assert decode("e5m2", encode("e5m2", 1e9)).tolist() == [57344]
    assert np.isinf(decode("bf16", encode("bf16", 1e39))).all()


@pytest.mark.slow
def test_parameters_whose_place_a_register_holds_are_known_to_be_unknown(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text('extern "C" __global__ void k(float *o, float f, int n) { o[n] = f; }')
    content = load_cubin(path, "sm_90", "nvrtc", ["-G"]).content.replace(PTX, b"." * len(PTX))
    assert refusal(read_cubin(content, "k.cubin"), "k", 2, 1).startswith("argument 1: found 2 for 4 bytes that may be")
