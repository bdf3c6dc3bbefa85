"""The softmax of each row with TileLang, on arrays of CuPy."""

import cupy as cp
import numpy as np
import tilelang
import tilelang.language as T


@tilelang.jit(target="cuda")
def softmax(rows, columns):
    @T.prim_func
    def main(x: T.Tensor((rows, columns), T.float32), out: T.Tensor((rows, columns), T.float32)):
        with T.Kernel(rows, threads=128) as row:
            values = T.alloc_fragment((1, columns), T.float32)
            largest, total = T.alloc_fragment((1,), T.float32), T.alloc_fragment((1,), T.float32)
            T.copy(x[row, 0], values)
            T.reduce_max(values, largest, dim=1)
            for i, j in T.Parallel(1, columns):
                values[i, j] = T.exp(values[i, j] - largest[i])
            T.reduce_sum(values, total, dim=1)
            for i, j in T.Parallel(1, columns):
                values[i, j] = values[i, j] / total[i]
            T.copy(values, out[row, 0])

    return main


x = np.random.default_rng(0).standard_normal((64, 1024), dtype=np.float32)
out = cp.empty((64, 1024), cp.float32)
softmax(64, 1024)(cp.asarray(x), out)

e = np.exp(x - x.max(axis=1, keepdims=True))
print("largest error:", np.abs(cp.asnumpy(out) - e / e.sum(axis=1, keepdims=True)).max())
