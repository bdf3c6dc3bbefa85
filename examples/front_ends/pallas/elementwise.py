"""a x + y with Pallas."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu


def axpy(x, y, out):
    out[...] = jnp.sqrt(jnp.abs(2 * x[...] + y[...]))


x, y = np.random.default_rng(0).standard_normal((2, 8192), dtype=np.float32)
block = pl.BlockSpec((1024,), lambda i: (i,))
call = pl.pallas_call(
    axpy,
    out_shape=jax.ShapeDtypeStruct((8192,), jnp.float32),
    grid=(8,),
    in_specs=[block, block],
    out_specs=block,
    compiler_params=plgpu.CompilerParams(num_warps=4),
)
out = jax.jit(call)(x, y)

print("largest error:", np.abs(np.asarray(out) - np.sqrt(np.abs(2 * x + y))).max())
