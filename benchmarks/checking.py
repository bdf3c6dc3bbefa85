"""The cost of `check` with all its tools: python benchmarks/checking.py [--size 1024]

`trace_kernel` and `check` execute a product of n x n float32 matrices by tiles of 32 x 32. Its values are compared with
those of NumPy, and there must be no finding. The figures are processor seconds of both, and their ratio.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gpuemu
from gpuemu.sass.compiled.loading import LOOPS
from gpuemu.sass.tools.disassembly import load_cubin

TILE = 32


def measured(run: Callable[..., Any], n: int, **more: Any) -> tuple[float, Any]:
    """Processor seconds of a run of the product, and what it returns."""
    cubin = load_cubin(Path(__file__).with_name("tiled_product.cu"), "sm_89")
    random = np.random.default_rng(1)
    a, b = (random.random((n, n), np.float32) for _ in range(2))
    c = np.zeros((n, n), np.float32)
    begin = time.process_time()
    found = run(cubin, "tiled_product", (n // TILE, n // TILE), (TILE, TILE), args=[c, a, b, n], **more)
    taken = time.process_time() - begin
    np.testing.assert_allclose(c, a @ b, rtol=1e-3)
    return taken, found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, default=1024, help="rows of the matrices, a multiple of 32")
    size = parser.parse_args().size
    LOOPS.force()
    measured(gpuemu.check, 2 * TILE)
    executed, _ = measured(gpuemu.trace_kernel, size)
    checked, report = measured(gpuemu.check, size)
    assert not report.findings, report
    ratio = checked / executed
    print(f"tiled_product of {size} cubed: executed in {executed:.1f} s, checked in {checked:.1f} s, {ratio:.1f} times")


if __name__ == "__main__":
    main()
