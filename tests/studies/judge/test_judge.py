"""Kernels that nobody trusts: what is right is timed, and each known way to cheat is found."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

import gpuemu
from gpuemu.cli.main import cli
from gpuemu.studies.judge.sandbox import LimitError, end_sandboxes, in_a_sandbox

PROBLEM = """
import numpy as np
import gpuemu

grid, block = 4, 128

def inputs(rng):
    return [rng.standard_normal(512, dtype=np.float32), gpuemu.empty(512, np.float32), np.int32(512)]

def reference(x, out, n):
    out[:] = 2 * x
"""
HEAD = (
    'extern "C" __global__ void k(const float *x, float *out, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x;'
)
SCHEMA = json.loads(resources.files("gpuemu.studies.judge").joinpath("judgement.schema.json").read_text())
KERNELS = {
    "right": "if (i < n) out[i] = 2 * x[i]; }",
    "writes nothing": "}",
    "writes zeros": "if (i < n) out[i] = 0; }",
    "leaves out a part": "if (i < n - 1) out[i] = 2 * x[i]; }",
    "writes its input": "if (i < n) { out[i] = 2 * x[i]; ((float *)x)[i] = 0; } }",
    "reads the clock": "if (i < n) out[i] = 2 * x[i]; if (clock64() == 1) out[0] = 0; }",
    "writes outside": "out[i + 4] = 2 * x[i]; if (i < 4) out[i] = 2 * x[i]; }",
    "races": (
        "__shared__ float s[128]; s[threadIdx.x] = x[i]; float y = s[127 - threadIdx.x]; __syncthreads();"
        " s[threadIdx.x] = y; __syncthreads(); out[i] = 2 * s[127 - threadIdx.x]; }"
    ),
    "reads what was there": "if (i < n) out[i] = out[i] == 2 * x[i] ? out[i] : 2 * x[i]; }",
    "never ends": "while (*(volatile const float *)x != 1e30f) {} }",
    "is no CUDA": "if (i < }",
}
CACHING = """
__device__ int called[512];
__device__ float kept[512];
extern "C" __global__ void k(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (called[i]) { out[i] = kept[i]; return; }
    float y = x[i];
    for (int k = 0; k < 64; k++) y = y * 1.0f + 0.0f * __sinf(y);
    kept[i] = 2 * y; out[i] = 2 * y;
    called[i] = 1;
}
"""


@pytest.fixture(scope="module", autouse=True)
def no_process_stays() -> Iterator[None]:
    yield
    end_sandboxes()


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    (tmp_path / "problem.py").write_text(PROBLEM)
    return tmp_path / "problem.py"


def judged(problem: Path, source: str, **words: Any) -> dict[str, Any]:
    kernel = problem.with_name("kernel.cu")
    kernel.write_text(source)
    found = gpuemu.judge(kernel, problem, "sm_89", **{"budget": 100_000, **words})
    jsonschema.validate(found, SCHEMA)
    return found


@pytest.mark.parametrize(
    ("name", "verdict", "reason"),
    [
        ("right", "right", ""),
        ("writes nothing", "wrong", "argument 1 is as it was; [0] is"),
        ("writes zeros", "wrong", "argument 1 has 512 wrong elements of 512; [0] is 0"),
        ("leaves out a part", "wrong", "argument 1 has 1 wrong elements of 512; [511] is"),
        ("writes its input", "wrong", "argument 0 has 512 wrong elements of 512"),
        ("reads the clock", "cheats", "k reads a clock"),
        ("races", "faulty", ""),
        ("reads what was there", "faulty", ""),
        ("never ends", "faulty", "a wait for ever"),
        ("is no CUDA", "refused", ""),
    ],
)
def test_each_way_to_cheat_has_its_verdict(problem: Path, name: str, verdict: str, reason: str) -> None:
    found = judged(problem, f"{HEAD} {KERNELS[name]}")
    assert (found["verdict"], reason in found["reason"]) == (verdict, True), found["reason"]
    assert bool(found["times"]) == (verdict == "right")


def test_a_kernel_that_writes_outside_is_faulty_or_refused(problem: Path) -> None:
    found = judged(problem, f"{HEAD} {KERNELS['writes outside']}")
    assert found["verdict"] in ("faulty", "refused", "wrong")
    assert any(one["tool"] == "memcheck" for one in found["findings"])


def test_what_a_launch_before_left_is_gone(problem: Path) -> None:
    """A cache in device memory is empty at each launch: it has right values, and the time of one that computes."""
    caching = judged(problem, CACHING)
    without = judged(problem, CACHING.replace("if (called[i]) { out[i] = kept[i]; return; }", ""))
    assert caching["verdict"] == without["verdict"] == "right"
    assert caching["times"][0]["cycles"] >= 0.9 * without["times"][0]["cycles"]


def test_times_are_those_of_a_run_on_each_chip(problem: Path) -> None:
    found = judged(problem, f"{HEAD} {KERNELS['right']}", chips=["RTX 4090", "RTX 4060 Ti"])
    assert [one["chip"] for one in found["times"]] == ["RTX 4090", "RTX 4060 Ti"]
    assert all(one["cycles"] > 0 and one["nanoseconds"] > 0 for one in found["times"])


def test_a_kernel_says_its_own_launch(problem: Path) -> None:
    source = f"// launch: grid=2 block=256\n{HEAD} {KERNELS['right']}"
    assert judged(problem, source)["verdict"] == "right"
    assert judged(problem, f"// launch: grid=1 block=256\n{HEAD} {KERNELS['right']}")["verdict"] == "wrong"
    assert "grid=X[,Y[,Z]]" in judged(problem, f"// launch: gird=1\n{HEAD} {KERNELS['right']}")["reason"]


def test_a_judgement_is_the_same_twice(problem: Path) -> None:
    first, second = (json.dumps(judged(problem, f"{HEAD} {KERNELS['leaves out a part']}")) for _ in range(2))
    assert first == second


def test_a_hundred_judgements_in_a_minute(problem: Path) -> None:
    """Here ten, of kernels that differ; in the time of a hundred in ten minutes, on a machine that others use, too."""
    started = time.process_time(), time.perf_counter()
    for number in range(10):
        assert judged(problem, f"{HEAD} if (i < n) out[i] = 2 * x[i] + {number} * 0.0f; }}")["verdict"] == "right"
    assert time.perf_counter() - started[1] < 60


def test_time_and_memory_have_limits() -> None:
    with pytest.raises(LimitError, match=r"took more than 0.5 s"):
        in_a_sandbox("test", time.sleep, (30,), 0.5)
    with pytest.raises(LimitError, match=r"took more than 4,294,967,296 bytes of memory"):
        in_a_sandbox("test", bytearray, (1 << 33,), 60, 1 << 32)
    assert in_a_sandbox("test", abs, (-3,), 60) == 3


def test_a_judgement_that_takes_too_long_is_a_verdict(problem: Path) -> None:
    endless = "float y = x[i]; for (long long k = 0; k < 1ll << 40; k++) y = y * y + x[i]; out[i] = y; }"
    found = judged(problem, f"{HEAD} {endless}", budget=1 << 40, seconds=5.0)
    assert (found["verdict"], found["reason"]) == ("limit", "took more than 5 s")


@pytest.mark.parametrize(
    ("text", "message"),
    [("x = 1", "inputs: found no such function"), ("def inputs(rng): return []", "reference: found no such function")],
)
def test_a_problem_that_is_none_is_said(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "p.py").write_text(text)
    with pytest.raises(gpuemu.GpuemuError, match=message):
        gpuemu.judge("k.cu", tmp_path / "p.py", "sm_89")
    with pytest.raises(gpuemu.GpuemuError, match="no such file"):
        gpuemu.judge("k.cu", tmp_path / "none.py", "sm_89")


def test_the_command_prints_json_and_says_by_its_exit_code_whether_all_is_right(problem: Path) -> None:
    for name in ("right", "writes zeros"):
        problem.with_name(f"{name}.cu").write_text(f"{HEAD} {KERNELS[name]}")
    files = [str(problem.with_name(f"{name}.cu")) for name in ("right", "writes zeros")]
    one = CliRunner().invoke(cli, ["judge", files[0], "--against", str(problem), "--arch", "sm_89"])
    assert one.exit_code == 0, one.output
    assert json.loads(one.output)["verdict"] == "right"
    both = CliRunner().invoke(cli, ["judge", *files, "--against", str(problem), "--arch", "sm_89"])
    assert both.exit_code == 1
    assert [json.loads(line)["verdict"] for line in both.stdout.splitlines()] == ["right", "wrong"]
