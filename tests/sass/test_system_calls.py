"""printf, assert, malloc and free, traps and stacks: what compiled code asks of the driver."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.image.cubin import Cubin, read_cubin
from gpuemu.sass.machine.device_printf import FormatError, parse_format
from gpuemu.sass.tools.toolchain import compile_cuda

SOURCE = Path(__file__).parent / "kernels" / "system.cu"
ARCHS = ("sm_75", "sm_80", "sm_89", "sm_90")


@cache
def cubin(arch: str, *options: str) -> Cubin:
    return read_cubin(compile_cuda(SOURCE, arch, "nvrtc", options), str(SOURCE))


def launch(
    kernel: str, args: list[Any], arch: str = "sm_89", options: tuple[str, ...] = (), **more: Any
) -> gpuemu.Trace:
    return gpuemu.trace_kernel(cubin(arch, *options), kernel, args=args, **more)


def refusal(kernel: str, args: list[Any], **more: Any) -> gpuemu.Problem:
    with pytest.raises(gpuemu.GpuemuError) as caught:
        launch(kernel, args, **more)
    (problem,) = caught.value.problems
    return problem


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-G",)])
@pytest.mark.parametrize("arch", ARCHS)
def test_printf_prints_what_the_host_would(arch: str, options: tuple[str, ...]) -> None:
    out, values = np.zeros(32, np.int32), np.linspace(0, 1, 32)
    heard: list[str] = []
    trace = launch("prints", [out, values, 2], arch, options, printer=heard.append)
    start = 0x7F0000400000 if options or len(cubin(arch).global_sections) else 0
    lines = trace.printed.splitlines()
    assert re.fullmatch(r"0 of 32: 0\.000000 0\.00e\+00 text x 0x7f[0-9a-f]{10} 0 %", lines[0]), start
    assert lines[1].startswith("1 of 32: 0.032258 6.45e-02 text y 0x7f")
    assert lines[1].endswith(" 200000000 %")
    assert lines[2:] == ["hello"] * 32 + [f"{t} {-t}" for t in range(32)]
    assert "".join(heard) == trace.printed
    assert out.tolist() == [20] * 32  # printf gives the number of its arguments
    assert gpuemu.run(trace, gpuemu.load_arch(arch)).printed == trace.printed


@pytest.mark.slow
def test_a_printf_that_is_not_reached_does_no_harm() -> None:
    out = np.zeros(32, np.int32)
    assert launch("unprinted", [out, 7]).printed == ""
    assert out.tolist() == [7] * 32


@pytest.mark.parametrize("options", [(), ("-G",)])
@pytest.mark.parametrize("arch", ARCHS)
def test_an_assertion_that_fails_is_told_with_its_words_and_place(arch: str, options: tuple[str, ...]) -> None:
    values = np.full(64, 9, np.int32)
    launch("asserts", [np.zeros(64, np.int32), values, 3], arch, options, block=(64, 1, 1))
    values[40] = 2
    problem = refusal("asserts", [np.zeros(64, np.int32), values, 3], arch=arch, options=options, block=(64, 1, 1))
    assert "the failed assertion 'in[t] > n && \"too small\"' in " in problem.found
    assert "system.cu:14, " in problem.found
    assert "CTA 0, warp 1, lane 8, thread (40, 0, 0)" in problem.field


def test_a_trap_is_told_with_its_place() -> None:
    values = np.arange(32, dtype=np.int32)
    launch("traps", [np.zeros(32, np.int32), values, 0])
    problem = refusal("traps", [np.zeros(32, np.int32), values, 1])
    assert (problem.found, problem.line) == ("a trap", 19)
    assert "BPT.TRAP" in problem.field


@pytest.mark.parametrize("options", [(), ("-G",)])
@pytest.mark.parametrize("arch", ARCHS)
def test_malloc_gives_memory_and_free_takes_it_back(arch: str, options: tuple[str, ...]) -> None:
    out = np.zeros(64, np.int32)
    launch("allocates", [out, 5], arch, options, block=(32, 1, 1), grid=(2, 1, 1))
    assert out[:32].tolist() == [10 * t for t in range(32)]


def test_a_full_heap_gives_null_and_what_malloc_did_not_give_cannot_be_freed() -> None:
    out = np.zeros(41, np.int32)
    launch("exhausts", [out], block=(41, 1, 1))
    assert out.tolist() == [1] * 8 + [0] * 33
    problem = refusal("exhausts", [np.zeros(42, np.int32)], block=(42, 1, 1))
    assert re.match(r"free of 0x10$", problem.found)
    assert refusal("frees_twice", [], block=(1, 1, 1)).found.startswith("free of 0x7f")


def test_a_stack_is_as_large_as_asked_for_and_its_end_is_told() -> None:
    out, values = np.zeros(32, np.int32), np.arange(8, dtype=np.int32)
    problem = refusal("recurses", [out, values, 40])
    assert "of local memory" in problem.found
    assert problem.right == "a lane has 1024 bytes of local memory"
    launch("recurses", [out, values, 40], stack_bytes=16384)
    assert out.tolist() == [sum((n + (n & 7)) & 7 for n in range(1, 41))] * 32


def test_a_stack_starts_where_wide_variables_are_aligned() -> None:
    out, values = np.zeros((5, 4), np.float32), np.arange(20, dtype=np.float32).reshape(5, 4)
    launch("wide_locals", [out, values, 7], block=(5, 1, 1), stack_bytes=1032)
    assert (out == values).all()


def test_a_word_that_only_a_driver_knows_is_refused_by_name() -> None:
    problem = refusal("number_of_sms", [np.zeros(1, np.uint32)])
    assert re.match(r"number_of_sms\+0x00[0-9a-f]{2}$", problem.field)
    assert problem.found.endswith("c[0x0][0x10c], a word of the driver's")


@pytest.mark.slow
def test_the_command_prints_to_stderr(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpuemu", "run", str(SOURCE), "--kernel", "prints", "--block", "1", "--format", "json",
         "--arg", "zeros:i32:1", "--arg", "zeros:f64:1", "--arg", "0"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == "hello\n0 0\n"
    assert done.stdout.startswith("{")


@pytest.mark.parametrize(
    ("form", "values", "text"),
    [
        ("plain", [], "plain"),
        ("100%%", [], "100%"),
        ("[%5d|%-5d|%05d|%+d|% d]", [42, 42, 42, 42, 42], "[   42|42   |00042|+42| 42]"),
        ("[%.3d|%5.2d|%.0d|%hhd|%hd]", [7, 7, 0, 300, 70000], "[007|   07||44|4464]"),
        ("[%u|%x|%X|%#x|%o|%#o]", [-1, 255, 255, 255, 8, 8], "[4294967295|ff|FF|0xff|10|010]"),
        ("[%ld|%lld|%lu|%zx]", [1 << 40, -(1 << 40), 1 << 63, 1 << 36], "[1099511627776|-1099511627776|9223372036854775808|1000000000]"),
        ("[%f|%.2f|%8.3f|%-8.1f|%08.2f]", [1.5, 2.345, 3.14159, 2.5, -3.5], "[1.500000|2.35|   3.142|2.5     |-0003.50]"),
        ("[%e|%G|%g|%#g]", [12345.678, 1e-10, 100000.0, 1.0], "[1.234568e+04|1E-10|100000|1.00000]"),
        ("[%f|%5f|%05f|%F]", [float("inf"), float("-inf"), float("nan"), float("inf")], "[inf| -inf|  nan|INF]"),
        ("[%a|%A]", [1.5, 0.1], "[0x1.8p+0|0X1.999999999999AP-4]"),
        ("[%c%c|%3c]", [72, 105, 33], "[Hi|  !]"),
        ("[%*d|%-*d|%.*f]", [5, 7, 5, 7, 2, 2.71828], "[    7|7    |2.72]"),
        ("[%p|%p|%10p]", [0, 0x7F00, 255], "[(nil)|0x7f00|      0xff]"),
        ("[%s|%8s|%-8s|%.2s|%s]", [1, 2, 3, 4, 0], "[str1|    str2|str3    |st|(null)]"),
    ],
)  # fmt: skip
def test_a_format_is_converted_as_c_does(form: str, values: list[Any], text: str) -> None:
    layout = parse_format(form)
    data = bytearray()
    wide = [
        bool(re.match(r"(?:l|ll|z)[a-z]|[pseEfFgGaA]", end))
        for end in re.findall(r"%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?((?:hh|h|ll|l|z)?[a-zA-Z%])", form)
        if end != "%"
    ]
    stars = [m.count("*") for m in re.findall(r"%[^a-zA-Z%]*[a-zA-Z%]", form) if not m.endswith("%%")]
    wide = [flag for n, last in zip(stars, wide, strict=False) for flag in (*[False] * n, last)] if any(stars) else wide
    for value, is_wide in zip(values, wide, strict=True):
        size = 8 if is_wide else 4
        data += bytes(-len(data) % size)
        data += (
            np.float64(value).tobytes()
            if isinstance(value, float)
            else int(value % (1 << 8 * size)).to_bytes(size, "little")
        )
    assert layout.argument_bytes == len(data)
    assert layout.arguments == len(values)
    assert layout.text(bytes(data), lambda address: f"str{address}") == text


@pytest.mark.parametrize("form", ["%", "%d %", "%k", "%n", "%l"])
def test_a_format_that_is_none_is_refused(form: str) -> None:
    with pytest.raises(FormatError):
        parse_format(form)
