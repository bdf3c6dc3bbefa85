"""The softmax of each row with cuTile, on arrays of CuPy."""

import cuda.tile as ct
import cupy as cp
import numpy as np


@ct.kernel
def softmax(x, out, COLUMNS: ct.Constant[int]):
    row = ct.bid(0)
    values = ct.load(x, index=(row, 0), shape=(1, COLUMNS))
    values = ct.exp(values - ct.max(values, axis=1, keepdims=True))
    ct.store(out, index=(row, 0), tile=values / ct.sum(values, axis=1, keepdims=True))


x = np.random.default_rng(0).standard_normal((64, 1024), dtype=np.float32)
out = cp.empty_like(x)
ct.launch(cp.cuda.get_current_stream(), (64, 1, 1), softmax, (cp.asarray(x), out, 1024))

e = np.exp(x - x.max(axis=1, keepdims=True))
print("largest error:", np.abs(cp.asnumpy(out) - e / e.sum(axis=1, keepdims=True)).max())
