"""A matrix product with an epilogue, by torch.compile's Triton template."""

import numpy as np
import torch

OPTIONS = {
    "max_autotune_gemm": True,
    "max_autotune_gemm_backends": "TRITON",
    "test_configs.max_mm_configs": 2,  # tune over two configurations only
    "benchmark_epilogue_fusion": False,
}


@torch.compile(options=OPTIONS)
def f(a, b):
    return torch.relu(a @ b)


a, b = torch.randn(2, 128, 128, device="cuda", dtype=torch.float16)
c = f(a, b)

a, b = (one.cpu().numpy().astype(np.float32) for one in (a, b))
print("largest error:", np.abs(c.cpu().numpy() - np.maximum(a @ b, 0)).max())
