"""A tuned matrix product with Triton."""

import numpy as np
import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BM": bm, "BN": 64, "BK": 32}, num_warps=4, num_stages=3) for bm in (32, 64)]


@triton.autotune(CONFIGS, key=["m", "n", "k"])
@triton.jit
def product(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, columns = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        left = tl.load(a + rows[:, None] * k + start + inner[None, :])
        right = tl.load(b + (start + inner)[:, None] * n + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total)


a, b = torch.randn(2, 128, 128, device="cuda", dtype=torch.float16)
c = torch.empty(128, 128, device="cuda")
product[lambda meta: (128 // meta["BM"], 128 // meta["BN"])](a, b, c, 128, 128, 128)

a, b = (one.cpu().numpy().astype(np.float32) for one in (a, b))
print("largest error:", np.abs(c.cpu().numpy() - a @ b).max())
