"""Triton kernels of Liger, flash-linear-attention, torchao and unsloth, against PyTorch's own operations."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.slow
MOST = 1e-5
FP8 = 0.0625
"""Half the distance of neighboring e4m3 numbers."""


@pytest.fixture(scope="module")
def torch() -> Iterator[Any]:
    """torch under an emulated H100 that only executes."""
    for package in ("torch", "triton"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed, and the kernels need it")
    import gpuemu.triton

    with gpuemu.triton.device("sm_90", timed=False):
        import torch

        torch.manual_seed(0)
        yield torch


def needs(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed, and the kernel is its")


def apart(found: Any, right: Any) -> float:
    """The largest difference, relative to the largest value."""
    return float((found.float() - right.float()).abs().max() / right.float().abs().max().clamp(min=1e-9))


def apart_with_gradients(torch: Any, mine: Callable[..., Any], right: Callable[..., Any], *inputs: Any) -> float:
    first, second = ([one.clone().requires_grad_() for one in inputs] for _ in range(2))
    found, wanted = mine(*first), right(*second)
    gradient = torch.randn_like(wanted)
    found.backward(gradient.clone())
    wanted.backward(gradient)
    pairs = [(found, wanted), *((a.grad, b.grad) for a, b in zip(first, second, strict=True))]
    return max(apart(*pair) for pair in pairs)


def numbers(torch: Any, *shapes: tuple[int, ...]) -> list[Any]:
    return [torch.randn(*shape, device="cuda") for shape in shapes]


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
