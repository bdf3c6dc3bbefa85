"""a x + y with cuTile, on arrays of CuPy."""

import cuda.tile as ct
import cupy as cp
import numpy as np


@ct.kernel
def axpy(a, x, y, out, TILE: ct.Constant[int]):
    i = ct.bid(0)
    z = a * ct.load(x, index=(i,), shape=(TILE,)) + ct.load(y, index=(i,), shape=(TILE,))
    ct.store(out, index=(i,), tile=ct.sqrt(ct.where(z < 0, -z, z)))


x, y = np.random.default_rng(0).standard_normal((2, 10_000), dtype=np.float32)
out = cp.empty(10_000, cp.float32)
arguments = (2.0, cp.asarray(x), cp.asarray(y), out, 1024)
ct.launch(cp.cuda.get_current_stream(), (ct.cdiv(10_000, 1024), 1, 1), axpy, arguments)

print("largest error:", np.abs(cp.asnumpy(out) - np.sqrt(np.abs(2 * x + y))).max())
