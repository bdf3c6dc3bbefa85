"""check says of each tool whether it had anything to look at."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import gpuemu
from gpuemu.cli.main import cli

NO_BUFFERS = "a trace has no buffers to hold addresses against: the kernel itself, a .cu or .cubin, has them"
NO_VALUES = "a trace does not have what was written before: the kernel itself, a .cu or .cubin, has them"
IN_STEP = "its CTAs have one warp, whose lanes are taken to go in step in a trace"
KERNELS = {
    "nothing": "__global__ void k(int *o) { }",
    "stores": "__global__ void k(int *o) { o[threadIdx.x] = threadIdx.x; }",
    "shared": "__global__ void k(int *o) { __shared__ int s[32]; s[threadIdx.x] = 1; __syncthreads();"
    " o[threadIdx.x] = s[31 - threadIdx.x]; }",
}
NO_WAIT = "nothing that executed waits for other threads"
NO_READ = "no shared or local memory is read, and every buffer came with values (--arg empty:TYPE:SIZE has none)"
NO_ACCESS = "nothing that executed accesses memory"


@pytest.mark.parametrize(
    ("trace", "idle"),
    [
        ("v2_shared_memory", {"memcheck": NO_BUFFERS, "racecheck": IN_STEP, "initcheck": NO_VALUES}),
        ("matmul_v4", {"memcheck": NO_BUFFERS, "initcheck": NO_VALUES}),
    ],
)
def test_of_a_trace(trace: str, idle: dict[str, str]) -> None:
    report = gpuemu.check(trace)
    assert report.idle == idle
    assert report.ran == [tool for tool in report.tools if tool not in idle]
    assert gpuemu.check(trace, tools=["memcheck"]).idle == {"memcheck": NO_BUFFERS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "threads", "idle"),
    [
        ("nothing", 32, {"memcheck": NO_ACCESS, "racecheck": NO_ACCESS, "synccheck": NO_WAIT, "initcheck": NO_READ}),
        ("stores", 32, {"synccheck": NO_WAIT, "initcheck": NO_READ}),
        ("stores", 1, {"racecheck": "the launch has one thread", "synccheck": NO_WAIT, "initcheck": NO_READ}),
        ("shared", 32, {}),
    ],
)
def test_of_a_kernel(kernel: str, threads: int, idle: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(f'extern "C" {KERNELS[kernel]}')
    report = gpuemu.check(tmp_path / "k.cu", block=(threads, 1, 1), args=[np.zeros(32, np.int32)])
    assert report.idle == idle
    empty = gpuemu.check(tmp_path / "k.cu", block=(threads, 1, 1), args=[gpuemu.empty(32, np.int32)])
    assert "initcheck" not in empty.idle


def test_text_json_and_sarif_say_it() -> None:
    def said(*words: str) -> str:
        ran = CliRunner().invoke(cli, ["check", "v2_shared_memory", *words])
        assert ran.exit_code == 0
        return ran.stdout

    first, _, *notes, last = said().splitlines()
    assert first == "v2_shared_memory on sm_89: synccheck, controlcheck"
    sentences = [
        f"{tool} had nothing to look at: {why}"
        for tool, why in (("memcheck", NO_BUFFERS), ("racecheck", IN_STEP), ("initcheck", NO_VALUES))
    ]
    assert notes == [f"note: {sentence}" for sentence in sentences]
    assert last == "nothing found"
    data = json.loads(said("--format", "json"))
    assert data["ran"] == ["synccheck", "controlcheck"]
    assert data["idle"] == {"memcheck": NO_BUFFERS, "racecheck": IN_STEP, "initcheck": NO_VALUES}
    (run,) = json.loads(said("--format", "sarif"))["runs"]
    (invocation,) = run["invocations"]
    assert [n["message"]["text"] for n in invocation["toolExecutionNotifications"]] == sentences
    assert said("--tool", "memcheck").startswith("v2_shared_memory on sm_89: no tool has anything to look at\n")
