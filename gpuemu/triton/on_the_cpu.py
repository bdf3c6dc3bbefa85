"""Keep torch's programs for a GPU on the CPU: the device "cuda" means the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gpuemu.triton.emulated import Device
from gpuemu.triton.torch_cuda import answered_by

_IS_CUDA = torch.Tensor.is_cuda.__get__


_SUMS = {
    torch.nn.functional.layer_norm, torch.nn.functional.linear, torch.nn.functional.softmax, torch.softmax,
    torch.matmul, torch.mm, torch.bmm, torch.Tensor.matmul, torch.Tensor.mm, torch.Tensor.bmm, torch.Tensor.__matmul__,
    torch.Tensor.softmax,
}  # fmt: skip
"""Reductions that a GPU accumulates in float32 also for narrower types. The CPU rounds each sum.

torch.compile sees the program's own operations: its Triton kernels accumulate as they do on a GPU."""
_NARROW = (torch.float16, torch.bfloat16)


class _Kept(TorchFunctionMode):  # type: ignore[misc]
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = dict(kwargs or {})
        if func == _IS_CUDA:
            return True
        if func is torch.Tensor.cuda:
            return args[0]
        if _is_cuda(named.get("device")):
            named["device"] = "cpu"
            named.pop("pin_memory", None)
        if func is torch.Tensor.to:
            args = tuple("cpu" if _is_cuda(value) else value for value in args)
        narrow = next((v.dtype for v in args if isinstance(v, torch.Tensor) and v.dtype in _NARROW), None)
        if func in _SUMS and narrow is not None and not torch.compiler.is_compiling() and "dtype" not in named:
            wide = tuple(_widened(value) for value in args)
            return func(*wide, **{name: _widened(value) for name, value in named.items()}).to(narrow)
        return func(*args, **named)


class _Generators(type):
    def __instancecheck__(cls, one: object) -> bool:
        return isinstance(one, torch._C.Generator)


class _Generator(metaclass=_Generators):
    """torch.Generator, whose device is the CPU."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return torch._C.Generator("cpu" if _is_cuda(device) else device)


def _widened(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) and value.dtype in _NARROW else value


def _is_cuda(device: Any) -> bool:
    if isinstance(device, torch.device):
        return bool(device.type == "cuda")
    return isinstance(device, str) and device.startswith("cuda")


@contextmanager
def on_the_cpu(device: Device) -> Iterator[None]:
    """A context in which torch programs that ask for CUDA get the CPU, and the Device answers for torch.cuda.

    Code for any device uses the module of the tensors' device, here torch.cpu, which has no `set_stream`.
    """
    lacks = not hasattr(torch.cpu, "set_stream")
    if lacks:
        torch.cpu.set_stream = lambda stream: None
    generator = torch.Generator
    torch.Generator = _Generator
    try:
        with answered_by(device), _Kept():
            yield
    finally:
        torch.Generator = generator
        if lacks:
            del torch.cpu.set_stream
