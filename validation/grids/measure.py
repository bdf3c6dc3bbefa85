"""Launches every grid on this machine's GPU, for the profiler to count: see README.md. Needs CuPy and NumPy.

    ncu ... python -m validation.grids.measure kernels.cubin 5      # five launches of each are profiled

Each grid is launched twice before, so that caches hold what a launch leaves behind.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np

from validation.grids.launches import argument, grids

BEFORE = 2


def main(cubin: str, launches: int) -> None:
    """Launch all; the profiler sees `launches` of each."""
    cupy: Any = import_module("cupy")
    module = cupy.RawModule(path=cubin)
    for grid in grids():
        function = module.get_function(grid.kernel)
        function.max_dynamic_shared_size_bytes = grid.shared
        made = [argument(text) for text in grid.args]
        args = [cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in made]
        words = [a for text, a in zip(grid.args, args, strict=True) if text == "zeros:i32:1"]
        for number in range(BEFORE + launches):
            for word in words:  # each launch begins with an empty queue
                word.fill(0)
            cupy.cuda.Device().synchronize()
            if number >= BEFORE:
                cupy.cuda.profiler.start()
            function(grid.grid, grid.block, tuple(args), shared_mem=grid.shared)
            cupy.cuda.Device().synchronize()
            if number >= BEFORE:
                cupy.cuda.profiler.stop()
        del args, words
        cupy.get_default_memory_pool().free_all_blocks()
    print(len(grids()), "grids")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
