"""The transpose does what it should, and without bank conflicts."""

import numpy as np
import pytest

TILE = np.arange(1024, dtype=np.float32).reshape(32, 32)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_tile_is_transposed_without_conflicts(gpu_kernel, arch):
    out = np.zeros_like(TILE)
    run = gpu_kernel("../kernels/tile.cu", block=(32, 8), args=[TILE, out], arch=arch)
    np.testing.assert_array_equal(out, TILE.T)
    assert run.excess_wavefronts == 0
    assert run.excess_sectors == 0


def test_rows_without_padding_cost_conflicts(gpu_kernel):
    run = gpu_kernel("../kernels/tile.cu", block=(32, 8), args=[TILE, np.zeros_like(TILE)], options=["-DPITCH=32"])
    assert run["shared_load.excess_wavefronts"] == 31 * run["shared_load.instructions"]
