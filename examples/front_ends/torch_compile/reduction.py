"""A layer norm, compiled into one kernel by torch.compile."""

import numpy as np
import torch


@torch.compile
def normalized(x, weight, bias):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias)


x, (weight, bias) = torch.randn(64, 1000, device="cuda"), torch.randn(2, 1000, device="cuda")
out = normalized(x, weight, bias)

x, weight, bias, out = (one.cpu().numpy() for one in (x, weight, bias, out))
right = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5) * weight + bias
print("largest error:", np.abs(out - right).max())
