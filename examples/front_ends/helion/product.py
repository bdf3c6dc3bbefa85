"""A matrix product with Helion."""

import helion
import helion.language as hl
import numpy as np
import torch


@helion.kernel(config=helion.Config(block_sizes=[64, 64, 32], num_warps=4, num_stages=3))
def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    m, k = a.size()
    n = b.size(1)
    out = torch.empty([m, n], dtype=torch.float32, device=a.device)
    for rows, columns in hl.tile([m, n]):
        total = hl.zeros([rows, columns], dtype=torch.float32)
        for inner in hl.tile(k):
            total = torch.addmm(total, a[rows, inner], b[inner, columns])
        out[rows, columns] = total
    return out


a, b = torch.randn(2, 128, 128, device="cuda", dtype=torch.float16)
c = product(a, b)

a, b = (one.cpu().numpy().astype(np.float32) for one in (a, b))
print("largest error:", np.abs(c.cpu().numpy() - a @ b).max())
