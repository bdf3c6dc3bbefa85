"""A matrix product with Pallas."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

M, N, K = 64, 64, 32


def product(a, b, c):
    def step(k, total):
        inner = pl.ds(k * K, K)
        return total + jnp.dot(a[:, inner], b[inner, :], preferred_element_type=jnp.float32)

    c[...] = jax.lax.fori_loop(0, a.shape[1] // K, step, jnp.zeros((M, N), jnp.float32))


a, b = np.random.default_rng(0).standard_normal((2, 128, 128)).astype(np.float16)
c = pl.pallas_call(
    product,
    out_shape=jax.ShapeDtypeStruct((128, 128), jnp.float32),
    grid=(2, 2),
    in_specs=[pl.BlockSpec((M, 128), lambda i, j: (i, 0)), pl.BlockSpec((128, N), lambda i, j: (0, j))],
    out_specs=pl.BlockSpec((M, N), lambda i, j: (i, j)),
    compiler_params=plgpu.CompilerParams(num_warps=4, num_stages=2),
)(a, b)

print("largest error:", np.abs(np.asarray(c) - a.astype(np.float32) @ b.astype(np.float32)).max())
