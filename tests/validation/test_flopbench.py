"""Programs of the RTX 3080 set: compiled with the stand-in for the CUDA runtime, launched and timed, without a GPU."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.machine.memory.storage import Device
from validation.__main__ import main
from validation.flopbench.compiling import Compiler, compiled
from validation.flopbench.score import CHIP, architecture

PROGRAM = Path(__file__).with_name("flopbench_program.cu")
TENSOR_MAP = Path(__file__).with_name("tensor_map_program.cu")
COLUMNS = "targetName,kernelName,Grid Size,Block Size,exeArgs,xtime"
ROWS = (
    'own-cuda,scaled,"(2, 1, 1)","(128, 1, 1)",200,4000',
    'own-cuda,scaled,"(2, 1, 1)","(64, 1, 1)",200,4000',
    'own-cuda,last,"(1, 1, 1)","(32, 1, 1)",200,4000',
    'own-cuda,last,"(1, 1, 1)","(32, 1, 1)",200,9000000',
    'own-cuda,never,"(1, 1, 1)","(32, 1, 1)",200,4000',
    'own-cuda,large,"(69, 1, 1)","(32, 1, 1)",200,4000',
    'gone-cuda,never,"(1, 1, 1)","(32, 1, 1)",,4000',
)


def sources(folder: Path) -> None:
    """A folder like that of the set, with one program."""
    (folder / "src" / "own-cuda").mkdir(parents=True)
    shutil.copy(PROGRAM, folder / "src" / "own-cuda" / "main.cu")
    (folder / "cuda-profiling").mkdir()
    command = "clang++ -I/there/src/own-cuda -O3 -std=gnu++14 -x cuda -c main.cu"
    entry = {"file": "/there/src/own-cuda/main.cu", "command": command}
    (folder / "cuda-profiling" / "compile_commands.json").write_text(json.dumps([entry]))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="host code needs nvcc")
def test_launches_of_a_program_are_timed_and_those_left_out_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources(tmp_path)
    (tmp_path / "cuda-profiling" / "profiling-data.csv").write_text("\n".join((COLUMNS, *ROWS)))
    assert main(["flopbench", str(tmp_path), "--table"]) == 0
    told = re.sub(r" +", " ", re.sub(r"emulated +[\d.]+ us|[+-][\d.]+%|[\d.]+ %,? ?", "E", capsys.readouterr().out))
    lines = [line for line in told.splitlines() if line]
    assert lines[0].startswith("own scaled 2 CTAs E measured 4.00 us E")
    assert "launched with a grid of (2, 1, 1) and blocks of (128, 1, 1) here" in lines[1]
    assert lines[2].startswith("own last 1 CTAs E measured 4.00 us E")
    assert "left out: more than 5000 us measured" in lines[3]
    assert lines[4].endswith("left out: not launched")
    assert lines[5].endswith("left out: no file of it in cuda-profiling/compile_commands.json")
    table = lines[6:]
    assert [line.split(" |")[:4] for line in table[2:4]] == [
        ["| own", " last", " 1", " 1"],
        ["| own", " scaled", " 2", " 1"],
    ]
    assert "too long on the GPU (1)" in table[4]
    assert table[5].startswith("2 of 6 launches of 1 of 2 programs; mean error")


def test_the_chip_runs_at_its_base_clock_and_dram_at_its_own() -> None:
    usual, arch = gpuemu.load_arch("sm_86").chips[CHIP], architecture()
    chip = arch.chips[CHIP]
    assert (arch.chip, chip.clock_mhz) == (CHIP, usual.base_clock_mhz)
    assert usual.dram_bytes_per_cycle is not None
    assert chip.dram_bytes_per_cycle is not None
    assert chip.dram_bytes_per_cycle * chip.clock_mhz == pytest.approx(
        usual.dram_bytes_per_cycle * usual.clock_mhz, rel=1e-3
    )


@pytest.mark.slow
def test_with_all_caches_flushed_the_first_access_of_a_launch_waits_for_its_address(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("""
        extern "C" __global__ void one(int *out) { out[threadIdx.x] += 1; }
        extern "C" __global__ void none(int *out) {}
    """)
    more = []
    for name, first_touch in (("one", "dram"), ("one", "l2"), ("none", "dram")):
        trace = gpuemu.trace_kernel(source, name, 1, 32, 0, [np.zeros(32, np.int32)], arch="sm_86")
        arch = architecture().with_overrides({"global_memory.first_touch": first_touch})
        without = arch.with_overrides({f"chips.{CHIP}.page_walk_cycles": 0})
        more.append(gpuemu.run(trace, arch).on_the_chip().elapsed - gpuemu.run(trace, without).on_the_chip().elapsed)
    assert more == [arch.chips[CHIP].page_walk_cycles, 0, 0]


@pytest.mark.parametrize(
    ("cuda", "flags"),
    [(None, {"-arch=sm_86"}), (Path("/cuda"), {"--cuda-path=/cuda", "-std=gnu++14", "-lcudart_static"})],
)
def test_a_program_is_compiled_by_nvcc_or_as_it_was_measured(
    tmp_path: Path, cuda: Path | None, flags: set[str]
) -> None:
    told = tmp_path / "told"
    fake = tmp_path / "compiler"
    fake.write_text(f"#!/bin/sh\necho $@ >> {told}\n")
    fake.chmod(0o755)
    sources(tmp_path)
    compiled(tmp_path, "own-cuda", tmp_path / "built", Compiler(str(fake), cuda))
    lines = told.read_text().splitlines()
    assert flags <= set(told.read_text().split())
    assert ("-std=gnu++14" in lines[0]) == ("-std=c++17" not in lines[0])
    assert [line.split()[-1] for line in lines][-1].endswith("built/own-cuda")
    assert f"-I{tmp_path}/src/own-cuda" in lines[0]


@pytest.mark.slow
def test_a_launch_finds_memory_and_variables_where_earlier_ones_left_them(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("""
        __device__ int calls; __constant__ int step;
        extern "C" __global__ void k(int **rows) { calls += step; rows[1][threadIdx.x] = calls; }
    """)
    rows, data = np.array([0, 0x7000_0040_0000], np.uint64), np.zeros(32, np.int32)
    sections = {".nv.global": np.zeros(4, np.uint8), ".nv.constant3": np.array([3, 0, 0, 0], np.uint8)}
    arrays = {0x7000_0040_0000: data.view(np.uint8), 0x7000_0000_0000: rows.view(np.uint8)}
    for turn in (1, 2):
        gpuemu.trace_kernel(
            source, "k", 1, 32, 0, [(0x7000_0000_0000).to_bytes(8, "little")], arch="sm_86",
            device=Device(arrays, sections),
        )  # fmt: skip
        assert data.tolist() == [3 * turn] * 32


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="host code needs nvcc")
def test_a_structure_with_a_tensor_map_goes_from_a_program_into_a_kernel(tmp_path: Path) -> None:
    program, told = tmp_path / "program", tmp_path / "launches.json"
    built = ["nvcc", "-arch=sm_90a", "-std=c++17", "-w", str(TENSOR_MAP), "-o", str(program)]
    subprocess.run(built, check=True, capture_output=True)
    command = [sys.executable, "-m", "gpuemu", "exec", "--format", "json", "-o", str(told), "--", str(program)]
    subprocess.run(command, check=True)
    (launch,) = json.loads(told.read_text())["launches"]
    assert launch["values"] == "executed"
    assert launch["elapsed_cycles"] < 7000, "the wait's limit of 10 ms is not slept"
