"""a x + y with Helion."""

import helion
import helion.language as hl
import numpy as np
import torch


@helion.kernel(config=helion.Config(block_sizes=[1024]))
def axpy(a: float, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile] = torch.sqrt(torch.abs(a * x[tile] + y[tile]))
    return out


x, y = torch.randn(2, 10_000, device="cuda")
z = axpy(2.0, x, y)

x, y, z = (one.cpu().numpy() for one in (x, y, z))
print("largest error:", np.abs(z - np.sqrt(np.abs(2 * x + y))).max())
