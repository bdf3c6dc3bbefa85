"""torch.cuda as a Device answers it: a stand-in for each function and class of torch.cuda that asks for a GPU.

Libraries keep what they find in torch.cuda when they are imported. They import functions by name, write classes in
annotations (`torch.cuda.Stream | None`), and put both into tables: torch._dynamo looks functions up by identity. So
each stand-in is a function where torch has a function and a class where torch has a class, no two are the same object,
and there is one set per process. A stand-in asks for the active Device when it is called. Without an active Device it
does what torch does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import SimpleNamespace
from typing import Any

import torch
import triton

from gpuemu.triton.emulated import Device
from gpuemu.triton.emulated import Event as EmulatedEvent

_MEMORY_BYTES = 80 << 30
_DEVICES: list[Device] = []
"""The active devices. The last one answers."""
_ORIGINALS: dict[str, Any] = dict(vars(torch.cuda))


def _properties(device: Device) -> SimpleNamespace:
    properties, (major, minor) = device.properties, device.capability
    chip, arch = device.arch.chips[device.arch.chip], device.arch
    return SimpleNamespace(
        name=arch.chip, major=major, minor=minor, total_memory=_MEMORY_BYTES,
        multi_processor_count=properties["multiprocessor_count"], warp_size=properties["warpSize"],
        regs_per_multiprocessor=properties["max_num_regs"],
        max_threads_per_multi_processor=arch.sm.max_warps * properties["warpSize"],
        max_threads_per_block=arch.sm.max_threads_per_cta, shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=properties["max_shared_mem"],
        shared_memory_per_multiprocessor=arch.shared_memory.capacity_bytes,
        L2_cache_size=(chip.l2_kibibytes or 0) << 10,
    )  # fmt: skip


class Stream:
    """The one stream of an emulated device. A launch has ended when it returns, so there is nothing to wait for."""

    cuda_stream = stream_id = device_index = priority = 0

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return super().__new__(cls) if _DEVICES else _ORIGINALS["Stream"](*args, **kwargs)

    def __init__(self, *_: Any, **__: Any):
        self.device = torch.device("cuda", 0)

    def synchronize(self) -> None: ...

    def wait_stream(self, stream: Any) -> None: ...

    def wait_event(self, event: Any) -> None: ...

    def query(self) -> bool:
        return True

    def record_event(self, event: Any = None) -> Any:
        event = Event() if event is None else event
        event.record(self)
        return event

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream)

    def __hash__(self) -> int:
        return 0


class Event(EmulatedEvent):
    """A point in the emulated time of the active device."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return super().__new__(cls) if _DEVICES else _ORIGINALS["Event"](*args, **kwargs)

    def __init__(self, enable_timing: bool = False, *_: Any, **__: Any):
        super().__init__(_DEVICES[-1], enable_timing)


def _nothing(_: Device) -> None: ...


def _only(_: Device) -> int:
    """The index of the only device."""
    return 0


def _stream(_: Device) -> Any:
    return Stream()


_FACTS: dict[str, Callable[[Device], Any]] = {
    "is_available": lambda _: True, "device_count": lambda _: 1, "get_device_name": lambda device: device.arch.chip,
    "get_device_capability": lambda device: device.capability, "get_device_properties": _properties,
    "get_arch_list": lambda device: [device.arch.code_name], "can_device_access_peer": lambda _: False,
    "mem_get_info": lambda _: (_MEMORY_BYTES, _MEMORY_BYTES), "is_current_stream_capturing": lambda _: False,
    "current_device": _only, "_get_device_index": _only, "_exchange_device": _only, "_maybe_exchange_device": _only,
    "current_stream": _stream, "default_stream": _stream, "init": _nothing, "set_device": _nothing,
    "set_stream": _nothing, "synchronize": _nothing, "empty_cache": _nothing, "ipc_collect": _nothing,
    "reset_peak_memory_stats": _nothing, "reset_accumulated_memory_stats": _nothing,
}  # fmt: skip
"""A function of torch.cuda: the answer of a Device, whatever the arguments."""
_OF_THE_CPU: dict[str, Callable[..., Any]] = {
    "get_rng_state": lambda *_, **__: torch.get_rng_state(),
    "set_rng_state": lambda new_state, *_, **__: torch.set_rng_state(new_state),
}
"""A function of torch.cuda: the same for the CPU, whose generator makes the random numbers of tensors."""


def _stand_in(name: str, answer: Callable[..., Any]) -> Any:
    original = _ORIGINALS[name]

    @wraps(original)
    def asked(*args: Any, **kwargs: Any) -> Any:
        return (answer if _DEVICES else original)(*args, **kwargs)

    return asked


def _fact(name: str, fact: Callable[[Device], Any]) -> Any:
    return _stand_in(name, lambda *_, **__: fact(_DEVICES[-1]))


STAND_INS: dict[str, Any] = {
    **{name: _fact(name, fact) for name, fact in _FACTS.items() if name in _ORIGINALS},
    **{name: _stand_in(name, answer) for name, answer in _OF_THE_CPU.items()},
    "Stream": Stream,
    "Event": Event,
}
"""The stand-in for each name of torch.cuda."""


@contextmanager
def answered_by(device: Device) -> Iterator[None]:
    """A context in which torch.cuda has the stand-ins, and this device answers.

    A CPU build of torch has no version of CUDA, which libraries take for AMD's ROCm. It gets the one of Triton's ptxas.
    A CUDA build gets a CPU build's answer about accelerators, of which Dynamo would ask the driver.
    """
    replaced = [(torch.cuda, name, stand_in) for name, stand_in in STAND_INS.items()]
    if hasattr(torch, "accelerator"):  # from torch 2.6 on
        replaced.append((torch.accelerator, "is_available", lambda: False))
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
    version = torch.version.cuda
    _DEVICES.append(device)
    try:
        for owner, name, stand_in in replaced:
            setattr(owner, name, stand_in)
        torch.version.cuda = version or triton.knobs.nvidia.ptxas.version
        yield
    finally:
        _DEVICES.pop()
        for owner, name, value in before:
            setattr(owner, name, value)
        torch.version.cuda = version
