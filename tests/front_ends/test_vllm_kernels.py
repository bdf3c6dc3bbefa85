"""Triton kernels of vLLM against PyTorch's own operations.

The package without its compiled part is enough: VLLM_TARGET_DEVICE=empty pip install --no-deps vllm
"""

from __future__ import annotations

from typing import Any

import pytest
from comparing import MOST, apart, needs, numbers

pytestmark = pytest.mark.slow
HALF = 2e-3
"""Products of float16 numbers, with sums in float32."""
INT8, FP8 = 0.01, 0.0625
"""The step of 8-bit integers, and half the distance of neighboring e4m3 numbers."""


@pytest.fixture(autouse=True)
def vllm() -> None:
    needs("vllm")


def halves(torch: Any, *shapes: tuple[int, ...]) -> list[Any]:
    return [one.half() for one in numbers(torch, *shapes)]


def attention(torch: Any, q: Any, k: Any, v: Any, causal: bool) -> Any:
    """For (length, heads, width), with a head of keys for each two heads of queries or for each."""
    q, k, v = (one.float().transpose(0, 1) for one in (q, k, v))
    k, v = (one.repeat_interleave(len(q) // len(one), 0) for one in (k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(0, 1)


def test_parts_of_an_attention_are_merged(torch: Any) -> None:
    from vllm.v1.attention.ops.triton_merge_attn_states import merge_attn_states

    out, first, second = numbers(torch, *[(6, 4, 32)] * 3)
    logs = numbers(torch, (4, 6), (4, 6))
    merge_attn_states(out, first, logs[0], second, logs[1])
    weights = torch.softmax(torch.stack(logs), 0).transpose(1, 2)[..., None]
    assert apart(out, weights[0] * first + weights[1] * second) <= MOST


def test_keys_and_values_go_into_the_cache(torch: Any) -> None:
    from vllm.v1.attention.ops.triton_reshape_and_cache_flash import triton_reshape_and_cache_flash

    given, slots, one = numbers(torch, (5, 2, 32), (5, 2, 32)), torch.tensor([3, 17, 40, 41, 63]), torch.ones(1)
    caches = [torch.zeros(4, 16, 2, 32) for _ in given]
    triton_reshape_and_cache_flash(*given, *caches, slots, "auto", one, one)
    for cache, new in zip(caches, given, strict=True):
        right = torch.zeros(64, 2, 32)
        right[slots] = new
        assert apart(cache.view(64, 2, 32), right) == 0


def test_attention_of_a_prompt(torch: Any) -> None:
    from vllm.v1.attention.ops.triton_prefill_attention import context_attention_fwd

    q, k, v = halves(torch, (80, 4, 32), (80, 2, 32), (80, 2, 32))
    out, starts, lengths = torch.zeros_like(q), torch.tensor([0, 30]).int(), torch.tensor([30, 50]).int()
    context_attention_fwd(q, k, v, out, starts, lengths, 50)
    parts = [attention(torch, q[one], k[one], v[one], True) for one in (slice(30), slice(30, 80))]
    assert apart(out, torch.cat(parts)) <= HALF


@pytest.mark.parametrize("heads", [4, 2])
def test_attention_of_a_token(torch: Any, heads: int) -> None:
    from vllm.v1.attention.ops.triton_decode_attention import decode_attention_fwd

    q, k, v = numbers(torch, (3, 4, 32), (64, heads, 32), (64, heads, 32))
    out, logs, parts = torch.zeros(3, 4, 32), torch.zeros(3, 4), torch.empty(3, 4, 4, 33)
    table, lengths = torch.stack([torch.randperm(64)[:20] for _ in range(3)]).int(), torch.tensor([20, 7, 13]).int()
    decode_attention_fwd(q, k, v, out, logs, table, lengths, parts, 4, 32**-0.5)
    for one, row in enumerate(table.long()):
        kept = row[: int(lengths[one])]
        assert apart(out[one], attention(torch, q[one][None], k[kept], v[kept], False)[0]) <= HALF


def test_quantization_to_8_bits(torch: Any) -> None:
    from vllm.model_executor.layers.quantization.utils import fp8_utils, int8_utils

    (x,) = numbers(torch, (8, 256))
    narrow, scales = int8_utils.per_token_quant_int8(x)
    assert apart(narrow * scales, x) <= INT8
    narrow, scales = int8_utils.per_token_group_quant_int8(x, 64)
    assert apart(narrow * scales.repeat_interleave(64, -1), x) <= INT8
    narrow, scales = fp8_utils.per_token_group_quant_fp8(x, 128)
    assert apart(narrow.float() * scales.repeat_interleave(128, -1), x) <= FP8


def test_a_product_of_scaled_8_bit_numbers(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.model_executor.layers.quantization.utils import fp8_utils

    monkeypatch.setattr(fp8_utils, "get_w8a8_block_fp8_configs", lambda *_: None)  # it asks NVML for the GPU
    x, w = numbers(torch, (16, 256), (128, 256))
    narrow, scales = fp8_utils.per_token_group_quant_fp8(x, 128)
    w, of_w = w.to(torch.float8_e4m3fn), torch.rand(1, 2)
    right = (narrow.float() * scales.repeat_interleave(128, -1)) @ (w.float() * of_w.repeat_interleave(128, -1)).T
    found = fp8_utils.w8a8_triton_block_scaled_mm(narrow, w, scales, of_w, [128, 128], torch.float32)
    assert apart(found, right) <= HALF


def test_weights_of_4_bits(torch: Any) -> None:
    from vllm.model_executor.layers.quantization.awq_triton import awq_dequantize_triton, awq_gemm_triton

    def unpacked(words: Any) -> Any:
        return torch.stack([words >> 4 * k & 15 for k in (0, 4, 1, 5, 2, 6, 3, 7)], -1).view(len(words), -1)

    def all_rows(of_groups: Any) -> Any:
        return of_groups.repeat_interleave(32, 0)

    words, zeros = (torch.randint(-(2**31), 2**31 - 1, (rows, 8)).int() for rows in (128, 4))
    x, scales = halves(torch, (16, 128), (4, 64))
    right = (unpacked(words) - all_rows(unpacked(zeros))) * all_rows(scales.float())
    assert apart(awq_dequantize_triton(words, scales, zeros), right) <= HALF
    assert apart(awq_gemm_triton(x, words, scales, zeros, 2), x.float() @ right) <= HALF


def test_a_norm_with_a_gate(torch: Any) -> None:
    from vllm.model_executor.layers.mamba.ops.layernorm_gated import rms_norm_gated

    x, gate, w = numbers(torch, (8, 128), (8, 128), (128,))
    right = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w * torch.nn.functional.silu(gate)
    assert apart(rms_norm_gated(x, w, None, gate), right) <= MOST


def test_a_step_of_a_state_space_model(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.model_executor.layers.mamba.ops import mamba_ssm

    monkeypatch.setattr(mamba_ssm, "get_ssm_device_name", lambda: "unknown")  # it asks NVML for the GPU
    state, x, time, b, c, d, bias, gate = numbers(
        torch, (2, 64, 16), (2, 64), (2, 64), (2, 16), (2, 16), (64,), (64,), (2, 64)
    )
    a, out = -torch.rand(64, 16), torch.empty(2, 64)
    step = torch.nn.functional.softplus(time + bias)
    new = state * torch.exp(step[..., None] * a) + (step * x)[..., None] * b[:, None]
    mamba_ssm.selective_state_update(state, x, time, a, b, c, d, bias, z=gate, dt_softplus=True, out=out)
    assert apart(out, ((new * c[:, None]).sum(-1) + d * x) * torch.nn.functional.silu(gate)) <= MOST
    assert apart(state, new) <= MOST


def test_operations_that_do_not_depend_on_the_batch(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.model_executor.determinism import batch_invariant

    x, w = numbers(torch, (8, 300), (300,))
    assert apart(batch_invariant.log_softmax(x), x.log_softmax(-1)) <= MOST
    assert apart(batch_invariant.softmax(x), x.softmax(-1)) <= MOST
    assert apart(batch_invariant.mean_dim(x, 1), x.mean(1)) <= MOST
    right = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w
    assert apart(batch_invariant.rms_norm_batch_invariant(x, w, 1e-6), right) <= MOST
    monkeypatch.setattr(batch_invariant, "num_compute_units", lambda *_: 132)  # it asks NVML for the GPU
    a, b = halves(torch, (130, 64), (64, 96))
    assert apart(batch_invariant.matmul_persistent(a, b), a.float() @ b.float()) <= HALF


def test_tokens_are_sampled_as_asked(torch: Any) -> None:
    from vllm.v1.worker.gpu.sample.gumbel import apply_temperature
    from vllm.v1.worker.gpu.sample.min_p import apply_min_p

    (logits,) = numbers(torch, (4, 1000))
    of_request, found = torch.tensor([0, 2, 1, 3]).int(), logits.clone()
    least, heat = torch.tensor([0.1, 0.0, 0.3, 0.01]), torch.tensor([0.5, 1.0, 2.0, 0.8])
    apply_min_p(found, of_request, least)
    chances = logits.softmax(-1)
    kept = chances >= least[of_request.long()][:, None] * chances.max(-1, keepdim=True).values
    assert torch.equal(found, logits.masked_fill(~kept, float("-inf")))
    found = logits.clone()
    apply_temperature(found, of_request, heat)
    assert apart(found, logits / heat[of_request.long()][:, None]) <= MOST
