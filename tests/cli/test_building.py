"""Compiler options, expected results and CTAs to execute on the command line; and the tables of layouts and fragments."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from gpuemu.base.errors import GpuemuError
from gpuemu.cli.main import cli
from gpuemu.sass.tools.toolchain import compile_cuda

SOURCE = """
#include "factor.h"
extern "C" __global__ void scale(float* x) { x[32 * blockIdx.x + threadIdx.x] = FACTOR * OTHER * threadIdx.x; }
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("k.cu").write_text(SOURCE)
    Path("inc").mkdir()
    Path("inc/factor.h").write_text("#define FACTOR 3\n")
    np.save("six.npy", np.tile(6 * np.arange(32, dtype=np.float32), 2))
    return "k.cu"


LAUNCH = ("-I", "inc", "-D", "OTHER=2", "--grid", "2", "--arg", "zeros:f32:64")


@pytest.mark.slow
def test_macros_and_folders_go_to_the_compiler_and_results_are_compared(kernel: str) -> None:
    ran = run("run", kernel, *LAUNCH, "--expect", "0=six.npy")
    assert (ran.exit_code, ran.stderr) == (
        0,
        "--expect 0=six.npy: all 64 numbers are the same; gpuemu check looks for races\n",
    )
    ran = run("run", kernel, "-I", "inc", "--nvcc-flag", "-DOTHER=5", *LAUNCH[4:], "--expect", "0=six.npy")
    assert ran.exit_code == 1
    assert "--expect 0=six.npy: 62 of 64 numbers differ, the first at 1: 15.0 for 6.0" in ran.stderr
    near = np.load("six.npy")
    near[40] += 1
    np.save("near.npy", near)
    assert run("run", kernel, *LAUNCH, "--expect", "0=near.npy").exit_code == 1
    ran = run("run", kernel, *LAUNCH, "--expect", "0=near.npy", "--tolerance", "0.01")
    assert ran.exit_code == 0
    assert (
        ran.stderr
        == "--expect 0=near.npy: all 64 numbers are the same within 0.01 of the largest; gpuemu check looks for races\n"
    )
    assert run("trace", kernel, *LAUNCH, "--expect", "0=near.npy", "-o", "t.yaml").exit_code == 1


@pytest.mark.slow
def test_only_the_ctas_that_are_timed_execute_on_request(kernel: str) -> None:
    for execute, left in (("all", 62), ("timed", 31)):
        ran = run("run", kernel, *LAUNCH, "--cta", "1", "--execute", execute, "--save", "0=out.npy")
        assert ran.exit_code == 0, ran.stderr
        assert np.count_nonzero(np.load("out.npy")) == left


def refusal(*arguments: str) -> str:
    with pytest.raises(GpuemuError) as caught:
        CliRunner().invoke(cli, arguments, catch_exceptions=False, standalone_mode=False)
    return str(caught.value)


@pytest.mark.slow
def test_a_fault_names_the_source_as_the_command_line_does(kernel: str) -> None:
    said = refusal("run", kernel, *LAUNCH[:-1], "zeros:f32:32")
    assert said.startswith("k.cu:3: scale at 0x")


@pytest.mark.slow
def test_what_is_wrong_with_these_options_is_said(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("k.cubin").write_bytes(compile_cuda("k.cu", "sm_89", "nvrtc", ("-Iinc", "-DOTHER=1")))
    timed = refusal("run", kernel, *LAUNCH, "--expect", "0=six.npy", "--execute", "timed")
    assert timed.startswith("--expect: --execute timed leaves out what the other CTAs")
    assert "machine code takes no options for a compiler (-DA)" in refusal("run", "k.cubin", "-D", "A")
    assert "'1=six.npy'" in refusal("run", kernel, *LAUNCH, "--expect", "1=six.npy")
    np.save("few.npy", np.zeros(3, np.float32))
    assert "3 numbers for the 64 of argument 0" in refusal("run", kernel, *LAUNCH, "--expect", "0=few.npy")
    monkeypatch.setenv("PATH", str(Path.cwd()))
    Path("k.ptx").write_text(".version 8.0\n")
    assert "PTX needs ptxas to become machine code, and there is no ptxas" in refusal("run", "k.ptx")


@pytest.mark.slow
def test_ptx_is_assembled_where_ptxas_is(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("made.cubin").write_bytes(compile_cuda("k.cu", "sm_89", "nvrtc", ("-Iinc", "-DOTHER=2")))
    script = Path("bin/ptxas")
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nwhile [ "$1" != "-o" ]; do shift; done\ncp {Path.cwd()}/made.cubin "$2"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{script.parent.resolve()}{os.pathsep}{os.environ['PATH']}")
    Path("k.ptx").write_text(".version 8.0\n")
    assert run("run", "k.ptx", *LAUNCH[4:], "--expect", "0=six.npy").exit_code == 0


IN_A_HEADER = """
#include "kernels/halved.cuh"
template __global__ void halved<16>(int, float, float *);
"""
HALVED = """
template <int ROWS> __global__ void halved(int n, float factor, float *x) {
    x[threadIdx.x] = factor * n; // the line
}
__global__ void whole(float *x, uint n, double factor) { x[threadIdx.x] = n * factor; }
"""


@pytest.fixture
def in_a_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project whose kernels stand in a header, and beside it a folder of the user's own with a source that asks for one."""
    monkeypatch.chdir(tmp_path)
    Path("project/kernels").mkdir(parents=True)
    Path("project/kernels/halved.cuh").write_text(HALVED)
    Path("own").mkdir()
    Path("own/k.cu").write_text(IN_A_HEADER)


def lines(*arguments: str) -> dict[str, str]:
    ran = run("run", *arguments, "--page", "source", "--by", "line", "--format", "json")
    assert ran.exit_code == 0, ran.stderr
    return {row["Place"]: row["Source"] for row in json.loads(ran.stdout)}


@pytest.mark.slow
def test_the_text_of_a_kernel_in_a_header_below_an_included_folder_is_found(in_a_header: None) -> None:
    launch = ("own/k.cu", "-I", "project", "--kernel", "halved", "--arg", "4", "--arg", "1", "--arg", "zeros:f32:32")
    assert lines(*launch)["halved.cuh:3"] == "    x[threadIdx.x] = factor * n; // the line"
    assert run("trace", *launch, "--with-source", "-o", "t.yaml").exit_code == 0
    Path("project/kernels/halved.cuh").write_text("")
    assert lines("t.yaml")["halved.cuh:3"] == "    x[threadIdx.x] = factor * n; // the line"


@pytest.mark.slow
def test_the_text_of_another_file_of_that_name_is_not_taken_for_it(in_a_header: None) -> None:
    Path("own/halved.cuh").write_text("// another\n" * 9)
    launch = ("own/k.cu", "-I", "project", "--kernel", "halved", "--arg", "4", "--arg", "1", "--arg", "zeros:f32:32")
    assert lines(*launch)["halved.cuh:3"] == "    x[threadIdx.x] = factor * n; // the line"


@pytest.mark.slow
def test_a_header_with_a_kernel_is_compiled_as_it_is(in_a_header: None) -> None:
    header = "project/kernels/halved.cuh"
    np.save("ten.npy", np.full(32, 10, np.float32))
    given = ("--arg", "zeros:f32:32", "--arg", "5", "--arg", "2")
    assert run("run", header, *given, "--expect", "0=ten.npy").exit_code == 0
    assert run("check", header, *given).exit_code == 0
    said = "--arg: whole needs 3 arguments, of 8, 4 (unsigned), 8 (double) bytes"
    assert said in refusal("run", header)
    assert "found 2 arguments, expected 3, of 8, 4 (unsigned), 8 (double) bytes" in refusal("run", header, *given[:4])


def table(*arguments: str) -> list[dict[str, Any]]:
    ran = run("layout", *arguments, "--format", "json")
    assert ran.exit_code == 0, ran.stderr
    threads: list[dict[str, Any]] = json.loads(ran.stdout)["threads"]
    return threads


def test_a_swizzle_in_either_unit_is_the_same_table() -> None:
    found = [table(name, "--tile", "16x16:f16") for name in ("Swizzle<1,3,3>", "Swizzle<1,4,3>:bytes")]
    assert found[0] == found[1]
    assert [row["address"] // 16 for row in found[0][:16]] == [*range(8), 9, 8, 11, 10, 13, 12, 15, 14]
    text = run("layout", "Swizzle<1,3,3>", "--tile", "16x16:f16", "--binary").stdout
    assert ["8", "4", "0", "128", "144", "4", "010000000", "->", "010010000"] in [
        line.split() for line in text.splitlines()
    ]
    assert all(line == line.rstrip() for line in text.splitlines())


def test_numbers_in_another_order_are_refused_with_the_name_that_is_right() -> None:
    said = refusal("layout", "swizzle<3,1,4>:bytes", "--tile", "16x16:f16")
    assert "did you mean Swizzle<1,4,3>:bytes?" in said


def test_the_picture_comes_alone_where_that_is_asked_for() -> None:
    whole = run("layout", "Swizzle<3,3,3>", "--tile", "64x64:f16").stdout
    alone = run("layout", "Swizzle<3,3,3>", "--tile", "64x64:f16", "--picture").stdout
    head, _, rest = whole.partition("\n\n")
    picture = rest[rest.index("The first bank of each thread's part") :]
    assert alone == f"{head}\n\n{picture}"
    assert len(whole.splitlines()) - len(alone.splitlines()) == 1 + 512 + 1
    said = refusal("layout", "virtual:4", "--tile", "8x32:f32", "--picture")
    assert "--picture: found 'virtual:4'" in said


def test_paddings_and_virtual_threads_have_tables_too() -> None:
    assert [row["bank"] for row in table("pad:8", "--tile", "8x32:f16")[::4]] == [0, 20, 8, 28, 16, 4, 24, 12]
    assert [row["column"] for row in table("virtual:4/256", "--tile", "8x32:f32", "--vector", "1")[:4]] == [0, 4, 8, 12]
    assert [row["bank"] for row in table("diagonal:1", "--tile", "4x8:f32", "--vector", "1")[8:16]] == [
        *range(9, 16),
        8,
    ]
    assert [row["bank"] for row in table("diagonal:2/2", "--tile", "4x8:f32", "--vector", "1")[8:10]] == [8, 9]
    assert run("layout", "plain", "--tile", "16x16:f16", "--format", "svg").stdout.startswith("<svg")
    for name in ("Swizzle<3,1>", "Swizzle<0,3,3>", "pad:x", "virtual:3/32", "diagonal:16", "diagonal:1/3"):
        assert ", expected " in refusal("layout", name, "--tile", "16x16:f16")


def test_fragments_say_which_lane_holds_what() -> None:
    text = run("fragment", "LDSM.4").stdout
    assert "matrix 2, register 2: its rows at the addresses of lanes 16 to 23" in text
    assert "\n  5  20.2  20.2  21.2  21.2  22.2  22.2  23.2  23.2\n" in text
    transposed = run("fragment", "LDSM.T.4").stdout
    assert "\n  0  0.0  4.0   8.0  12.0  16.0  20.0  24.0  28.0\n" in transposed
    product = run("fragment", "HMMA.16816.F32").stdout
    assert "A, 16x16, 4 registers of 2 elements" in product
    assert product == run("fragment", "m16n8k16.f32.f16").stdout.replace("m16n8k16.f32.f16:", "HMMA.16816.F32:", 1)
    assert "unknown instruction 'HMA.16816'" in refusal("fragment", "HMA.16816")
    assert "'IADD3'" in refusal("fragment", "IADD3")


def test_fragments_have_the_banks_of_each_lanes_words() -> None:
    padded = run("fragment", "LDSM.4", "--pitch", "32", "--layout", "pad:8").stdout
    rows = [line.split()[3:] for line in padded.splitlines() if " to " in line]
    starts = [0, 20, 8, 28, 16, 4, 24, 12]  # the published table: 20 banks from row to row
    assert [[int(bank) for bank in row[:4]] for row in rows] == [[s + t for t in range(4)] for s in starts]
    assert [[int(bank) for bank in row[4:8]] for row in rows] == [[s + t for t in range(4)] for s in starts]
    assert [[int(bank) for bank in row[8:12]] for row in rows] == [[(s + 4 + t) % 32 for t in range(4)] for s in starts]
    assert "LDSM.4: 4 wavefronts" in padded
    assert "LDSM.4: 16 wavefronts" in run("fragment", "LDSM.4", "--pitch", "32").stdout
    swizzled = run("fragment", "LDSM.4", "--pitch", "32", "--layout", "Swizzle<2,3,3>").stdout
    assert "LDSM.4: 4 wavefronts" in swizzled
    product = run("fragment", "HMMA.16816.F32", "--pitch", "32").stdout
    assert "A, 16x16\n" in product
    assert "LDS.32: 4 + 4 + 4 + 4 = 16 wavefronts" in product
    assert "B, 16x8, a row of the tile for each column\n" in product
    assert "LDS.32: 8 + 8 = 16 wavefronts" in run("fragment", "IMMA.16832.S8.S8", "--pitch", "128").stdout
    assert "4 + 4 + 4 + 4 = 16" not in run("fragment", "HMMA.16816.F32", "--pitch", "32", "--layout", "pad:8").stdout


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("--pitch", "8"), "--pitch: found 8"),
        (("--pitch", "17"), "expected a multiple of 4 of at least 0, for an access of 4 bytes"),
        (("--pitch", "32", "--layout", "Swizzle<1,0,5>"), "expected a layout that keeps 2 elements together"),
        (("--layout", "pad:8"), "Add --pitch with the elements of a row"),
    ],
)
def test_banks_of_fragments_refuse_tiles_that_do_not_hold_them(arguments: tuple[str, ...], found: str) -> None:
    assert found in refusal("fragment", "HMMA.16816.F32", *arguments)
