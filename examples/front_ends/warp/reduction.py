"""The softmax of each row with tiles of Warp, and the sum of all by atomics."""

import numpy as np
import warp as wp

ROWS, COLUMNS = wp.constant(64), wp.constant(1024)


@wp.func
def exp(x: float):
    return wp.exp(x)


@wp.kernel
def softmax(x: wp.array2d(dtype=float), out: wp.array2d(dtype=float), total: wp.array(dtype=float)):
    row, _ = wp.tid()
    values = wp.tile_load(x[row], shape=COLUMNS)
    largest = wp.tile_max(values)
    powers = wp.tile_map(exp, values - wp.tile_broadcast(largest, shape=(COLUMNS,)))
    wp.tile_store(out[row], powers * (1.0 / wp.tile_extract(wp.tile_sum(powers), 0)))
    wp.tile_atomic_add(total, wp.tile_sum(values))


x = np.random.default_rng(0).standard_normal((64, 1024), dtype=np.float32)
out, total = wp.empty((64, 1024), dtype=float, device="cuda"), wp.zeros(1, dtype=float, device="cuda")
wp.launch_tiled(softmax, dim=[64], inputs=[wp.array(x, device="cuda"), out, total], block_dim=128, device="cuda")

e = np.exp(x - x.max(axis=1, keepdims=True))
errors = [
    np.abs(out.numpy() - e / e.sum(axis=1, keepdims=True)).max(),
    abs(total.numpy()[0] - x.sum(dtype=np.float64)) / np.abs(x).sum(),
]
print("largest error:", max(errors))
