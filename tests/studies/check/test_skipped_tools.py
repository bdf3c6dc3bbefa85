"""check says of each tool whether it had anything to look at."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import gpuemu
from gpuemu.cli.main import cli
from gpuemu.studies.check.check_text import lines

NO_VALUES = "a trace has no buffers or values; check the .cu or .cubin instead"
IN_STEP = "one warp per CTA, whose lanes run in lockstep in a trace"
KERNELS = {
    "nothing": "__global__ void k(int *o) { }",
    "stores": "__global__ void k(int *o) { o[threadIdx.x] = threadIdx.x; }",
    "shared": "__global__ void k(int *o) { __shared__ int s[32]; s[threadIdx.x] = 1; __syncthreads();"
    " o[threadIdx.x] = s[31 - threadIdx.x]; }",
}
NO_WAIT = "the kernel waits for no other threads"
NO_READ = "the kernel reads no shared or local memory, and all buffers have values; --arg empty:TYPE:SIZE has none"
NO_ACCESS = "the kernel accesses no memory"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trace", "idle"),
    [
        ("v2_shared_memory", {"memcheck": NO_VALUES, "racecheck": IN_STEP, "initcheck": NO_VALUES}),
        ("matmul_v4", {"memcheck": NO_VALUES, "initcheck": NO_VALUES}),
    ],
)
def test_of_a_trace(trace: str, idle: dict[str, str]) -> None:
    report = gpuemu.check(trace)
    assert report.idle == idle
    assert report.ran == [tool for tool in report.tools if tool not in idle]
    assert gpuemu.check(trace, tools=["memcheck"]).idle == {"memcheck": NO_VALUES}


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

    verdict, *told = said().splitlines()
    assert verdict == "v2_shared_memory on sm_89: no errors"
    skipped = f"Skipped memcheck and initcheck ({NO_VALUES}) and racecheck ({IN_STEP})."
    assert " ".join(told) == f"Ran synccheck, controlcheck. {skipped}"
    data = json.loads(said("--format", "json"))
    assert data["ran"] == ["synccheck", "controlcheck"]
    assert data["idle"] == {"memcheck": NO_VALUES, "racecheck": IN_STEP, "initcheck": NO_VALUES}
    (run,) = json.loads(said("--format", "sarif"))["runs"]
    (invocation,) = run["invocations"]
    assert [n["message"]["text"] for n in invocation["toolExecutionNotifications"]] == [
        f"memcheck and initcheck skipped: {NO_VALUES}", f"racecheck skipped: {IN_STEP}",
    ]  # fmt: skip
    unchecked = said("--tool", "memcheck")
    assert unchecked.startswith("v2_shared_memory on sm_89: not checked\nRan no tool. Skipped memcheck: ")
    assert "no errors" not in unchecked


RACY = """extern "C" __global__ void reverse(float *out) {
    __shared__ float s[128];
    s[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = s[127 - threadIdx.x];
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 100, 200])
def test_a_finding_names_both_accesses_and_the_fix_and_the_verdict_is_last(
    columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("race.cu").write_text(RACY)
    report = gpuemu.check("race.cu", block=(128, 1, 1), args=[np.zeros(128, np.float32)])
    noted = replace(report, notes=("something was not looked at",))
    found = [*lines(noted, columns=columns)]
    assert max(len(line) for _, line in found) <= columns
    text = [line for _, line in found]
    said = " ".join(" ".join(text).split())
    title = "error: racecheck: Potential RAW hazard in __shared__ memory (128 times)"
    assert said.startswith(title)
    assert "Fix: __syncthreads() between lines 3 and 4." in said
    assert said.endswith(
        f"reverse on sm_89: 1 error Ran memcheck, racecheck, initcheck, controlcheck. Skipped synccheck: {NO_WAIT}."
    )
    if columns >= 100:
        assert text[1].endswith("  race.cu:3  writes 4 bytes  thread (96,0,0), warp 3, CTA 0  0x0070 STS [R7.X4], R0")
        assert text[2].endswith("  race.cu:4  reads 4 bytes   thread (31,0,0), warp 0, CTA 0  0x0080 LDS R5, [R4.X4]")
    styles = {line: style for style, line in found}
    assert styles["reverse on sm_89: 1 error"] == "strong"
    assert styles["note: something was not looked at"] == "faint"
    assert text.index("note: something was not looked at") < text.index("reverse on sm_89: 1 error")
