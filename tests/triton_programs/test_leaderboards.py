"""Problems of gpu-mode and KernelBench as they are: honest solutions are timed, and each published way to cheat is caught.

The problems and solutions are this project's own, in the forms of gpu-mode/reference-kernels and KernelBench.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

import gpuemu
from gpuemu.base.errors import GpuemuError
from gpuemu.cli.main import cli
from gpuemu.studies.judge.api import end_workers

pytest.importorskip("torch", reason="references need PyTorch")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="Triton is Linux's")]

SCHEMA = json.loads(resources.files("gpuemu.studies.judge").joinpath("judgement.schema.json").read_text())
SEED = 11
TASK = """
files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "task.py", "source": "task.py"}
  - {"name": "utils.py", "source": "../utils.py"}
  - {"name": "reference.py", "source": "reference.py"}
  - {"name": "eval.py", "source": "../eval.py"}
lang: "py"
description: |
  Multiply two vectors, and add the first one.
config:
  main: "eval.py"
tests:
  - {"size": 100, "seed": 4242}
benchmarks:
  - {"size": 512, "seed": 31}
  - {"size": 1500, "seed": 32}
ranking_by: "geom"
"""
UTILS = """
import torch

def compare(found, right):
    if found.shape != right.shape:
        return False, "another shape"
    wrong = (found - right).abs() > 1e-4 + 1e-4 * right.abs()
    return not bool(wrong.any()), f"{int(wrong.sum())} elements are wrong"
"""
REFERENCE = """
import torch
from utils import compare
from task import input_t, output_t

def generate_input(size: int, seed: int) -> input_t:
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    a = torch.randn(size, device="cuda", generator=gen)
    return a, torch.randn(size, device="cuda", generator=gen), torch.empty(size, device="cuda")

def ref_kernel(data: input_t) -> output_t:
    a, b, out = data
    out[...] = a * b + a
    return out

def check_implementation(data, output):
    return compare(output, ref_kernel(data))
"""
SUBMISSION = """
import gc, math, statistics, sys, threading, time
import numpy as np
import torch
import triton
import triton.language as tl
from task import input_t, output_t

@triton.jit
def fused(a, b, out, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(a + i, mask=i < n)
    tl.store(out + i, (x * tl.load(b + i, mask=i < n) + x) * factor, mask=i < n)

@triton.jit
def fill(out, n, value, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.zeros((BLOCK,), tl.float32) + value, mask=i < n)

def run(a, b, out, factor=1.0):
    n = a.numel()
    fused[(triton.cdiv(n, 128),)](a, b, out, n, factor, BLOCK=128)
    return out
"""
HONEST = """
def custom_kernel(data: input_t) -> output_t:
    a, b, out = data
    assert a.is_cuda and out.shape == a.shape
    return run(a, b, out)
"""
PUBLISHED = {
    # gpu-mode/reference-kernels issue 162 and pull requests 142 and 159 to 161, pygpubench pull request 7. The issue's
    # families of fabricated times are in WITHOUT_EFFECT: here no solution measures its own time.
    "an answer of an earlier call": (
        "kept = {}\ndef custom_kernel(data):\n    a, b, out = data\n"
        "    if 'out' in kept:\n        return kept['out'][:a.numel()]\n    kept['out'] = torch.empty(2000)\n"
        "    return run(a, b, kept['out'])[:a.numel()]",
        "refused", "returns memory that no kernel could have written",
    ),
    "an answer of an earlier call, and work of no use": (
        "kept = {}\ndef custom_kernel(data):\n    a, b, out = data\n"
        "    if 'out' in kept:\n        fill[(1,)](torch.empty(128), 1, 0.0, BLOCK=128)\n        return out\n"
        "    kept['out'] = 1\n    return run(a, b, out)",
        "wrong", "the output has elements that are no finite numbers, and the reference's has none",
    ),
    "an output that computes when it is checked": (
        "class Later(torch.Tensor):\n    def __sub__(self, other): return torch.zeros_like(other)\n"
        "def custom_kernel(data):\n    a, b, out = data\n    fill[(1,)](out, 1, 0.0, BLOCK=128)\n"
        "    return out.as_subclass(Later)",
        "refused", "Later",
    ),
    "an output with methods of its own": (
        "def custom_kernel(data):\n    a, b, out = data\n    fill[(1,)](out, 1, 0.0, BLOCK=128)\n"
        "    out.abs = lambda: out\n    return out",
        "wrong", "the output has elements that are no finite numbers, and the reference's has none",
    ),
    "a check that accepts everything": (
        "import utils\nutils.compare = lambda found, right: (True, '')\n"
        "for module in list(sys.modules.values()):\n    if hasattr(module, 'check_implementation'):\n"
        "        module.check_implementation = lambda *_: (True, '')\n"
        "def custom_kernel(data):\n    fill[(1,)](data[2], 1, 0.0, BLOCK=128)\n    return data[2]",
        "wrong", "the output has elements that are no finite numbers, and the reference's has none",
    ),
    "the reference itself": (
        "from reference import ref_kernel\ndef custom_kernel(data):\n    return ref_kernel(data)",
        "refused", "imports reference",
    ),
    "expected tensors that the garbage collector knows": (
        "def custom_kernel(data):\n    a, b, out = data\n    fill[(1,)](out, 1, 0.0, BLOCK=128)\n"
        "    for one in gc.get_objects():\n        if type(one) is torch.Tensor and one.shape == a.shape and one is not a:\n"
        "            if one is not b and one is not out:\n                return one\n    return out",
        "wrong", "the output has elements that are no finite numbers, and the reference's has none",
    ),
    "inputs of the published seeds": (
        "answers = {}\nfor size, seed in ((100, 4242), (512, 31), (1500, 32)):\n"
        "    gen = torch.Generator()\n    gen.manual_seed(seed)\n    a = torch.randn(size, generator=gen)\n"
        "    answers[size] = a * torch.randn(size, generator=gen) + a\n"
        "@triton.jit\ndef copy(x, out, n, BLOCK: tl.constexpr):\n"
        "    i = tl.arange(0, BLOCK)\n    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)\n"
        "def custom_kernel(data):\n    n = data[0].numel()\n"
        "    copy[(1,)](answers[n], data[2], n, BLOCK=2048)\n    return data[2]",
        "wrong", "100 elements are wrong",
    ),
    "no numbers, which no comparison refuses": (
        "def custom_kernel(data):\n    a, b, out = data\n"
        "    fill[(triton.cdiv(a.numel(), 128),)](out, a.numel(), float('nan'), BLOCK=128)\n    return out",
        "wrong", "no finite numbers",
    ),
    "sizes of the tests only": (
        "def custom_kernel(data):\n    a, b, out = data\n    return run(a[:512], b[:512], out[:512]).new_empty(0) if 0 else "
        "(run(a[:512], b[:512], out[:512]), out)[1]",
        "wrong", "the output has elements that are no finite numbers, and the reference's has none",
    ),
    # KernelBench's adversarial tests (pull request 82), its static checker and its issues
    "memory that the reference may have left": (
        "def custom_kernel(data):\n    a, b, out = data\n    fill[(1,)](torch.empty(128), 1, 0.0, BLOCK=128)\n"
        "    return torch.empty_like(a)",
        "wrong", "100 elements are wrong",
    ),
    "no launch at all": ("def custom_kernel(data):\n    return torch.empty_like(data[0])", "refused", "0 launches"),
    "inputs of zeros, and an output of zeros": (
        "def custom_kernel(data):\n    a, b, out = data\n    n = triton.cdiv(a.numel(), 128)\n"
        "    for one in data:\n        fill[(n,)](one, a.numel(), 0.0, BLOCK=128)\n    return out",
        "wrong", "100 elements are wrong",
    ),
    "an input as scratch memory": (
        "def custom_kernel(data):\n    a, b, out = data\n    run(a, b, out)\n    fill[(1,)](b, 1, 7.0, BLOCK=128)\n    return out",
        "wrong", "input 1 is changed",
    ),
    "torch's operators": (
        "def custom_kernel(data):\n    a, b, out = data\n    return torch.addcmul(a, a, b)", "refused", "torch's operators, which have no time here: addcmul",
    ),
    "torch's operators where a kernel fails": (
        "def custom_kernel(data):\n    a, b, out = data\n    try:\n        return run(a, b, None)\n"
        "    except Exception:\n        return a.mul(b).add(a)",
        "refused", "mul, add",
    ),
    "torch's operators in another thread": (
        "def custom_kernel(data):\n    a, b, out = data\n    fill[(1,)](torch.empty(128), 1, 0.0, BLOCK=128)\n"
        "    worker = threading.Thread(target=lambda: out.copy_(a * b + a))\n    worker.start()\n    worker.join()\n    return out",
        "refused", "found launch(...) reading or writing a buffer on the host",
    ),
    "less precision": (
        "@triton.jit\ndef narrow(a, b, out, n, BLOCK: tl.constexpr):\n"
        "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    x = tl.load(a + i, mask=i < n).to(tl.float16)\n"
        "    tl.store(out + i, x * tl.load(b + i, mask=i < n).to(tl.float16) + x, mask=i < n)\n"
        "def custom_kernel(data):\n    a, b, out = data\n"
        "    narrow[(triton.cdiv(a.numel(), 128),)](a, b, out, a.numel(), BLOCK=128)\n    return out",
        "wrong", "28 elements are wrong",
    ),
}  # fmt: skip
"""Ways to cheat that leaderboards have published, each with its verdict and a part of the reason."""
WITHOUT_EFFECT = {
    "a patched timer": (
        "torch.cuda.Event.elapsed_time = lambda self, end: 1e-9\ntime.perf_counter = time.perf_counter_ns = lambda: 0\n"
        "triton.testing.do_bench = lambda *_, **__: 1e-9\n"
    ),
    "patched statistics of one shape": (
        "statistics.fmean = lambda times: 1e-12\nmath.log = lambda number: -1e9\nmath.exp = lambda number: 0.0\n"
        "for module in list(sys.modules.values()):\n    if hasattr(module, 'calculate_stats'):\n"
        "        module.calculate_stats = lambda durations: durations[0] / 1e9\n"
    ),
    "a stream of its own": "plain = run\ndef run(*args):\n    with torch.cuda.stream(torch.cuda.Stream()):\n        return plain(*args)\n",
    "a thread of its own": (
        "plain = run\ndef run(*args):\n    worker = threading.Thread(target=plain, args=args)\n    worker.start()\n"
        "    worker.join()\n    return args[2]\n"
    ),
}  # fmt: skip
"""Published tricks that make a measured time shorter. Here the solution is right, and its time is the same."""


@pytest.fixture(scope="module", autouse=True)
def no_process_stays() -> Iterator[None]:
    yield
    end_workers()


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    """A folder of gpu-mode; files of several problems lie beside it."""
    folder = tmp_path / "fused_py"
    folder.mkdir()
    (folder / "task.yml").write_text(TASK)
    (folder / "task.py").write_text("input_t = output_t = object\n")
    (folder / "reference.py").write_text(REFERENCE)
    (tmp_path / "utils.py").write_text(UTILS)
    return folder


def judged(problem: Path, solution: str, **words: Any) -> dict[str, Any]:
    file = problem.parent / "solution.py"
    file.write_text(solution)
    words = {"draws": 1, "seconds": 300.0, "seed": SEED, **words}
    found = gpuemu.judge(file, problem, "sm_89" if "chips" not in words else None, **words)
    jsonschema.validate(found, SCHEMA)
    return found


def test_an_honest_solution_has_a_time_for_each_benchmark(problem: Path) -> None:
    found = judged(problem, SUBMISSION + HONEST, chips=["RTX 4090", "H100"])
    assert found["verdict"] == "right", found["reason"]
    assert [one["chip"] for one in found["times"]] == ["RTX 4090", "H100"]
    cases = found["times"][0]["cases"]
    assert [one["case"] for one in cases] == [{"size": 512}, {"size": 1500}]
    mean = (cases[0]["nanoseconds"] * cases[1]["nanoseconds"]) ** 0.5
    assert found["times"][0]["nanoseconds"] == pytest.approx(mean)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_way_to_cheat_is_caught(problem: Path, name: str) -> None:
    body, verdict, reason = PUBLISHED[name]
    found = judged(problem, SUBMISSION + body)
    assert (found["verdict"], reason in found["reason"]) == (verdict, True), found["reason"]
    assert found["times"] == []


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_a_trick_with_clocks_and_streams_changes_no_time(problem: Path, name: str) -> None:
    found = judged(problem, SUBMISSION + WITHOUT_EFFECT[name] + HONEST)
    assert found["verdict"] == "right", found["reason"]
    assert found["times"] == judged(problem, SUBMISSION + HONEST)["times"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("gen.manual_seed(seed)", "gen.manual_seed(1)", "inputs are equal for all seeds"),
        ("out[...] = a * b + a", "out[...] = a - a + 1", "output is equal for all inputs"),
        ("out[...] = a * b + a", "out[...] = (a * b + a) * 1e-6", "accepts an output of zeros"),
        ("a, b, out = data", "a, b = data", "ValueError"),
    ],
)
def test_a_problem_that_a_cheat_could_solve_is_an_error(problem: Path, old: str, new: str, told: str) -> None:
    (problem / "reference.py").write_text(REFERENCE.replace(old, new))
    with pytest.raises(GpuemuError, match=told):
        judged(problem, SUBMISSION + HONEST)


def test_another_size_replaces_those_of_the_task(problem: Path) -> None:
    found = judged(problem, SUBMISSION + HONEST, settings={"size": 64})
    assert (found["verdict"], found["draws"], "cases" in found["times"][0]) == ("right", 1, False)


MODEL = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, columns, rows):
        super().__init__()
        self.linear = nn.Linear(columns, rows)

    def forward(self, x):
        return torch.softmax(self.linear(x), dim=-1)

batch = 4
columns = 64
rows = 32

def get_inputs():
    return [torch.rand(batch, columns)]

def get_init_inputs():
    return [columns, rows]
"""
MODEL_NEW = """
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl

@triton.jit
def linear_softmax(x, weight, bias, out, COLUMNS: tl.constexpr, ROWS: tl.constexpr):
    b, r, c = tl.program_id(0), tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    row = tl.load(x + b * COLUMNS + c)
    y = tl.sum(tl.load(weight + r[:, None] * COLUMNS + c[None, :]) * row[None, :], axis=1) + tl.load(bias + r)
    e = tl.exp(y - tl.max(y, axis=0))
    tl.store(out + b * ROWS + r, e / tl.sum(e, axis=0))

@triton.jit
def zeros(out, BLOCK: tl.constexpr):
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.zeros((BLOCK,), tl.float32))

class ModelNew(nn.Module):
    def __init__(self, columns, rows):
        super().__init__()
        self.linear = nn.Linear(columns, rows)

    def forward(self, x):
        BODY
"""
RIGHT = (
    "out = torch.empty(x.shape[0], self.linear.out_features, device=x.device)\n"
    "linear_softmax[(x.shape[0],)](x, self.linear.weight, self.linear.bias, out, *self.linear.weight.T.shape)\n"
    "return out"
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "problem.py").write_text(MODEL)
    return tmp_path / "problem.py"


def new(body: str) -> str:
    return MODEL_NEW.replace("BODY", body.replace("\n", "\n        "))


@pytest.mark.parametrize(
    ("body", "verdict", "reason"),
    [
        (RIGHT, "right", ""),
        ("return F.softmax(self.linear(x), dim=-1)", "refused", "addmm, _softmax"),
        (RIGHT.replace("return out", "return out.to(torch.bfloat16)"), "refused", "here: to"),
        (RIGHT.replace("(x, self", "(x.mean(0), self"), "refused", "here: mean"),
        (RIGHT.replace("return out", "return out.T"), "wrong", "output 0 is float32[32, 4]; expected float32[4, 32]"),
        ("out = torch.empty(4, 32)\nzeros[(4,)](out, 32)\nreturn out", "wrong", "128 of 128 elements are wrong; [0][0] = 0"),
        ("return float(x.sum())", "refused", "here: sum, item"),
    ],
)  # fmt: skip
def test_a_model_has_the_weights_of_the_reference(model: Path, body: str, verdict: str, reason: str) -> None:
    found = judged(model, new(body))
    assert (found["verdict"], reason in found["reason"]) == (verdict, True), found["reason"]
    assert bool(found["times"]) == (verdict == "right")


def test_zeros_are_wrong_also_where_the_output_is_smaller_than_an_absolute_tolerance(model: Path) -> None:
    """KernelBench issue 165: its tolerance of 0.01 accepts zeros for a softmax of many columns."""
    model.write_text(MODEL.replace("rows = 32", "rows = 1024"))
    found = judged(model, new("out = torch.empty(4, 1024)\nzeros[(4,)](out, 1024)\nreturn out"))
    assert found["verdict"] == "wrong"


def test_an_output_that_does_not_depend_on_the_input_is_an_error(model: Path) -> None:
    """KernelBench pull request 108: a constant solves some problems."""
    model.write_text(MODEL.replace("self.linear(x)", "self.linear(x) * 0"))
    with pytest.raises(GpuemuError, match="output is equal for all inputs"):
        judged(model, new(RIGHT))


def test_an_autotuned_solution_takes_its_first_configuration_that_compiles(model: Path) -> None:
    tuned = MODEL_NEW.replace(
        "@triton.jit\ndef linear",
        "@triton.autotune([triton.Config({}, num_warps=w) for w in (4, 1)], key=[])\n@triton.jit\ndef linear",
    )
    found = judged(model, tuned.replace("BODY", RIGHT.replace("\n", "\n        ")))
    assert (found["verdict"], found["times"][0]["launches"]) == ("right", 1), found["reason"]


def test_the_command_changes_constants_of_a_file(model: Path, tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text(new(RIGHT))
    words = ["judge", str(tmp_path / "new.py"), "--against", str(model), "--arch", "sm_89", "--draws", "1"]
    done = CliRunner().invoke(cli, [*words, "--set", "batch=1", "--seconds", "300"])
    assert (done.exit_code, json.loads(done.stdout)["verdict"]) == (0, "right")
    done = CliRunner().invoke(cli, [*words, "--set", "no_such=1"])
    assert isinstance(done.exception, GpuemuError)
    assert "has no such constant" in str(done.exception)
