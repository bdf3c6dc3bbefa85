"""`gpuemu trace`, and `gpuemu run` on machine code, as a person uses them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gpuemu
from gpuemu.cli.kernel_arguments import parse_argument
from gpuemu.sass.tools.disassembly import load_cubin

SOURCES = Path(__file__).resolve().parents[2] / "traces" / "src"


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuemu", *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_a_source_becomes_a_trace_that_runs(tmp_path: Path) -> None:
    source = str(SOURCES / "v5_swizzle.cu")
    done = command(
        "trace", source, "--kernel", "v5_swizzle", "--arch", "sm_89", "--block", "32", "-o", "v5.yaml", cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "no --arg: each pointer gets a buffer of 1 MiB of zeros\n")
    assert done.stdout == "v5.yaml: v5_swizzle, 54 warp instructions of 1 warps\n"
    recorded = gpuemu.run(gpuemu.load_trace(tmp_path / "v5.yaml"), gpuemu.load_arch("sm_89"))
    shipped = gpuemu.run(gpuemu.load_trace("v5_swizzle"), gpuemu.load_arch("sm_89"))
    assert recorded.cycles == shipped.cycles
    assert recorded.counters == shipped.counters


def test_a_cubin_runs_with_arguments_and_gives_its_results_back(tmp_path: Path) -> None:
    (tmp_path / "k.cubin").write_bytes(load_cubin(str(SOURCES / "virtual_threads.cu"), "sm_90").content)
    tile = np.arange(1024, dtype=np.float32).reshape(32, 32)
    np.save(tmp_path / "in.npy", tile)
    options = ("--kernel", "transpose_plain", "--block", "1024", "--arg", "file:in.npy", "--arg", "zeros:f32:32x32")
    done = command("run", "k.cubin", *options, "--save", "1=out.npy", "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["arch"], result["trace_arch"], len(result["warps"])) == ("sm_90", "sm_90", 32)
    assert result["counters"]["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"] == 31 * 32
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), tile.T.ravel())
    np.testing.assert_array_equal(np.load(tmp_path / "in.npy"), tile)


def test_the_executor_tells_what_it_has_executed() -> None:
    counts: list[Callable[[], int]] = []
    trace = gpuemu.trace_kernel(
        str(SOURCES / "virtual_threads.cu"), "reduction_plain", grid=(2, 1, 1), block=(256, 1, 1), arch="sm_89",
        args=[np.ones(512, np.float32), np.zeros(2, np.float32)], watch=counts.append,
    )  # fmt: skip
    assert len(trace.warps) == 16
    assert [count() for count in counts] == [trace.executed_instructions]


def test_a_fault_stops_the_run_and_writes_nothing(tmp_path: Path) -> None:
    source = str(Path(__file__).parents[1] / "sass" / "kernels" / "faults.cu")
    options = ("--kernel", "past_the_end", "--arg", "zeros:f32:32", "--arg", "zeros:f32:16", "--arg", "0")
    done = command("trace", source, *options, "--save", "0=out.npy", "-o", "t.yaml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "faults.cu:5: past_the_end at 0x" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("run", "nosuch.cubin"),
            "nosuch.cubin: found a file that cannot be read (No such file or directory); a cubin is right\n",
        ),
        (("run", "v5_swizzle", "--block", "64"), "v5_swizzle: found a trace with --block; a .cubin or .cu takes them"),
        (("trace", "x.ptx", "-o", "t.yaml"), "x.ptx: found a file of another kind; a .cu or .cubin file is right\n"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = command(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)


def test_arguments_are_read_as_written() -> None:
    assert parse_argument("64") == 64
    assert parse_argument("-0x10") == -16
    assert parse_argument("1.5") == 1.5
    np.testing.assert_array_equal(parse_argument("zeros:u32:4x2"), np.zeros(8, np.uint32))
    np.testing.assert_array_equal(parse_argument("arange:i16:3"), np.arange(3, dtype=np.int16))
    assert parse_argument("random:f16:5").dtype == np.float16
    np.testing.assert_array_equal(parse_argument("random:u8:9"), parse_argument("random:u8:9"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "zeros:u33:4",
            "--arg: found the type 'u33' in 'zeros:u33:4'; one of u8, u16, u32, u64, i8, i16, i32, i64, f16, f32, f64 is right",
        ),
        (
            "ones:f32:0",
            "--arg: found the size '0' in 'ones:f32:0'; a number of elements such as 16384 or 128x64 is right",
        ),
        ("file:nosuch.npy", "nosuch.npy: found no such file; a .npy file of numbers is right"),
        ("what", "--arg: found 'what'; a number, zeros:u32:16384 or file:in.npy is right"),
    ],
)
def test_an_argument_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(gpuemu.GpuemuError) as caught:
        parse_argument(text)
    assert str(caught.value) == message
