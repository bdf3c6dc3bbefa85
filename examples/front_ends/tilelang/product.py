"""A pipelined matrix product with TileLang, on arrays of CuPy."""

import cupy as cp
import numpy as np
import tilelang
import tilelang.language as T


@tilelang.jit(target={"kind": "cuda", "arch": "sm_90a"})
def product(m, n, k, bm=64, bn=64, bk=32):
    @T.prim_func
    def main(a: T.Tensor((m, k), T.float16), b: T.Tensor((k, n), T.float16), c: T.Tensor((m, n), T.float32)):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=128) as (column, row):
            left = T.alloc_shared((bm, bk), T.float16)
            right = T.alloc_shared((bk, bn), T.float16)
            total = T.alloc_fragment((bm, bn), T.float32)
            T.clear(total)
            for step in T.Pipelined(T.ceildiv(k, bk), num_stages=3):
                T.copy(a[row * bm, step * bk], left)
                T.copy(b[step * bk, column * bn], right)
                T.gemm(left, right, total)
            T.copy(total, c[row * bm, column * bn])

    return main


a, b = np.random.default_rng(0).standard_normal((2, 128, 128)).astype(np.float16)
c = cp.empty((128, 128), cp.float32)
product(128, 128, 128)(cp.asarray(a), cp.asarray(b), c)

print("largest error:", np.abs(cp.asnumpy(c) - a.astype(np.float32) @ b.astype(np.float32)).max())
