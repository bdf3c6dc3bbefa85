"""The softmax of each row with Pallas."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu


def softmax(x, out):
    values = jnp.exp(x[...] - jnp.max(x[...], axis=1, keepdims=True))
    out[...] = values / jnp.sum(values, axis=1, keepdims=True)


x = np.random.default_rng(0).standard_normal((64, 1024), dtype=np.float32)
block = pl.BlockSpec((1, 1024), lambda i: (i, 0))
out = pl.pallas_call(
    softmax,
    out_shape=jax.ShapeDtypeStruct((64, 1024), jnp.float32),
    grid=(64,),
    in_specs=[block],
    out_specs=block,
    compiler_params=plgpu.CompilerParams(num_warps=4),
)(x)

e = np.exp(x - x.max(axis=1, keepdims=True))
print("largest error:", np.abs(np.asarray(out) - e / e.sum(axis=1, keepdims=True)).max())
