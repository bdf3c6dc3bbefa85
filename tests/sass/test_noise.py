"""Registers and shared memory that nobody has written hold zeros, or random bits of a seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.machine.lanes import PT, RZ, URZ, WARP, Lanes

KERNEL = """
extern "C" __global__ void k(unsigned *out) {
    __shared__ unsigned words[64];
    if (out[0] == 1) words[threadIdx.x] = 0;
    out[blockIdx.x * 64 + threadIdx.x] = words[threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("noise") / "k.cu"
    file.write_text(KERNEL)
    return file


def executed(kernel: Path, noise: int | None) -> np.ndarray:
    out = np.zeros(128, np.uint32)
    gpuemu.trace_kernel(kernel, grid=2, block=64, args=[out], arch="sm_89", zero_shared=True, noise=noise)
    return out


@pytest.mark.slow
def test_unwritten_shared_memory_is_zero_or_random(kernel: Path) -> None:
    assert not executed(kernel, None).any()
    first, again, other = executed(kernel, 1), executed(kernel, 1), executed(kernel, 2)
    assert (first == again).all()
    assert (first != other).any()
    assert len(np.unique(first)) > 32


def test_registers_are_random_and_the_constant_ones_stay() -> None:
    lanes = Lanes(48, noise=3)
    assert len(np.unique(lanes.registers[:8])) > 256
    assert not lanes.registers[RZ].any()
    assert not lanes.uniform_registers[URZ].any()
    assert lanes.predicates[PT].all()
    assert lanes.uniform_predicates[PT].all()
    warps = lanes.uniform_registers.reshape(-1, lanes.warps, WARP)
    assert (warps == warps[:, :, :1]).all(), "uniform registers are equal in all lanes of a warp"
    before = lanes.registers.copy()
    lanes.registers[0] = 7
    lanes.reset()
    assert (lanes.registers == before).all()


def test_new_lanes_take_memory_only_for_registers_in_use() -> None:
    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096

    if not Path("/proc/self/statm").exists():
        pytest.skip("no /proc")
    before = resident_bytes()
    lanes = Lanes(1 << 17)
    lanes.registers[3] = 1
    assert resident_bytes() - before < 1 << 24, "all registers are 200 MB"
