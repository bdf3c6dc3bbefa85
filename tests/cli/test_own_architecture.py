"""An architecture file of one's own, where commands take hardware, and code for a chip that no shipped file is for."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from gpuemu.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
OWN = """\
extends: sm_89
compute_capability: "8.7"
chip: Orin
chips:
  Orin: {sms: 16, clock_mhz: 1300}
shared_memory:
  banks: 64
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The file of one's own, and a trace of code for sm_87."""
    (tmp_path / "own.yaml").write_text(OWN)
    text = (ROOT / "traces" / "v2_shared_memory.yaml").read_text().replace("arch: sm_89", "arch: sm_87")
    (tmp_path / "k.yaml").write_text(text)
    return tmp_path


def said(folder: Path, *words: str) -> str:
    ran = CliRunner().invoke(cli, [str(folder / w) if w.endswith(".yaml") else w for w in words])
    assert ran.exit_code == 0, (ran.output, ran.exception)
    return ran.stdout


def test_code_for_a_chip_without_a_file_runs_on_a_file_of_ones_own(folder: Path) -> None:
    """What a notice looks up for itself does not stop the run."""
    assert said(folder, "run", "k.yaml", "--arch", "own.yaml").startswith("v2_shared_memory on own, Orin\n")


@pytest.mark.slow
def test_check_takes_a_file_of_ones_own_for_what_it_looks_up_of_the_hardware(folder: Path) -> None:
    alone = said(folder, "check", "k.yaml")
    assert "note: controlcheck does not know the latencies of sm_87" in alone
    assert "latencies" not in said(folder, "check", "k.yaml", "--arch", "own.yaml")


@pytest.mark.slow
def test_a_source_is_compiled_for_the_chip_that_a_file_says_it_is(folder: Path) -> None:
    kernel = folder / "k.cu"
    kernel.write_text('extern "C" __global__ void k(int *o) { o[threadIdx.x] = threadIdx.x; }')
    (folder / "own90.yaml").write_text("extends: sm_90\n")
    launch = (str(kernel), "--arg", "zeros:i32:32", "--arch", "own90.yaml")
    assert said(folder, "check", *launch).startswith("k on sm_90: ")
    said(folder, "trace", *launch, "-o", "made.yaml")
    assert "\narch: sm_90\n" in (folder / "made.yaml").read_text()
