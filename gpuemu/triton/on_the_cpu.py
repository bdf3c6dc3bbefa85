"""torch's programs for a GPU, kept on the CPU: "cuda" as a device means the CPU, torch.cuda tells of the Device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gpuemu.triton.emulated import Device

_IS_CUDA = torch.Tensor.is_cuda.__get__


_SUMS = {
    torch.nn.functional.layer_norm, torch.nn.functional.linear, torch.nn.functional.softmax, torch.softmax,
    torch.matmul, torch.mm, torch.bmm, torch.Tensor.matmul, torch.Tensor.mm, torch.Tensor.bmm, torch.Tensor.__matmul__,
    torch.Tensor.softmax,
}  # fmt: skip
"""What a GPU adds up in float32 also for narrower types; the CPU rounds each sum."""
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
        if func in _SUMS and narrow is not None and "dtype" not in named:
            wide = tuple(_widened(value) for value in args)
            return func(*wide, **{name: _widened(value) for name, value in named.items()}).to(narrow)
        return func(*args, **named)


def _widened(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) and value.dtype in _NARROW else value


def _is_cuda(device: Any) -> bool:
    if isinstance(device, torch.device):
        return bool(device.type == "cuda")
    return isinstance(device, str) and device.startswith("cuda")


@contextmanager
def on_the_cpu(device: Device, interface: Any, capability: tuple[int, int]) -> Iterator[None]:
    """Within it, torch programs that ask for CUDA get the CPU, and what they ask of torch.cuda is the Device's."""
    properties, (major, minor) = device.properties, capability
    told = SimpleNamespace(
        name=device.arch.chip, major=major, minor=minor,
        multi_processor_count=properties["multiprocessor_count"],
        shared_memory_per_block_optin=properties["max_shared_mem"], warp_size=32, total_memory=80 << 30,
        L2_cache_size=(device.arch.chips[device.arch.chip].l2_kibibytes or 0) << 10,
    )  # fmt: skip
    stream = SimpleNamespace(
        cuda_stream=0, synchronize=lambda: None, wait_stream=lambda _: None, wait_event=lambda _: None
    )

    def make_stream(*_: Any, **__: Any) -> Any:
        return stream

    def nothing(*_: Any, **__: Any) -> None:
        """Everything is done when a launch returns."""

    changed = {
        "is_available": lambda: True, "get_device_capability": lambda *_: capability,
        "get_device_properties": lambda *_: told, "get_device_name": lambda *_: told.name, "device_count": lambda: 1,
        "current_device": lambda: 0, "synchronize": nothing, "set_device": nothing, "set_stream": nothing,
        "empty_cache": nothing, "current_stream": make_stream, "default_stream": make_stream, "Stream": make_stream,
        "Event": interface.Event, "stream": lambda *_: nullcontext(), "device": lambda *_: nullcontext(),
    }  # fmt: skip
    before = {name: getattr(torch.cuda, name) for name in changed}
    cpu_stream = getattr(torch.cpu, "set_stream", None)
    try:
        for name, value in changed.items():
            setattr(torch.cuda, name, value)
        if cpu_stream is None:
            torch.cpu.set_stream = nothing
        with _Kept():
            yield
    finally:
        for name, value in before.items():
            setattr(torch.cuda, name, value)
        if cpu_stream is None:
            del torch.cpu.set_stream
