"""a x + y with the CuTe DSL, on arrays of CuPy."""

import cupy as cp
import cutlass
import cutlass.cute as cute
import numpy as np
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def axpy_kernel(a: cutlass.Float32, x: cute.Tensor, y: cute.Tensor, out: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    threads, _, _ = cute.arch.block_dim()
    i = block * threads + thread
    if i < cute.size(x):
        z = a * x[i] + y[i]
        out[i] = cute.math.sqrt(z * z)


@cute.jit
def axpy(a: cutlass.Float32, x: cute.Tensor, y: cute.Tensor, out: cute.Tensor):
    axpy_kernel(a, x, y, out).launch(grid=(cute.ceil_div(cute.size(x), 256), 1, 1), block=(256, 1, 1))


x, y = np.random.default_rng(0).standard_normal((2, 10_000), dtype=np.float32)
out = cp.empty(10_000, cp.float32)
axpy(2.0, from_dlpack(cp.asarray(x)), from_dlpack(cp.asarray(y)), from_dlpack(out))

print("largest error:", np.abs(cp.asnumpy(out) - np.abs(2 * x + y)).max())
