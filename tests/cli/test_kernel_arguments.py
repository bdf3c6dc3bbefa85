"""What `--arg` takes: numbers by their type, narrow floats, structures by their fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from refusals import brief

from gpuemu import GpuemuError
from gpuemu.cli.kernel_arguments import buffers, parse_argument, parse_arguments
from gpuemu.cli.main import cli
from gpuemu.sass.machine.memory.arguments import Aligned
from gpuemu.sass.numbers.narrow import Narrow

SOURCE = """
#include <cuda_bf16.h>
struct Pair { float a, b; };
struct P { float *x; int n; Pair ab; float4 v; double d; char c[60]; };
__global__ void fields(P p) {
    if (threadIdx.x < p.n) p.x[threadIdx.x] = p.ab.a + p.ab.b + p.v.w + p.d + p.c[59];
}
__global__ void twice(__nv_bfloat16 *x, __nv_bfloat16 y) { x[threadIdx.x] = x[threadIdx.x] + x[threadIdx.x] + y; }
extern "C" __global__ void sum(float *x, float f, int n) { x[threadIdx.x] = f + n; }
__global__ void no_pointer(double *x, double y) { *x = y; }
"""
FIELDS = "zeros:f32:64,i32:40,(f32:1,f32:2),f32x4:3/4/5/6,f64:7,pad:60"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("k.cu").write_text(SOURCE)
    return "k.cu"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["run", *arguments], standalone_mode=False)


def refusal(text: str) -> str:
    with pytest.raises(GpuemuError) as caught:
        parse_argument(text)
    return "\n".join(brief(caught.value)).removeprefix("--arg: ")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("i32:2", np.int32(2)), ("u8:0xff", np.uint8(255)), ("i8:0xff", np.int8(-1)), ("i64:-3", np.int64(-3)),
        ("f32:2", np.float32(2)), ("f16:1e9", np.float16(np.inf)), ("f64:-1.5", np.float64(-1.5)),
    ],
)  # fmt: skip
def test_a_number_may_say_its_type(text: str, value: Any) -> None:
    found = parse_argument(text)
    assert found == value
    assert found.dtype == value.dtype


def test_narrow_floats_say_theirs_and_are_rounded() -> None:
    found = parse_argument("bf16:1.00390625")
    assert isinstance(found, Narrow)
    assert (found.kind, found.bits) == ("bf16", b"\x80\x3f")
    assert parse_argument("e4m3:448").bits == b"\x7e"
    assert parse_argument("arange:bf16:4").tolist() == [0, 0x3F80, 0x4000, 0x4040]
    assert parse_argument("ones:e5m2:2x2").tolist() == [[0x3C, 0x3C], [0x3C, 0x3C]]
    assert parse_argument("zeros:bf16:8").dtype == np.uint16


def test_a_structure_is_written_by_its_fields() -> None:
    array, n, pair, vector, d, padding = parse_argument(f"struct:{FIELDS}")
    assert (array.shape, n, pair, d, padding) == ((64,), 40, (1, 2), 7, bytes(60))
    assert vector == Aligned(np.array([3, 4, 5, 6], np.float32).tobytes(), 16)
    assert parse_argument("struct:i8x3:1/2/3")[0] == Aligned(b"\1\2\3", 1)
    assert [name for name, _ in buffers(parse_arguments(["1", "struct:i32:1,(f32:1,zeros:u8:4)"]))] == ["1.1.1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("i32:1.5", "'1.5' for i32"), ("i8:300", "300 for i8"),
        ("f32:x", "'x' for f32"), ("i7:2", "the type 'i7' in 'i7:2'"),
        ("f32x4:1/2", "'1/2' for f32x4"),
        ("struct:", "'struct:'"), ("struct:(i32:1", "'struct:(i32:1'"),
        ("struct:i32:1)", "')' in 'struct:i32:1)'"),
        ("struct:i32:1,,i32:2", "',' in "), ("struct:i32:1,", "'struct:i32:1,'"),
        ("struct:(i32:1)i32:2", "'i32:2' in 'struct:(i32:1)i32:2'"), ("struct:()", "')' in 'struct:()'"),
        ("struct:64", "the field '64' in 'struct:64'"),
        ("struct:" + "(" * 40 + "i32:1" + ")" * 40, "the field '[["), ("zeros:bf17:4", "the type 'bf17'"),
        ("struct:none.json", "none.json: no such file or directory"),
        ("much", "'much'"),
    ],
)  # fmt: skip
def test_what_is_no_argument_is_refused_with_what_is(text: str, message: str) -> None:
    assert refusal(text).startswith(message)


@pytest.mark.slow
def test_a_structure_goes_to_its_kernel_and_its_buffers_come_back(source: str) -> None:
    ran = run(source, "--kernel", "fields", "--block", "64", "--arg", f"struct:{FIELDS}", "--save", "0.0=out.npy")
    assert ran.exit_code == 0, ran.exception
    assert np.load("out.npy").tolist() == [1 + 2 + 6 + 7] * 40 + [0] * 24
    fields = {
        "x": "zeros:f32:64",
        "n": "i32:40",
        "ab": ["f32:1", "f32:2"],
        "v": "f32x4:3/4/5/6",
        "d": "f64:7",
        "c": "pad:60",
    }
    Path("p.json").write_text(json.dumps(fields))
    ran = run(source, "--kernel", "fields", "--block", "64", "--arg", "struct:p.json", "--expect", "0.0=out.npy")
    assert (ran.exit_code, ran.stderr) == (
        0,
        "--expect 0.0=out.npy: all 64 numbers are the same; gpuemu check looks for races\n",
    )
    ran = run(source, "--kernel", "fields", "--arg", "struct:zeros:f32:64,i32:40")
    assert "argument 0: found a structure of 16 bytes" in str(ran.exception)


@pytest.mark.parametrize("content", ["{", "[]", "3", '{"n": 64}', "[" * 5000])
def test_a_file_without_fields_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(content)
    with pytest.raises(GpuemuError):
        parse_argument(f"struct:{path}")


@pytest.mark.slow
def test_bf16_is_an_argument_and_what_is_expected_of_it_are_numbers_or_bits(source: str) -> None:
    np.save("numbers.npy", np.arange(32, dtype=np.float32) * 2 + 1)
    launch = ("--kernel", "twice", "--arg", "arange:bf16:32")
    for one in ("1", "bf16:1", "f32:1", "i32:1", "u16:0x3f80"):
        ran = run(source, *launch, "--arg", one, "--expect", "0=numbers.npy", "--save", "0=bits.npy")
        assert (ran.exit_code, ran.stderr) == (
            0,
            "--expect 0=numbers.npy: all 32 numbers are the same; gpuemu check looks for races\n",
        )
    assert np.load("bits.npy").dtype == np.uint16
    assert run(source, *launch, "--arg", "1", "--expect", "0=bits.npy").exit_code == 0
    assert (
        "32 of 32 numbers differ, the first at 0: 2.0 for 1.0"
        in run(source, *launch, "--arg", "2", "--expect", "0=bits.npy").stderr
    )


@pytest.mark.slow
def test_numbers_that_say_another_type_than_the_parameter_s_are_converted_as_in_c(source: str) -> None:
    ran = run(
        source, "--kernel", "sum", "--arg", "zeros:f32:32", "--arg", "i32:2", "--arg", "i64:3", "--save", "0=out.npy"
    )
    assert ran.exit_code == 0, ran.exception
    assert (np.load("out.npy") == 5).all()


@pytest.mark.slow
def test_without_arguments_only_what_may_be_a_pointer_gets_a_buffer(source: str) -> None:
    ran = run(source, "--kernel", "no_pointer")
    assert "no_pointer needs 2 arguments, of 8, 8 (double) bytes" in str(ran.exception)


@pytest.mark.parametrize(
    ("option", "sizes"), [("--block", "1,1,65"), ("--grid", "1,65536,1"), ("--grid", "2147483648")]
)
def test_sizes_beyond_the_hardware_are_refused_by_their_option(option: str, sizes: str) -> None:
    ran = run("k.cu", option, sizes)
    assert str(ran.exception).startswith(f"{option}: found '{sizes}'")
