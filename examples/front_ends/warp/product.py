"""A matrix product by tiles of Warp."""

import numpy as np
import warp as wp

M, N, K = wp.constant(32), wp.constant(32), wp.constant(16)


@wp.kernel
def product(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), c: wp.array2d(dtype=float)):
    i, j = wp.tid()
    total = wp.tile_zeros(shape=(M, N), dtype=float)
    for k in range(a.shape[1] // K):
        left = wp.tile_load(a, shape=(M, K), offset=(i * M, k * K))
        right = wp.tile_load(b, shape=(K, N), offset=(k * K, j * N))
        wp.tile_matmul(left, right, total)
    wp.tile_store(c, total, offset=(i * M, j * N))


a, b = np.random.default_rng(0).standard_normal((2, 128, 128), dtype=np.float32)
c = wp.empty((128, 128), dtype=float, device="cuda")
arguments = [wp.array(a, device="cuda"), wp.array(b, device="cuda"), c]
wp.launch_tiled(product, dim=[4, 4], inputs=arguments, block_dim=128, device="cuda")

print("largest error:", np.abs(c.numpy() - a @ b).max())
