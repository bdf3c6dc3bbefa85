"""A matrix product in tiles of shared memory with numba-cuda."""

import numba
import numpy as np
from numba import cuda

TILE = 16


@cuda.jit
def product(a, b, c):
    left = cuda.shared.array((TILE, TILE), numba.float32)
    right = cuda.shared.array((TILE, TILE), numba.float32)
    row, column = cuda.grid(2)
    y, x = cuda.threadIdx.x, cuda.threadIdx.y
    total = numba.float32(0)
    for start in range(0, a.shape[1], TILE):
        left[y, x] = a[row, start + x]
        right[y, x] = b[start + y, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += left[y, k] * right[k, x]
        cuda.syncthreads()
    c[row, column] = total


a, b = np.random.default_rng(0).standard_normal((2, 128, 128), dtype=np.float32)
c = cuda.device_array((128, 128), np.float32)
product[(8, 8), (TILE, TILE)](cuda.to_device(a), cuda.to_device(b), c)

print("largest error:", np.abs(c.copy_to_host() - a @ b).max())
