"""a x + y with TileLang, on arrays of CuPy."""

import cupy as cp
import numpy as np
import tilelang
import tilelang.language as T


@tilelang.jit(target="cuda")
def axpy(n, block=1024):
    @T.prim_func
    def main(a: T.float32, x: T.Tensor((n,), T.float32), y: T.Tensor((n,), T.float32), out: T.Tensor((n,), T.float32)):
        with T.Kernel(T.ceildiv(n, block), threads=128) as b:
            for i in T.Parallel(block):
                if b * block + i < n:
                    out[b * block + i] = T.sqrt(T.abs(a * x[b * block + i] + y[b * block + i]))

    return main


x, y = np.random.default_rng(0).standard_normal((2, 10_000), dtype=np.float32)
out = cp.empty(10_000, cp.float32)
axpy(10_000)(2.0, cp.asarray(x), cp.asarray(y), out)

print("largest error:", np.abs(cp.asnumpy(out) - np.sqrt(np.abs(2 * x + y))).max())
