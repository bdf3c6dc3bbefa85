"""A matrix product with cuTile, on arrays of CuPy."""

import cuda.tile as ct
import cupy as cp
import numpy as np


@ct.kernel
def product(a, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int]):
    row, column = ct.bid(0), ct.bid(1)
    total = ct.full((M, N), 0, ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(M, K))):
        left = ct.load(a, index=(row, k), shape=(M, K))
        right = ct.load(b, index=(k, column), shape=(K, N))
        total = ct.mma(left, right, total)
    ct.store(c, index=(row, column), tile=total)


a, b = np.random.default_rng(0).standard_normal((2, 128, 128)).astype(np.float16)
c = cp.empty((128, 128), cp.float32)
stream = cp.cuda.get_current_stream()
ct.launch(stream, (2, 2, 1), product, (cp.asarray(a), cp.asarray(b), c, 64, 64, 64))

print("largest error:", np.abs(cp.asnumpy(c) - a.astype(np.float32) @ b.astype(np.float32)).max())
