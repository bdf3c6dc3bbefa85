"""Compares the results of a library's kernel with those of PyTorch's operations."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest

MOST = 1e-5


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
