"""Gluon's loads by descriptors of im2col, on arrays of the host."""

from __future__ import annotations

import numpy as np
import pytest
from triton.experimental import gluon
from triton.experimental.gluon import language as ttgl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptorIm2Col

import gpuemu
from gpuemu.triton.arguments import HostArray


@gluon.jit
def column(desc, out, n, h, w, c, PIXELS: ttgl.constexpr, CHANNELS: ttgl.constexpr):
    shared = ttgl.allocate_shared_memory(desc.dtype, desc.block_shape, desc.layout)
    barrier = mbarrier.allocate_mbarrier()
    mbarrier.init(barrier, count=1)
    mbarrier.expect(barrier, desc.block_type.nbytes)
    tma.async_load_im2col(desc, [n, h, w, c], [1, 2], barrier, shared)
    mbarrier.wait(barrier, phase=0)
    mbarrier.invalidate(barrier)
    layout: ttgl.constexpr = ttgl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0])
    rows = ttgl.arange(0, PIXELS, ttgl.SliceLayout(1, layout))
    columns = ttgl.arange(0, CHANNELS, ttgl.SliceLayout(0, layout))
    ttgl.store(out + rows[:, None] * CHANNELS + columns[None, :], shared.load(layout))


@pytest.mark.parametrize("arch", ["sm_90", "sm_100"])
def test_a_descriptor_of_im2col_loads_its_columns(arch: str) -> None:
    images = np.random.default_rng(2).integers(-99, 100, (2, 6, 8, 64)).astype(np.float16)
    out = np.zeros((32, 32), np.float16)
    strides = [size // 2 for size in images.strides]
    swizzled = ttgl.NVMMASharedLayout.get_default_for([32, 32], ttgl.float16)
    corners = {"pixel_box_lower_corner": [0, 0], "pixel_box_upper_corner": [-2, -2]}
    base = images.view(HostArray)
    desc = TensorDescriptorIm2Col(base, list(images.shape), strides, [32, 32], swizzled, **corners)
    with gpuemu.triton.device(arch):
        column[(1,)](desc, out.view(HostArray), 0, 1, 3, 16, 32, 32)
    expected, n, h, w = np.zeros_like(out), 0, 1, 3
    for pixel in range(32):
        expected[pixel] = images[n, h + 1, w + 2, 16:48]
        w += 1
        if w > 5:
            w, h = 0, h + 1
        if h > 3:
            h, n = 0, n + 1
    np.testing.assert_array_equal(out, expected)
