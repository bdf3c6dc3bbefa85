"""From a kernel of one's own to the line that costs most, and what its bank conflicts cost.

    python examples/costliest_line.py [KERNEL.cu]

A kernel of your own needs its launch and arguments below. You need no GPU.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import gpuemu

KERNEL = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "kernels" / "transpose.cu"
ARCH = "sm_89"

matrix = np.arange(1024, dtype=np.float32).reshape(32, 32)
out = np.zeros_like(matrix)
trace = gpuemu.trace_kernel(KERNEL, grid=1, block=256, args=[matrix, out], arch=ARCH)
result = gpuemu.run(trace, ARCH)

# Arrays hold what the kernel stored, so its result can be looked at first.
assert (out == matrix.T).all()

# A record for each source line, under the profiler's names.
lines = sorted(result.records("lines"), key=lambda line: -line["Warp Stall Cycles"])
print(f"{result.cycles} cycles; the lines with most of them:")
for line in lines[:3]:
    print(f"  {line['Place']}: {line['Warp Stall Cycles']} cycles of all warps")

# What would be gained without the conflicts of each line? Each answer is a run of its own.
answer = gpuemu.why(trace, ARCH, by="line")
for row in answer.rows:
    if row.cause.name.startswith("conflicts@"):
        print(f"without the conflicts of {row.cause.name.removeprefix('conflicts@')}: {row.gained} cycles less")
