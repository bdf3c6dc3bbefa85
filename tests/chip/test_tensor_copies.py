"""What tensor copies ask L2 and DRAM for over a whole launch: a product of Triton's whose tiles TMA brings."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

import gpuemu
from gpuemu.chip.copies import _lines
from gpuemu.trace.events import event

CUBIN = Path(__file__).resolve().parents[1] / "sass/other_compilers/triton/cubins/matmul_by_descriptor.sm_90.cubin.xz"
SIDE, DEPTH, TILE = 768, 128, 64


def test_rows_of_a_box_are_lines_of_their_own():
    line, sectors = _lines(np.array(event(shared=0, line=96, count1=2, pitch1=256, **{"global": 64})))
    assert line.tolist() == [0, 128, 256, 384]
    assert sectors.tolist() == [12, 1, 12, 1]


@pytest.mark.slow
def test_tiles_are_asked_for_by_all_ctas_and_come_from_dram_once(tmp_path: Path):
    path = tmp_path / "product.cubin"
    path.write_bytes(lzma.decompress(CUBIN.read_bytes()))
    a, b = (np.full(SIDE * DEPTH, 0.5, np.float16) for _ in range(2))
    c, grid = np.zeros(SIDE * SIDE, np.float16), SIDE // TILE
    scratch = np.zeros(grid * grid * 384, np.uint8)
    trace = gpuemu.trace_kernel(
        path,
        None,
        (grid, grid, 1),
        128,
        49_184,
        [a, b, c, SIDE, SIDE, DEPTH, scratch, 0],
        arch="sm_90",
        timed_only=True,
    )
    arch = gpuemu.load_arch("sm_90").with_overrides({"global_memory.first_touch": "dram"})
    whole = gpuemu.run(trace, arch).grid.whole
    assert whole is not None
    asked = grid * grid * DEPTH * 2 * TILE * 2 // 32
    assert whole.traffic.loaded_sectors == pytest.approx(asked, rel=0.05)
    assert whole.traffic.dram_read == pytest.approx(2 * SIDE * DEPTH * 2 + len(scratch), rel=0.02)
    assert whole.traffic.stored_sectors == pytest.approx(SIDE * SIDE * 2 // 32, rel=0.05)
