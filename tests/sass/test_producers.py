"""What tensor copies of CTAs bring that were not executed: a persistent kernel whose tiles lie in no straight order."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.image.cubin import Cubin, read_cubin
from gpuemu.sass.tools.toolchain import compile_cuda
from gpuemu.trace.model import Trace

SOURCE = str(Path(__file__).parent / "kernels" / "copies.cu")
CTAS, TILES, STEP, TILE_BYTES = 200, 700, 173, 256


@cache
def cubin() -> Cubin:
    return read_cubin(compile_cuda(SOURCE, "sm_90", "nvrtc", ("--std=c++17",)), SOURCE)


def traced(step: int) -> tuple[Trace, gpuemu.TensorMap]:
    """A launch whose tile t is the one of number t * step, or without a step the one that its data say."""
    tiles = gpuemu.TensorMap(np.full((8 * TILES + 8, 8), 3, np.uint32), box=(8, 8))
    order, out = np.arange(TILES, dtype=np.uint32), np.zeros((CTAS, 64), np.uint32)
    args = [out, order, TILES, step, tiles]
    return gpuemu.trace_kernel(cubin(), "tiles_in_turn", CTAS, 64, args=args, arch="sm_90", timed_only=True), tiles


@pytest.mark.slow
def test_each_copy_of_each_cta_is_told():
    trace, _ = traced(STEP)
    assert trace.sample is not None
    assert trace.sample.copied is not None
    ((pc, found),) = trace.sample.copied.items()
    assert trace.code[pc].mnemonic == "UTMALDG"
    wanted = np.full(found.shape, -1)
    for cta in range(CTAS):
        its = np.arange(cta, TILES, CTAS) * STEP % TILES * TILE_BYTES
        wanted[cta, : len(its)] = its + found[0, 0]
    assert found.tolist() == wanted.tolist()


def test_what_data_decide_is_not():
    trace, _ = traced(0)
    assert trace.sample is not None
    assert not trace.sample.copied


def test_the_launch_asks_for_each_tile_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gpuemu.chip.streams._agreeing", lambda *_: None)  # no order is found
    trace, _ = traced(STEP)
    assert trace.sample is not None
    unknown = replace(trace, sample=replace(trace.sample, first={}))
    arch = gpuemu.load_arch("sm_90").with_overrides({"global_memory.first_touch": "dram"})
    whole = gpuemu.run(unknown, arch).grid.whole
    assert whole is not None
    assert whole.traffic.loaded_sectors == TILES * TILE_BYTES // 32
    assert whole.traffic.dram_read == pytest.approx(TILES * TILE_BYTES, rel=0.05)
