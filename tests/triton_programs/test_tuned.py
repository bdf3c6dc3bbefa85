"""Configurations of Triton programs: the program runs up to its tuned launch, and no further."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import gpuemu
from gpuemu.cli.main import cli

PROGRAM = """
import numpy as np
import triton, triton.language as tl

def prune(configurations, arguments, **_):
    return [one for one in configurations if one.kwargs["BLOCK"] < 4096]

@triton.autotune(
    [triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((32, 1), (1024, 4), (4096, 4))], key=["n"],
    prune_configs_by={"early_config_prune": prune},
)
@triton.heuristics({"EVEN": lambda a: a["n"] % a["BLOCK"] == 0})
@triton.jit
def twice(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)

@triton.jit
def plain(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 3 * tl.load(x + i, mask=i < n), mask=i < n)

def launch(n):
    x, out = np.ones(n, np.float32), np.zeros(n, np.float32)
    plain[(1,)](x[:32], out[:32], 32, BLOCK=32)
    assert out[0] == 3
    twice[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)

launch(1 << 16)
raise SystemExit("never reached")
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path / "program.py"


def ranked(words: list[str]) -> Any:
    result = CliRunner().invoke(cli, ["rank", *words, "--again", "--jobs", "1", "--format", "json"])
    assert result.exception is None, result.output
    return json.loads(result.stdout)  # progress, after a minute, goes to standard error


@pytest.mark.slow
def test_the_configurations_of_autotune_on_two_chips(program: Path) -> None:
    found = ranked([str(program), "--chip", "RTX 4090", "--chip", "H100"])
    assert [row["chip"] for row in found["rows"]] == ["RTX 4090"] * 2 + ["H100"] * 2
    assert {row["values"]["BLOCK"] for row in found["rows"]} == {32, 1024}
    assert [row["values"]["BLOCK"] for row in found["refused"]] == [4096, 4096]
    assert "early_config_prune" in found["refused"][0]["reason"]
    assert {row["values"]["BLOCK"]: row["ctas"] for row in found["rows"]} == {32: 2048, 1024: 64}


@pytest.mark.slow
def test_a_program_that_prunes_by_gpuemus_estimates_is_ranked_as_a_whole(program: Path) -> None:
    text, own = PROGRAM.replace("import numpy", "import gpuemu.triton\nimport numpy", 1), '"early_config_prune": prune'
    assert own in text
    text = text.replace(own, '"early_config_prune": gpuemu.triton.early_config_prune("H100", top=1)')
    program.write_text(text.replace("launch(1 << 16)", "launch(1 << 12)"))
    found = ranked([str(program), "--chip", "RTX 4090"])
    assert {row["values"]["BLOCK"] for row in found["rows"]} == {32, 1024, 4096}
    assert found["refused"] == []


def test_a_call_launches_it_with_other_sizes(program: Path) -> None:
    rows = ranked([str(program), "--arch", "sm_89", "--call", "launch(3 * 1024)"])["rows"]
    assert {row["values"]["BLOCK"]: row["ctas"] for row in rows} == {32: 96, 1024: 3}


@pytest.mark.slow
def test_varied_names_span_a_space_of_their_own(program: Path) -> None:
    words = [str(program), "--arch", "sm_89", "--kernel", "twice", "--vary", "BLOCK=64,256", "--vary", "num_warps=1,2"]
    rows = ranked(words)["rows"]
    assert sorted((row["values"]["BLOCK"], row["values"]["num_warps"]) for row in rows) == [
        (64, 1), (64, 2), (256, 1), (256, 2),
    ]  # fmt: skip
    assert {row["values"]["BLOCK"]: row["ctas"] for row in rows} == {64: 1024, 256: 256}


def test_the_values_are_those_of_a_launch_on_a_device(program: Path) -> None:
    (row, *_) = ranked([str(program), "--arch", "sm_89", "--kernel", "plain", "--vary", "BLOCK=32"])["rows"]
    with gpuemu.triton.device("sm_89") as gpu, pytest.raises(SystemExit):
        exec(compile(PROGRAM, str(program), "exec"), {"__name__": "__main__"})
    assert gpu.launches[0].nanoseconds == row["nanoseconds"]


def test_a_program_without_such_a_launch_says_what_is_right(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("import triton\n")
    with pytest.raises(gpuemu.GpuemuError, match=r"there is no launch"):
        gpuemu.rank(str(tmp_path / "empty.py"), "sm_89", jobs=1)
    with pytest.raises(gpuemu.GpuemuError, match="no such file"):
        gpuemu.rank(str(tmp_path / "none.py"), "sm_89", jobs=1)


def test_what_does_not_fit_has_tritons_reason(program: Path) -> None:
    found = ranked([str(program), "--arch", "sm_89", "--vary", "BLOCK=3,64"])
    assert [row["values"]["BLOCK"] for row in found["refused"]] == [3]
    assert "power of 2" in found["refused"][0]["reason"]


def test_a_reason_within_a_called_function_is_the_innermost_one(program: Path) -> None:
    inner = """@triton.jit
def loaded(x, i, n, BLOCK: tl.constexpr):
    return tl.load(x + tl.broadcast_to(i, (32,)), mask=i < n)

@triton.jit
def plain("""
    text = PROGRAM.replace("@triton.jit\ndef plain(", inner, 1).replace(
        "3 * tl.load(x + i, mask=i < n)", "loaded(x, i, n, BLOCK)"
    )
    program.write_text(text)
    found = ranked([str(program), "--arch", "sm_89", "--kernel", "plain", "--vary", "BLOCK=32,64"])
    (refused,) = found["refused"]
    assert refused["values"]["BLOCK"] == 64
    assert "broadcast" in refused["reason"]
    assert "^" not in refused["reason"]


def test_varied_values_reach_the_hook_of_the_programs_configurations(program: Path) -> None:
    hook = """def hook(given):
    if given["BLOCK"] > 64:
        raise ValueError(f"a hook with BLOCK={given['BLOCK']} and n={given['n']}")

@triton.autotune("""
    text = PROGRAM.replace("@triton.autotune(", hook, 1).replace("num_warps=w) for", "num_warps=w, pre_hook=hook) for")
    program.write_text(text)
    found = ranked([str(program), "--arch", "sm_89", "--kernel", "twice", "--vary", "BLOCK=64,256"])
    assert [row["values"]["BLOCK"] for row in found["rows"]] == [64]
    assert [row["reason"] for row in found["refused"]] == ["ValueError: a hook with BLOCK=256 and n=65536"]
