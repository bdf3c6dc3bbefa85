"""IMAD.WIDE, IMAD.HI, DFMA and HMMA beside products of warpgroups, as tools/hopper/wide.py measured them on an H200."""

from __future__ import annotations

import csv
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import gpuemu
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.tools.disassembly import load_cubin

FOLDER = Path(__file__).resolve().parents[2] / "tools" / "hopper"
COLUMNS, COUNTS = (64, 128, 256), (1, 4)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Cubin:
    file = tmp_path_factory.mktemp("wide") / "wide.cu"
    parts = [FOLDER / name for name in ("steps_common.cuh", "products.cuh", "wide.cu")]
    file.write_text("".join(part.read_text(encoding="utf-8") for part in parts), encoding="utf-8")
    return load_cubin(file, "sm_90a", "nvrtc")


@pytest.fixture(scope="module")
def measured() -> dict[tuple[str, int], int]:
    """The cycles until the instructions of all warps of one warpgroup have issued, and until the products are done."""
    with (FOLDER / "h200/wide.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    at_once = [row for row in rows if (row["threads"], row["told"]) == ("128", "mask=255 stagger=0")]
    return {(row["kernel"], int(row["what"])): int(row["cycles"]) for row in at_once}


@pytest.mark.slow
@pytest.mark.parametrize("how", [1, 2, 3, 4], ids=["IMAD.WIDE", "IMAD.HI", "DFMA", "HMMA"])
def test_they_take_the_cycles_that_an_h200_takes(
    kernels: Cubin, measured: dict[tuple[str, int], int], how: int
) -> None:
    for columns, count in product(COLUMNS, COUNTS):
        kernel = f"within_{columns}_{how}_{count}"
        arguments = np.zeros(16 * 12, np.uint32), 255, 0
        trace = gpuemu.trace_kernel(kernels, kernel, block=128, dynamic_shared_bytes=160 * 1024, args=arguments)
        reads = np.array(gpuemu.run(trace, "sm_90").warps[0].clock_reads).reshape(12, 4)[4:]
        if how > 2:  # they wait until the products are done
            assert np.median(reads[:, 3] - reads[:, 2]) < 5, kernel
        elif count > 1:  # the clock right behind a single instruction may be read before that waits
            assert np.median(reads[:, 2] - reads[:, 1]) == pytest.approx(measured[kernel, 0], abs=21), kernel
        assert np.median(reads[:, 3] - reads[:, 0]) == pytest.approx(measured[kernel, 8], abs=10), kernel
