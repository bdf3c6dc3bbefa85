"""a x + y with numba-cuda."""

import math

import numpy as np
from numba import cuda


@cuda.jit
def axpy(a, x, y, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = math.sqrt(abs(a * x[i] + y[i]))


x, y = np.random.default_rng(0).standard_normal((2, 10_000), dtype=np.float32)
out = cuda.device_array_like(x)
axpy[(x.size + 255) // 256, 256](np.float32(2), cuda.to_device(x), cuda.to_device(y), out)

print("largest error:", np.abs(out.copy_to_host() - np.sqrt(np.abs(2 * x + y))).max())
