"""Kernels that nobody trusts: the right ones are timed, and each known way to cheat is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner

import gpuemu
from gpuemu.base.errors import GpuemuError
from gpuemu.cli.main import cli
from gpuemu.sass.tools.disassembly import load_cubin
from gpuemu.studies.judge import worker
from gpuemu.studies.judge.api import end_workers, judge_many
from gpuemu.studies.judge.problem import read_problem

pytestmark = pytest.mark.slow

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
RIGHT = "if (i < n) out[i] = 2 * x[i]; }"
KERNELS = {
    "right": RIGHT,
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
    "says a grid of many digits": "}\n// launch: grid=" + "9" * 5000,
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
EXCHANGE = "__shared__ float t[128]; t[threadIdx.x] = 2 * x[i]; SYNC out[i ^ 32] = t[threadIdx.x ^ 32]; }"
"""Right where warps wait for each other, and by chance where they do not."""
SEED = 7


@pytest.fixture(scope="module", autouse=True)
def no_process_stays() -> Iterator[None]:
    yield
    end_workers()


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    (tmp_path / "problem.py").write_text(PROBLEM)
    return tmp_path / "problem.py"


def judged(problem: Path, source: str, **words: Any) -> dict[str, Any]:
    kernel = problem.with_name("kernel.cu")
    kernel.write_text(source)
    found = gpuemu.judge(kernel, problem, "sm_89" if "chips" not in words else None, **{"budget": 100_000, **words})
    jsonschema.validate(found, SCHEMA)
    return found


@pytest.mark.parametrize(
    ("name", "verdict", "reason"),
    [
        ("right", "right", ""),
        ("writes nothing", "wrong", "argument 1: unchanged; [0] ="),
        ("writes zeros", "wrong", "argument 1: 512 of 512 elements are wrong; [0] = 0"),
        ("leaves out a part", "wrong", "argument 1: 1 of 512 elements is wrong; [511] ="),
        ("writes its input", "wrong", "argument 0: 512 of 512 elements are wrong"),
        ("reads the clock", "cheats", "k reads a clock"),
        ("races", "faulty", ""),
        ("reads what was there", "faulty", ""),
        ("never ends", "faulty", "a wait forever"),
        ("is no CUDA", "refused", ""),
        ("says a grid of many digits", "refused", "// launch"),
    ],
)
def test_each_way_to_cheat_has_its_verdict(problem: Path, name: str, verdict: str, reason: str) -> None:
    found = judged(problem, f"{HEAD} {KERNELS[name]}", seed=SEED)
    assert (found["verdict"], reason in found["reason"]) == (verdict, True), found["reason"]
    assert bool(found["times"]) == (verdict == "right")


def test_a_kernel_that_writes_outside_is_faulty_or_refused(problem: Path) -> None:
    found = judged(problem, f"{HEAD} {KERNELS['writes outside']}")
    assert found["verdict"] in ("faulty", "refused", "wrong")
    assert any(one["tool"] == "memcheck" for one in found["findings"])


def first_bits(problem: Path, number: int) -> str:
    """The first element of x in a draw of SEED, as CUDA code compares it."""
    x = read_problem(str(problem)).arguments(SEED, number)[0]
    return f"__float_as_uint(x[0]) == 0x{int(x[:1].view(np.uint32)[0]):08x}u"


def test_the_output_of_the_timed_launch_is_compared(problem: Path) -> None:
    """A kernel that knows every draw but the timed one, and does nothing there."""
    known = " || ".join(first_bits(problem, number) for number in range(3))
    found = judged(problem, f"{HEAD} if ({known}) out[i] = 2 * x[i]; }}", seed=SEED)
    assert (found["verdict"], found["values"][0]["draw"]) == ("wrong", 3)


@pytest.mark.parametrize("number", range(4))
def test_every_draw_is_looked_at_by_the_tools(problem: Path, number: int) -> None:
    sync = f"if (!({first_bits(problem, number)})) __syncthreads();"
    found = judged(problem, f"{HEAD} {EXCHANGE.replace('SYNC', sync)}", seed=SEED)
    assert found["verdict"] == "faulty", found["reason"]


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        (EXCHANGE.replace("SYNC", "\n#if __CUDA_ARCH__ == 900\n__syncthreads();\n#endif\n"), "faulty"),
        ("\n#if __CUDA_ARCH__ == 900\n out[i] = 2 * x[i];\n#else\n if (FIRST) out[i] = 2 * x[i];\n#endif\n }", "wrong"),
        (RIGHT, "right"),
    ],
)
def test_other_machine_code_is_another_kernel(problem: Path, body: str, verdict: str) -> None:
    source = f"{HEAD} {body.replace('FIRST', first_bits(problem, 0))}"
    found = judged(problem, source, chips=["H100", "RTX 4090"], seed=SEED)
    assert found["verdict"] == verdict, found["reason"]


def test_draws_come_from_a_seed_that_is_told_and_can_be_given(problem: Path) -> None:
    source = f"{HEAD} {KERNELS['leaves out a part']}"
    first, second = judged(problem, source), judged(problem, source)
    assert first["seed"] != second["seed"]
    assert first["values"] != second["values"]
    again = judged(problem, source, seed=first["seed"])
    assert json.dumps(first) == json.dumps(again)


def test_what_a_launch_before_left_is_gone(problem: Path) -> None:
    """A cache in device memory is empty at each launch: it has right values, and the time of one that computes."""
    caching = judged(problem, CACHING)
    without = judged(problem, CACHING.replace("if (called[i]) { out[i] = kept[i]; return; }", ""))
    assert caching["verdict"] == without["verdict"] == "right"
    assert caching["times"][0]["cycles"] >= 0.9 * without["times"][0]["cycles"]


def test_times_are_those_of_a_run_on_each_chip(problem: Path) -> None:
    found = judged(problem, f"{HEAD} {RIGHT}", chips=["RTX 4090", "RTX 4060 Ti"])
    assert [one["chip"] for one in found["times"]] == ["RTX 4090", "RTX 4060 Ti"]
    assert all(one["cycles"] > 0 and one["nanoseconds"] > 0 for one in found["times"])


def test_a_kernel_says_its_own_launch(problem: Path) -> None:
    source = f"// launch: grid=2 block=256\n{HEAD} {RIGHT}"
    assert judged(problem, source)["verdict"] == "right"
    assert judged(problem, f"// launch: grid=1 block=256\n{HEAD} {RIGHT}")["verdict"] == "wrong"
    assert "grid=X[,Y[,Z]]" in judged(problem, f"// launch: gird=1\n{HEAD} {RIGHT}")["reason"]


def test_ten_judgements_in_a_minute(problem: Path) -> None:
    """They take a few seconds on a machine that nobody else uses."""
    started = time.perf_counter()
    for number in range(10):
        assert judged(problem, f"{HEAD} if (i < n) out[i] = 2 * x[i] + {number} * 0.0f; }}")["verdict"] == "right"
    assert time.perf_counter() - started < 60


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux's")
@pytest.mark.parametrize("name", ["problem.py", "/etc/passwd", "other.cu"])
def test_a_compiler_reads_nothing_of_the_judge(problem: Path, name: str) -> None:
    problem.with_name("other.cu").write_text("secret")
    found = judged(problem, f'#include "{name}"\n{HEAD} {RIGHT}')
    assert found["verdict"] == "refused"
    assert "Permission denied" in found["reason"] or "cannot open" in found["reason"], found["reason"]
    assert not any(word in found["reason"] for word in ("secret", "root:", "numpy"))


def test_a_header_beside_a_source_may_be_included(problem: Path) -> None:
    problem.with_name("mine.cuh").write_text("#define TWO 2\n")
    found = judged(problem, f'#include "mine.cuh"\n{HEAD} if (i < n) out[i] = TWO * x[i]; }}')
    assert found["verdict"] == "right", found["reason"]


def test_a_judgement_that_takes_too_long_is_a_verdict(problem: Path) -> None:
    endless = "float y = x[i]; for (long long k = 0; k < 1ll << 40; k++) y = y * y + x[i]; out[i] = y; }"
    started = time.monotonic()
    found = judged(problem, f"{HEAD} {endless}", budget=1 << 40, seconds=5.0)
    assert (found["verdict"], found["reason"]) == ("limit", "took more than 5 s")
    assert time.monotonic() - started < 10


def test_a_compiler_that_takes_too_long_is_ended_with_all_it_started(problem: Path) -> None:
    source = "template<int N, int M> struct F { static const long v = F<N-1, M*2>::v + F<N-1, M*2+1>::v; };\n"
    source += "template<int M> struct F<0, M> { static const long v = M; };\n"
    found = judged(problem, f"{source}{HEAD} out[i] = F<28, 1>::v; }}", seconds=6.0)
    assert found["verdict"] == "limit"
    left = subprocess.run(["pgrep", "-f", str(problem.parent)], capture_output=True, text=True, check=False).stdout
    assert left == ""


def test_code_for_another_chip_and_with_too_few_registers_is_refused(problem: Path) -> None:
    source = problem.with_name("k.cu")
    source.write_text(f"{HEAD} {RIGHT}")
    cubin = problem.with_name("k.cubin")
    content = load_cubin(str(source), "sm_89").content
    cubin.write_bytes(content)
    assert gpuemu.judge(cubin, problem, "sm_89")["verdict"] == "right"
    assert "which H100 does not load" in gpuemu.judge(cubin, problem, chips="H100")["reason"]
    at = content.index(b"\x04\x2f\x08\x00") + 8  # EIATTR_REGCOUNT: a symbol, and the count
    cubin.write_bytes(content[:at] + b"\1\0\0\0" + content[at + 4 :])
    found = gpuemu.judge(cubin, problem, "sm_89")
    assert (found["verdict"], "says that it has 1 registers" in found["reason"]) == ("refused", True), found["reason"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes with names")
def test_a_candidate_is_a_file_and_no_link(problem: Path) -> None:
    problem.with_name("link.cu").symlink_to(problem)
    os.mkfifo(problem.with_name("pipe.cu"))
    for name in ("link.cu", "pipe.cu", "none.cu"):
        found = gpuemu.judge(problem.with_name(name), problem, "sm_89")
        assert (found["verdict"], "numpy" in found["reason"]) == ("refused", False), found["reason"]


def test_arrays_in_the_order_of_fortran_and_a_tolerance_in_numbers(problem: Path) -> None:
    text = PROBLEM.replace(
        "rng.standard_normal(512, dtype=np.float32)",
        "np.asfortranarray(rng.standard_normal((16, 32), dtype=np.float32))",
    )
    text = text.replace("out[:] = 2 * x", "out[:] = 2 * x.ravel(order='K')")
    problem.write_text(text)
    assert judged(problem, f"{HEAD} {RIGHT}")["verdict"] == "right"
    off = f"{HEAD} {RIGHT.replace('2 * x[i]', '2 * x[i] + 0.01f')}"
    assert judged(problem, off)["verdict"] == "wrong"
    problem.write_text(f"{text}\nabsolute_tolerance = 0.011\n")
    assert judged(problem, off)["verdict"] == "right"


def test_a_reference_that_fails_in_a_later_draw_is_the_problems_fault(problem: Path) -> None:
    problem.write_text(PROBLEM + "    calls.append(1); 1 / (len(calls) < 4)\ncalls = []\n")
    with pytest.raises(GpuemuError, match="reference: ZeroDivisionError"):
        judged(problem, f"{HEAD} {RIGHT}")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
def test_a_child_that_is_forked_and_ends_leaves_the_processes_of_its_parent_alone(problem: Path) -> None:
    problem.with_name("k.cu").write_text(f"{HEAD} {RIGHT}")
    code = """
import os, sys, gpuemu
kernel, problem = sys.argv[1:]
first = gpuemu.judge(kernel, problem, "sm_89", draws=1, seed=1)
if os.fork() == 0:
    sys.exit(0)
os.wait()
from gpuemu.studies.judge import api
assert api._idle[0].is_alive
assert gpuemu.judge(kernel, problem, "sm_89", draws=1, seed=1) == first
"""
    subprocess.run([sys.executable, "-c", code, problem.with_name("k.cu"), problem], check=True, timeout=120)


def test_a_fault_of_ours_is_the_verdict_of_one_candidate(problem: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(task: Any) -> Any:
        return [][1]

    monkeypatch.setattr(worker, "judge_one", broken)
    task = worker.Task("k.cu", str(problem), (), 3, 1, 1, 1, ())
    answer = worker._answer(task, 1)
    assert answer["judgement"]["verdict"] == "refused"
    assert "gpuemu failed with IndexError in test_judge.py" in answer["judgement"]["reason"]


def test_results_are_told_in_order_and_as_they_come(problem: Path) -> None:
    files = [problem.with_name(f"{name}.cu") for name in ("one", "two", "three")]
    endless = "float y = x[i]; for (long long k = 0; k < 1ll << 40; k++) y = y * y + x[i]; out[i] = y; }"
    for file, body in zip(files, (RIGHT, endless, RIGHT), strict=True):
        file.write_text(f"{HEAD} {body}")
    told: list[tuple[str, float]] = []

    def each(one: dict[str, Any]) -> None:
        told.append((one["verdict"], time.monotonic()))

    found = judge_many(files, problem, "sm_89", jobs=1, each=each, seconds=8.0, budget=1 << 40)
    assert [one["verdict"] for one in found] == [verdict for verdict, _ in told] == ["right", "limit", "right"]
    assert told[1][1] - told[0][1] > 2, "the first was told before the second was done"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "inputs: no such function"),
        ("def inputs(rng): return []", "reference: no such function. Define"),
        ("def inputs(rng): return [][1]\ndef reference(): pass", "inputs: IndexError: list index out of range"),
        ("import nothing_of_that_name", "ModuleNotFoundError"),
    ],
)
def test_a_problem_that_is_none_is_said(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "p.py").write_text(text)
    with pytest.raises(gpuemu.GpuemuError, match=message):
        gpuemu.judge("k.cu", tmp_path / "p.py", "sm_89")
    with pytest.raises(gpuemu.GpuemuError, match="no such file"):
        gpuemu.judge("k.cu", tmp_path / "none.py", "sm_89")


@pytest.mark.parametrize(
    "words", [{"seconds": float("inf")}, {"seconds": float("nan")}, {"seconds": 0}, {"seed": -1}, {"draws": 0}]
)
def test_limits_that_are_none_are_refused(problem: Path, words: dict[str, Any]) -> None:
    with pytest.raises(GpuemuError, match=next(iter(words))):
        gpuemu.judge("k.cu", problem, **words)


def test_the_command_prints_json_and_says_by_its_exit_code_whether_all_is_right(problem: Path) -> None:
    for name in ("right", "writes zeros"):
        problem.with_name(f"{name}.cu").write_text(f"{HEAD} {KERNELS[name]}")
    files = [str(problem.with_name(f"{name}.cu")) for name in ("right", "writes zeros")]
    one = CliRunner().invoke(cli, ["judge", files[0], "--against", str(problem), "--arch", "sm_89", "--seed", "3"])
    assert one.exit_code == 0, one.output
    assert json.loads(one.output)["seed"] == 3
    lines = problem.with_name("lines.jsonl")
    both = CliRunner().invoke(cli, ["judge", *files, "--against", str(problem), "--arch", "sm_89", "-o", str(lines)])
    assert (both.exit_code, both.stdout) == (1, "")
    assert [json.loads(line)["verdict"] for line in lines.read_text().splitlines()] == ["right", "wrong"]
