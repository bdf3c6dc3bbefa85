"""a x + y by an elementwise kernel of CuPy, and a universal function."""

import cupy as cp
import numpy as np

axpy = cp.ElementwiseKernel("T a, T x, T y", "T z", "z = a * x + y", "axpy")

rng = np.random.default_rng(0)
x, y = rng.standard_normal((2, 10_000), dtype=np.float32)
z = cp.sqrt(cp.abs(axpy(np.float32(2), cp.asarray(x), cp.asarray(y))))

print("largest error:", np.abs(cp.asnumpy(z) - np.sqrt(np.abs(2 * x + y))).max())
