"""Kernels that read the clock, on the command line: what is saved, compared, printed and said."""

from __future__ import annotations

import json
from pathlib import Path

import forked
import jsonschema
import numpy as np
import pytest

import gpuemu

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
KERNEL = """\
#include <cstdio>
__global__ void latency(const unsigned *next, unsigned *cycles, int wait) {
    const unsigned from = clock();
    unsigned p = threadIdx.x;
    for (int i = 0; i < 8; ++i) p = next[p];
    while (clock() < from + wait);
    cycles[blockIdx.x] = clock() - from + (p > 31);
    if (blockIdx.x == 0 && threadIdx.x == 0) printf("%u cycles\\n", cycles[0]);
}
"""
ARGUMENTS = ("--arch", "sm_90", "--arg", "zeros:u32:32", "--arg", "zeros:u32:200", "--arg")
SAVES = "the kernel reads the clock: the clock values in its results are emulated cycles"
COUNTS = "the kernel reads the clock: its results have counts of instructions for it; gpuemu run saves emulated cycles"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("clocks")
    (made / "k.cu").write_text(KERNEL, encoding="utf-8")
    return made


def test_run_saves_compares_and_prints_emulated_cycles(folder: Path) -> None:
    ran = forked.gpuemu("run", "k.cu", *ARGUMENTS, "0", "--save", "1=cycles.npy", "--format", "json", cwd=folder)
    result = json.loads(ran.output)
    first, _, last, *_ = result["warps"][0]["clock_reads"]
    saved = np.load(folder / "cycles.npy")
    assert saved.tolist() == [last - first, *[0] * 199]
    assert last - first > 8 * 30  # each load waits for the one before
    assert ran.errors == f"{last - first} cycles\n"  # and no line with counts before it
    assert result["notes"][0] == SAVES
    assert result["clock"] == {"path_depends_at": None, "addresses_depend_at": None, "ctas_without_values": []}
    same = forked.gpuemu("run", "k.cu", *ARGUMENTS, "0", "--expect", "1=cycles.npy", cwd=folder)
    assert (same.status, SAVES in same.output.splitlines()) == (0, True)
    np.save(folder / "other.npy", saved + 1)
    other = forked.gpuemu("run", "k.cu", *ARGUMENTS, "0", "--expect", "1=other.npy", cwd=folder)
    assert (other.status, other.output) == (1, "")
    assert f"the first at 0: {last - first} for {last - first + 1}" in other.errors


def test_the_first_screen_and_the_data_say_what_is_not_known(folder: Path) -> None:
    options = (*ARGUMENTS, "100", "--grid", "200")
    result = json.loads(forked.gpuemu("run", "k.cu", *options, "--format", "json", cwd=folder).output)
    jsonschema.validate(
        result, json.loads((ROOT / "gpuemu" / "views" / "result.schema.json").read_text(encoding="utf-8"))
    )
    assert result["clock"]["ctas_without_values"] == [[1, 131], [133, 199]]
    assert result["clock"]["path_depends_at"].endswith("(line 6) in warp 0 of CTA 0")
    saves, path, missing, *_ = result["notes"]
    assert saves == SAVES
    assert path.startswith("the path depends on the clock: ")
    assert missing.endswith("CTAs 1 to 131, 133 to 199")
    text = forked.gpuemu("run", "k.cu", *options, cwd=folder).output
    assert " ".join(result["notes"][:3]) in " ".join(text.split())


@pytest.mark.parametrize("command", ["trace", "why"])
def test_commands_that_execute_once_say_that_they_save_counts(folder: Path, command: str) -> None:
    target = ("-o", "k.yaml") if command == "trace" else ("--only", "stall.wait")
    ran = forked.gpuemu(command, "k.cu", *ARGUMENTS, "0", "--save", "1=counts.npy", *target, cwd=folder)
    assert ran.status == 0, ran.errors
    assert COUNTS in ran.errors.splitlines()
    assert np.load(folder / "counts.npy")[0] < 100
    without = forked.gpuemu(command, "k.cu", *ARGUMENTS, "0", *target, cwd=folder)
    assert COUNTS not in without.errors


def test_a_trace_that_was_read_says_that_the_kernel_reads_the_clock(folder: Path) -> None:
    forked.gpuemu("trace", "k.cu", *ARGUMENTS, "0", "-o", "read.yaml", cwd=folder)
    assert "the kernel reads the clock" in forked.gpuemu("run", "read.yaml", cwd=folder).output.splitlines()
    assert gpuemu.run(folder / "read.yaml", clocks=True).clocks is None


@pytest.mark.parametrize("when", ["from < 40", "from >= 40"])
def test_what_a_kernel_printed_before_it_failed_is_shown_once(folder: Path, when: str) -> None:
    """In the first execution, in which the clock has counted few instructions, or in the second."""
    source = KERNEL.replace("while (clock() < from + wait);", f'printf("begun\\n"); if ({when}) __trap();')
    (folder / "fails.cu").write_text(source, encoding="utf-8")
    ran = forked.gpuemu("run", "fails.cu", *ARGUMENTS, "0", "--block", "1", cwd=folder)
    assert ran.status == 2
    assert ran.errors.startswith("begun\n")
    assert ran.errors.count("begun") == 1
    assert ("with emulated clock values" in ran.errors) == (when == "from >= 40")
