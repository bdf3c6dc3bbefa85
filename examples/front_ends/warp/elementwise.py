"""a x + y with Warp."""

import numpy as np
import warp as wp


@wp.kernel
def axpy(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.sqrt(wp.abs(a * x[i] + y[i]))


x, y = np.random.default_rng(0).standard_normal((2, 10_000), dtype=np.float32)
out = wp.zeros(10_000, dtype=float, device="cuda")
arguments = [2.0, wp.array(x, dtype=float, device="cuda"), wp.array(y, dtype=float, device="cuda")]
wp.launch(axpy, dim=10_000, inputs=arguments, outputs=[out], device="cuda")

print("largest error:", np.abs(out.numpy() - np.sqrt(np.abs(2 * x + y))).max())
