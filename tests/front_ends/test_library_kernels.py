"""Triton kernels of Liger, flash-linear-attention, torchao and unsloth, against PyTorch's own operations."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from comparing import MOST, apart, apart_with_gradients, needs, numbers

pytestmark = pytest.mark.slow
FP8 = 0.0625
"""Half the distance of neighboring e4m3 numbers."""


def sparsemax(torch: Any, x: Any) -> Any:
    """The nearest point of the simplex to each row."""
    falling = x.sort(-1, descending=True).values
    above = falling.cumsum(-1) - 1
    support = (falling * torch.arange(1, x.shape[-1] + 1) > above).sum(-1, keepdim=True)
    return (x - above.gather(-1, support - 1) / support).clamp(min=0)


LIGER: dict[str, tuple[str, str, Callable[..., Any], list[tuple[int, ...]], tuple[Any, ...]]] = {
    "rms_norm": (
        "rms_norm", "LigerRMSNormFunction",
        lambda t, x, w: x * t.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w, [(8, 256), (256,)], (1e-6,),
    ),
    "layer_norm": (
        "layer_norm", "LigerLayerNormFunction",
        lambda t, x, w, b: t.nn.functional.layer_norm(x, (256,), w, b, 1e-5), [(8, 256), (256,), (256,)], (1e-5,),
    ),
    "group_norm": (
        "group_norm", "LigerGroupNormFunction",
        lambda t, x, w, b: t.nn.functional.group_norm(x, 2, w, b, 1e-5), [(2, 8, 32), (8,), (8,)], (8, 2, 1e-5),
    ),
    "swiglu": (
        "swiglu", "LigerSiLUMulFunction", lambda t, a, b: t.nn.functional.silu(a) * b, [(8, 256), (8, 256)], (),
    ),
    "geglu": (
        "geglu", "LigerGELUMulFunction", lambda t, a, b: t.nn.functional.gelu(a, approximate="tanh") * b,
        [(8, 256), (8, 256)], (),
    ),
    "softmax": ("softmax", "LigerSoftmaxFunction", lambda t, a: a.softmax(-1), [(8, 256)], ()),
    "sparsemax": ("sparsemax", "LigerSparsemaxFunction", lambda t, a: sparsemax(t, a), [(8, 256)], (-1,)),
}  # fmt: skip
"""Kernel → module, class, PyTorch's operation, shapes of the inputs, and further arguments."""


@pytest.mark.parametrize("name", LIGER)
def test_a_kernel_of_liger_and_its_backward_pass(torch: Any, name: str) -> None:
    needs("liger_kernel")
    module, kind, right, shapes, more = LIGER[name]
    function = getattr(importlib.import_module(f"liger_kernel.ops.{module}"), kind)
    inputs = numbers(torch, *shapes)
    found = apart_with_gradients(
        torch, lambda *given: function.apply(*given, *more), lambda *given: right(torch, *given), *inputs
    )
    assert found <= MOST


def test_cross_entropies_of_liger(torch: Any) -> None:
    needs("liger_kernel")
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
    from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction

    entropy, targets = torch.nn.functional.cross_entropy, torch.randint(256, (16,))
    plain = apart_with_gradients(
        torch, lambda x: LigerCrossEntropyFunction.apply(x * 1.0, targets, None)[0], lambda x: entropy(x, targets),
        *numbers(torch, (16, 256)),
    )  # fmt: skip
    fused = apart_with_gradients(
        torch, lambda x, w: LigerFusedLinearCrossEntropyFunction.apply(x, w, targets)[0],
        lambda x, w: entropy(x @ w.T, targets), *numbers(torch, (16, 64), (256, 64)),
    )  # fmt: skip
    assert max(plain, fused) <= MOST


def test_distances_of_distributions_of_liger(torch: Any) -> None:
    needs("liger_kernel")
    from liger_kernel.ops.kl_div import LigerKLDivLossFunction
    from liger_kernel.ops.tvd import LigerTVDLossFunction

    (right,) = numbers(torch, (8, 256))
    right = right.softmax(-1)
    divergence = apart_with_gradients(
        torch, lambda x: LigerKLDivLossFunction.apply(x, right, "batchmean", False, 1e-10),
        lambda x: torch.nn.functional.kl_div(x, right, reduction="batchmean"),
        numbers(torch, (8, 256))[0].log_softmax(-1),
    )  # fmt: skip
    variation = apart_with_gradients(
        torch, lambda x: LigerTVDLossFunction.apply(x, right, None, "batchmean", -100),
        lambda x: (x - right).abs().sum() / 16, numbers(torch, (8, 256))[0].softmax(-1),
    )  # fmt: skip
    assert max(divergence, variation) <= MOST


def test_embeddings_of_liger(torch: Any) -> None:
    needs("liger_kernel")
    from liger_kernel.ops.experimental.embedding import LigerEmbeddingFunction
    from liger_kernel.ops.rope import LigerRopeFunction

    words = torch.randint(64, (32,))
    assert apart_with_gradients(
        torch, lambda w: LigerEmbeddingFunction.apply(w, words), lambda w: torch.nn.functional.embedding(words, w),
        *numbers(torch, (64, 128)),
    ) <= MOST  # fmt: skip
    queries, keys = numbers(torch, (1, 4, 16, 32), (1, 2, 16, 32))
    angles = torch.outer(torch.arange(16.0), 1e4 ** (-torch.arange(0, 32, 2) / 32))
    cosines, sines = (f(torch.cat([angles, angles], -1))[None] for f in (torch.cos, torch.sin))
    turned = LigerRopeFunction.apply(queries.clone(), keys.clone(), cosines, sines)
    for found, x in zip(turned, (queries, keys), strict=True):
        across = torch.cat([-x[..., 16:], x[..., :16]], -1)
        assert apart(found, x * cosines[:, None] + across * sines[:, None]) <= MOST


def test_norms_and_sums_of_flash_linear_attention(torch: Any) -> None:
    needs("fla")
    from fla.modules.l2norm import l2norm
    from fla.modules.layernorm import rms_norm
    from fla.ops.utils.cumsum import chunk_global_cumsum

    x, w = numbers(torch, (8, 128), (128,))
    assert apart(l2norm(x), torch.nn.functional.normalize(x, dim=-1)) <= MOST
    assert apart(rms_norm(x, w, None, eps=1e-5), x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w) <= MOST
    (x,) = numbers(torch, (1, 64, 2))
    assert apart(chunk_global_cumsum(x), x.cumsum(1)) <= MOST


def test_retention_of_flash_linear_attention(torch: Any) -> None:
    needs("fla")
    from fla.ops.retention import fused_recurrent_retention

    q, k, v = numbers(torch, *[(1, 16, 2, 32)] * 3)
    found, _ = fused_recurrent_retention(q, k, v)
    state, right = torch.zeros(1, 2, 32, 32), []
    decay = (1 - 2.0 ** (-5 - torch.arange(2).float()))[None, :, None, None]
    for t in range(16):
        state = state * decay + k[:, t][..., None] * v[:, t][:, :, None]
        right.append((q[:, t][..., None] * 32**-0.5 * state).sum(2))
    assert apart(found, torch.stack(right, 1)) <= MOST


def test_a_recurrence_of_flash_linear_attention(torch: Any) -> None:
    needs("fla")
    from fla.ops.gla import fused_recurrent_gla

    q, k, v, g = numbers(torch, *[(1, 16, 2, 32)] * 4)
    g = torch.nn.functional.logsigmoid(g)
    found, _ = fused_recurrent_gla(q, k, v, g)
    state, right = torch.zeros(1, 2, 32, 32), []
    for t in range(16):
        state = state * g[:, t].exp()[..., None] + k[:, t][..., None] * v[:, t][:, :, None]
        right.append((q[:, t][..., None] * 32**-0.5 * state).sum(2))
    assert apart(found, torch.stack(right, 1)) <= MOST


def test_the_delta_rule_of_flash_linear_attention(torch: Any) -> None:
    needs("fla")
    from fla.ops.delta_rule import fused_recurrent_delta_rule

    q, k, v = numbers(torch, *[(1, 16, 2, 32)] * 3)
    k, beta = torch.nn.functional.normalize(k, dim=-1), torch.rand(1, 16, 2)
    found, _ = fused_recurrent_delta_rule(q, k, v, beta)
    state, right = torch.zeros(1, 2, 32, 32), []
    for t in range(16):
        wrong = v[:, t] - torch.einsum("bhkv,bhk->bhv", state, k[:, t])
        state = state + k[:, t][..., None] * (beta[:, t][..., None] * wrong)[:, :, None]
        right.append(torch.einsum("bhkv,bhk->bhv", state, q[:, t] * 32**-0.5))
    assert apart(found, torch.stack(right, 1)) <= MOST


def test_quantization_of_torchao(torch: Any) -> None:
    needs("torchao")
    from torchao.kernel.blockwise_quantization import (
        fp8_blockwise_act_quant,
        fp8_blockwise_weight_dequant,
        fp8_blockwise_weight_quant,
    )

    x, w = numbers(torch, (4, 256), (128, 256))
    narrow, scales = fp8_blockwise_act_quant(x, 128)
    assert apart(narrow.float() * scales.repeat_interleave(128, -1), x) <= FP8
    assert apart(fp8_blockwise_weight_dequant(*fp8_blockwise_weight_quant(w, 128), 128), w) <= FP8


@pytest.fixture
def unsloth(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules of unsloth's kernels alone: the package itself needs bitsandbytes and a GPU."""
    needs("unsloth")
    import triton
    from triton.language.extra import libdevice

    spec = importlib.util.find_spec("unsloth")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent
    for name, place in (("unsloth", folder), ("unsloth.kernels", folder / "kernels")):
        package = ModuleType(name)
        package.__path__ = [str(place)]
        monkeypatch.setitem(sys.modules, name, package)
    utils: Any = ModuleType("unsloth.kernels.utils")
    utils.calculate_settings = lambda size: (triton.next_power_of_2(size), 4)
    utils.torch_gpu_device = lambda _: contextlib.nullcontext()
    utils.long_indexing = lambda *_: False
    utils.triton_tanh = libdevice.tanh
    monkeypatch.setitem(sys.modules, utils.__name__, utils)


def test_gated_units_of_unsloth(torch: Any, unsloth: None) -> None:
    from unsloth.kernels.geglu import geglu_approx_forward_kernel, geglu_exact_forward_kernel
    from unsloth.kernels.swiglu import swiglu_DWf_DW_dfg_kernel, swiglu_fg_kernel

    silu, gelu = torch.nn.functional.silu, torch.nn.functional.gelu
    e, g = numbers(torch, (1, 8, 256), (1, 8, 256))
    assert apart(swiglu_fg_kernel(e, g), silu(e) * g) <= MOST
    assert apart(geglu_exact_forward_kernel(e, g), gelu(e) * g) <= MOST
    assert apart(geglu_approx_forward_kernel(e, g), gelu(e, approximate="tanh") * g) <= MOST
    (gradient,), e, g = numbers(torch, (8, 256)), e[0].requires_grad_(), g[0]
    right = silu(e) * g
    right.backward(gradient)
    found = swiglu_DWf_DW_dfg_kernel(gradient.clone(), e.detach().clone(), g.clone())
    for mine, wanted in zip(found, (right.detach(), gradient * silu(e.detach()), e.grad), strict=True):
        assert apart(mine, wanted) <= MOST
