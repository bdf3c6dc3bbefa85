"""The norm of each row by a reduction kernel of CuPy, and sums by its functions."""

import cupy as cp
import numpy as np

row_norm = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "row_norm")

x = np.random.default_rng(0).standard_normal((64, 1000), dtype=np.float32)
on_device = cp.asarray(x)
errors = [
    np.abs(cp.asnumpy(row_norm(on_device, axis=1)) / np.linalg.norm(x, axis=1) - 1).max(),
    np.abs(cp.asnumpy(on_device.sum(axis=1)) - x.sum(axis=1, dtype=np.float64)).max() / 1000,
    abs(float(on_device.max()) - x.max()),
    abs(float(cp.abs(on_device).sum()) / np.abs(x).sum(dtype=np.float64) - 1),
]

print("largest error:", max(errors))
