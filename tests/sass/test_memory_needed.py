"""Launches that no GPU takes, or for which there is no memory, get one sentence at once."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from gpuemu.base.errors import GpuemuError
from gpuemu.chip.tracing import trace_kernel
from gpuemu.cli.main import cli, main
from gpuemu.sass.machine.scheduling.line import Line

SOURCE = 'extern "C" __global__ void one(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] = 1; }\n'


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("room") / "one.cu"
    path.write_text(SOURCE, encoding="utf-8")
    return path


@pytest.mark.parametrize("command", ["run", "check", "trace"])
@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--grid", "65536,65535,65535", "281,466,386,841,600 CTAs, for which gpuemu would need 41,941,760 GiB"),
        ("--grid", "2147483647", "2,147,483,647 CTAs, for which gpuemu would need 320 GiB of memory, expected at most"),
        ("--grid", "2147483648", "'2147483648'"),
        ("--grid", "1,65536", "'1,65536'"),
        ("--stack", "99999999999999", "99,999,999,999,999 bytes"),
        ("--dynamic-shared", "99999999999999", "99999999999999 bytes of static and dynamic shared memory"),
    ],
)
def test_an_absurd_launch_is_refused_in_a_sentence(
    source: Path, command: str, option: str, value: str, sentence: str
) -> None:
    words = [command, str(source), option, value, "--arg", "zeros:f32:64"]
    words += ["-o", str(source.with_suffix(".yaml"))] if command == "trace" else []
    with pytest.raises(GpuemuError, match=sentence) as caught:
        cli.main(words, standalone_mode=False)
    assert len(caught.value.problems) == 1


def test_the_largest_stack_of_a_gpu_is_taken(source: Path) -> None:
    assert trace_kernel(source, args=[np.zeros(32, np.float32)], stack_bytes=1 << 19).warps


@pytest.mark.slow
@pytest.mark.parametrize("timed_only", [False, True])
def test_an_error_of_an_early_cta_of_a_huge_grid_is_told_at_once(source: Path, timed_only: bool) -> None:
    ctas = 20_000_000
    tracemalloc.start()
    with pytest.raises(GpuemuError, match=r"CTA (64|108), .* past the end of argument 0"):
        trace_kernel(source, grid=ctas, args=[np.zeros(64 * 32, np.float32)], arch="sm_80", timed_only=timed_only)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * ctas  # a number of each CTA, and no list of them


@pytest.mark.slow
def test_too_little_memory_is_a_sentence(source: Path, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="Windows has no limits of memory")
    most = 900 << 20
    words = ["run", str(source), "--grid", "100000000", "--arg", "zeros:f32:64"]
    done = subprocess.run(
        [sys.executable, "-m", "gpuemu", *words], capture_output=True, text=True, timeout=120, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: gpuemu: out of memory (Unable to allocate 763. MiB"), line


def test_memory_that_runs_out_anywhere_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(cli, "main", full)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("error: gpuemu: out of memory. Choose a smaller launch or input")


def test_a_line_of_ctas_needs_no_list_of_them() -> None:
    line = Line(range(1 << 40), {1, 3, 1 << 50})
    assert len(line) == (1 << 40) - 2
    assert [line.next(), line.next()] == [0, 2]
    assert 0 not in line
    assert 3 not in line
    assert 5 in line
    line.remove(5)
    line.put_in_front(7 << 40)
    assert 7 << 40 in line
    assert [line.next(), line.next(), line.next()] == [7 << 40, 4, 6]
    assert 7 << 40 not in line
    assert len(line) == (1 << 40) - 7


def test_a_line_ends() -> None:
    line = Line([9, 2, 5], [2])
    assert [line.next(), line.next(), len(line)] == [9, 5, 0]
    assert not line
