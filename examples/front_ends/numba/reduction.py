"""A sum by numba's reduction, and sums of rows in shared memory."""

import numba
import numpy as np
from numba import cuda

THREADS = 128


@cuda.reduce
def total(a, b):
    return a + b


@cuda.jit
def row_sums(x, out):
    part = cuda.shared.array(THREADS, numba.float32)
    row, thread = cuda.blockIdx.x, cuda.threadIdx.x
    mine = numba.float32(0)
    for column in range(thread, x.shape[1], THREADS):
        mine += x[row, column]
    part[thread] = mine
    cuda.syncthreads()
    width = THREADS // 2
    while width > 0:
        if thread < width:
            part[thread] += part[thread + width]
        cuda.syncthreads()
        width //= 2
    if thread == 0:
        out[row] = part[0]


x = np.random.default_rng(0).standard_normal((64, 1000), dtype=np.float32)
on_device, out = cuda.to_device(x), cuda.device_array(64, np.float32)
row_sums[64, THREADS](on_device, out)
found = total(on_device.reshape(-1))
errors = np.abs(out.copy_to_host() - x.sum(axis=1, dtype=np.float64)).max(), abs(found - x.sum(dtype=np.float64))

print("largest error:", max(errors))
