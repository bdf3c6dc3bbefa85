"""Ladders: a small one of our own, compiled and timed; how its order and its error are told."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import gpuemu
from validation import ladders
from validation.__main__ import main
from validation.ladders import MEASURED, Ladder, inversions, rank_correlation
from validation.suite import Score

STEPS = """
template <int PAD> __global__ void step(float *out, const float *in, int size) {
  __shared__ float tile[32][32 + PAD];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8) tile[threadIdx.y + i][threadIdx.x] = in[(y + i) * size + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8) out[(y + i) * size + x] = tile[threadIdx.x][threadIdx.y + i];
}
"""
LADDER = """
transpose:
  what: transposes of 256 by 256
  source: somebody/ladder @1234567
  chip: RTX A6000
  arch: sm_86
  clock_mhz: 900
  measured_in: us
  args: ["float32*65536", "float32*65536", "int32 256"]
  steps:
    plain: {include: steps.cuh, kernel: "step<0>", grid: [8, 8], block: [32, 8], measured: 4.0}
    half: {include: steps.cuh, kernel: "step<8>", grid: [8, 8], block: [32, 8], measured: 2.5}
    padded: {include: steps.cuh, kernel: "step<1>", grid: [8, 8], block: [32, 8], measured: 2.6}
"""


@pytest.mark.slow
def test_a_ladder_of_three_steps(tmp_path, capsys):
    (tmp_path / "ladder@1234567").mkdir()
    (tmp_path / "ladder@1234567" / "steps.cuh").write_text(STEPS, encoding="utf-8")
    file = tmp_path / "ladders.yaml"
    file.write_text(LADDER, encoding="utf-8")
    assert main(["ladders", str(tmp_path), "--file", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "transpose: transposes of 256 by 256, RTX A6000 (900 MHz), somebody/ladder @1234567",
        "  plain   emulated          3.5 us  measured          4.0 us   -12.3%  too few CTAs",
        "  half    emulated          2.6 us  measured          2.5 us    +5.1%  latencies of L2 and DRAM",
        "  padded  emulated          2.4 us  measured          2.6 us    -7.0%  latencies of L2 and DRAM",
        "  3 steps, mean error 8.1%, 1 pair in the wrong order (rank correlation 0.50)",
        "    measured faster, emulated slower: half than padded",
    ]


def test_settings_and_a_step_with_arguments_of_its_own(tmp_path, monkeypatch):
    launches = []

    def launch(cubin, kernel, grid, block, shared, arguments, *, arch, **options):
        launches.append((arch.global_memory.first_touch, [np.size(one) for one in arguments]))
        raise gpuemu.GpuemuError.one("a launch", None, "", "enough", "nothing")

    monkeypatch.setattr(ladders, "load_cubin", lambda *_, **__: SimpleNamespace(kernels=[0]))
    monkeypatch.setattr(gpuemu, "trace_kernel", launch)
    file = tmp_path / "ladders.yaml"
    flushed = LADDER.replace("  measured_in", "  settings: {global_memory.first_touch: dram}\n  measured_in")
    own = '[1, 1], args: ["float32*1024", "float32*1024", "int32 32"]'
    file.write_text(flushed.replace("[8, 8]", own, 1), encoding="utf-8")
    for told in ladders.ladders(file)[0], Ladder(**{**vars(ladders.ladders(file)[0]), "settings": {}}):
        for step in told.steps.values():
            with pytest.raises(gpuemu.GpuemuError):
                ladders.emulate(told, step, tmp_path)
    sizes = [[1024, 1024, 1], [65536, 65536, 1], [65536, 65536, 1]]
    assert launches == [("dram", one) for one in sizes] + [("l2", one) for one in sizes]


def test_steps_that_change_places_are_told_only_beyond_what_their_figures_repeat():
    def step(name: str, emulated: float, measured: float) -> Score:
        return Score(name=name, emulated=emulated, measured=measured)

    steps = [step("a", 10, 10.0), step("b", 8, 9.95), step("c", 9, 5.0), step("d", 1, 1.0)]
    assert inversions(steps, 0.01) == [("c", "b")]
    assert inversions(steps, 0.0) == [("c", "b")]
    assert inversions([step("a", 10, 9.95), step("b", 8, 10.0)], 0.01) == []
    assert rank_correlation(steps) == pytest.approx(0.8)


def test_a_clock_below_the_boost_clock_gives_dram_more_bytes_a_cycle():
    a100 = next(one for one in ladders.ladders() if one.name == "attention_a100")
    chip = a100.architecture().chips["A100 PCIe 80GB"]
    assert (chip.clock_mhz, round(chip.dram_bytes_per_cycle)) == (1110, round(1935 * 0.91 / 1.110))


def test_the_file_names_its_sources_and_a_missing_checkout_is_said(tmp_path, capsys):
    assert main(["ladders", "--list"]) == 0
    assert "sgemm: github.com/siboehm/SGEMM_CUDA @60cba6f" in capsys.readouterr().out
    assert main(["ladders", str(tmp_path), "--ladder", "sgemm"]) == 2
    assert "a checkout of github.com/siboehm/SGEMM_CUDA @60cba6f" in capsys.readouterr().err
    assert Path(MEASURED).exists()
