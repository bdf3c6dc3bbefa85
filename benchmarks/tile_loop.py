"""The saved trace of a tile loop: one CTA of half_product.cu, 128x128 in steps of 32 along K, code for sm_90."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import gpuemu
from gpuemu.trace.recorded import write_trace


def saved(folder: Path, k: int) -> tuple[Path, int]:
    """Record and write it; returns the file, and how many warp instructions it has."""
    halves = [np.zeros((128, k), np.float16) for _ in "ab"]
    arguments = [*halves, np.zeros((128, 128), np.float32), 128, k]
    source = Path(__file__).with_name("half_product.cu")
    trace = gpuemu.trace_kernel(source, block=256, args=arguments, arch="sm_90")
    (path,) = write_trace(trace, folder / f"tile_loop_{k}.yaml")
    return path, trace.executed_instructions
