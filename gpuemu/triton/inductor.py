"""torch.compile on a Device: Inductor compiles for the chosen chip, and its Triton kernels run on CPU tensors.

Inductor takes the GPU from the devices of a graph's tensors. A program that asks for CUDA has CPU tensors here. So the
stand-ins of these tensors say "cuda" while Inductor compiles a graph. What Inductor calls without Triton (matrix
products of a library, random numbers) are PyTorch's own functions, which then see CPU tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from gpuemu.triton.emulated import Device

_OPTIONS = {
    "triton.cudagraphs": False,  # a launch costs no time of the host
    "compile_threads": 1,  # other processes have no Device
    "use_static_cuda_launcher": False,  # these three launch by C++ that a CPU build of torch lacks
    "use_static_triton_launcher": False,
    "cpp_wrapper": False,
    "autotune_in_subproc": False,
}
"""Options of Inductor that a Device needs, as far as the installed version has them."""
_GPU = "cuda"


@contextmanager
def compiled_for(device: Device) -> Iterator[None]:
    """A context in which torch.compile compiles for a Device. It imports nothing until a program compiles."""
    kind = torch._TorchCompileInductorWrapper
    before = kind.__call__
    with ExitStack() as stack:
        prepared: list[bool] = []

        def compiled(self: Any, model: Any, inputs: Any, *, config_patches: Any = None, **_: Any) -> Any:
            from torch._inductor import config
            from torch._inductor.compile_fx import compile_fx

            if not prepared:
                prepared.append(True)
                _prepare(device, stack)
            known = config.get_config_copy()
            options = {name: value for name, value in _OPTIONS.items() if name in known}
            patches = {**self.config, **(config_patches or {}), **options}
            return compile_fx(model, inputs, inner_compile=_inner, config_patches=patches)

        kind.__call__ = compiled
        stack.callback(setattr, kind, "__call__", before)
        yield


def _inner(graph: Any, inputs: Sequence[Any], **words: Any) -> Any:
    """Compile one graph of operations."""
    from torch._inductor.compile_fx import compile_fx_inner

    with _on_the_gpu(graph, inputs), _RealOnTheCpu():
        return compile_fx_inner(graph, inputs, **words)


class _RealOnTheCpu(TorchFunctionMode):  # type: ignore[misc]
    """Tensors that Inductor makes for a benchmark are on the CPU. Those without contents keep their device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = dict(kwargs or {})
        device = named.get("device")
        if device is not None and torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is None:
            named["device"] = "cpu" if torch.device(device).type == _GPU else device
        return func(*args, **named)


@contextmanager
def _on_the_gpu(graph: Any, inputs: Sequence[Any]) -> Iterator[None]:
    """A context in which the stand-ins of a graph's tensors are on the GPU."""
    from torch._subclasses.fake_tensor import FakeTensor

    there = torch.device(_GPU, 0)
    found: dict[int, Any] = {}

    def note(value: Any) -> None:
        if isinstance(value, FakeTensor) and value.fake_device.type == "cpu":
            found[id(value)] = value

    torch.utils._pytree.tree_map(note, list(inputs))
    for part in graph.modules():
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            torch.utils._pytree.tree_map(note, [node.meta.get("val"), node.meta.get("example_value")])
            node.args, node.kwargs = torch.fx.node.map_aggregate((node.args, node.kwargs), _moved)
    before = {key: value.fake_device for key, value in found.items()}
    try:
        for value in found.values():
            value.fake_device = there
        yield
    finally:
        for key, value in found.items():
            value.fake_device = before[key]


def _contiguous(tensor: Any, memory_format: Any = torch.contiguous_format) -> Any:
    return torch.ops.aten.contiguous.default(tensor, memory_format=memory_format)


def _inverted(tensor: Any) -> Any:
    return torch.bitwise_not(tensor)


def _copied(tensor: Any, source: Any, non_blocking: bool = False) -> Any:
    return torch.ops.aten.copy_.default(tensor, source, non_blocking)


_UNGUARDED: dict[str, Callable[..., Any]] = {"__invert__": _inverted, "contiguous": _contiguous, "copy_": _copied}
"""Methods of tensors that choose the tensor's device in C++, and what they do. A CPU build of torch has no GPU to
choose.
"""


def _moved(value: Any) -> Any:
    return torch.device(_GPU, 0) if isinstance(value, torch.device) and value.type == "cpu" else value


def _prepare(device: Device, stack: ExitStack) -> None:
    """Give Inductor what a CPU build of torch lacks, until the stack is closed."""
    from torch._dynamo import device_interface
    from torch._inductor.runtime import benchmarking, triton_helpers
    from torch._subclasses.fake_tensor import FakeTensor

    def stream(_: int = 0) -> int:
        return 0

    guards = torch._C._dynamo.guards
    timed = _timed(device)
    _replace(stack, torch._C, "_cuda_getCurrentRawStream", stream)
    for name, function in _UNGUARDED.items():
        _replace(stack, FakeTensor, name, function)
    _replace(stack, triton_helpers, "set_driver_to_gpu", lambda: None)  # it is set
    _replace(stack, guards, "_empty_strided_cuda", guards._empty_strided_cpu)
    _replace(stack, device_interface.CudaInterface, "get_raw_stream", staticmethod(stream))
    for kind in vars(benchmarking).values():
        if isinstance(kind, type) and issubclass(kind, benchmarking.Benchmarker):
            for name in ("benchmark", "benchmark_gpu", "benchmark_many_gpu"):
                if name in vars(kind):
                    _replace(stack, kind, name, timed[name])


def _timed(device: Device) -> dict[str, Callable[..., Any]]:
    """The methods of Inductor's benchmarker. A benchmark is one run, because all would be equal."""

    def once(call: Callable[[], Any]) -> float:
        found = device.benchmark(call)
        return found if found == found else 0.0  # a call without launches, such as a library's product on the CPU

    def benchmark(_: Any, fn: Any, fn_args: Any = None, fn_kwargs: Any = None, *rest: Any, **words: Any) -> float:
        return once(lambda: fn(*(fn_args or ()), **(fn_kwargs or {})))

    return {
        "benchmark": benchmark,
        "benchmark_gpu": lambda _, call, *rest, **words: once(call),
        "benchmark_many_gpu": lambda _, calls, *rest, **words: [once(call) for call in calls],
    }


def _replace(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    missing = name not in vars(owner)
    before = vars(owner).get(name)
    setattr(owner, name, value)
    if missing:
        stack.callback(delattr, owner, name)
    else:
        stack.callback(setattr, owner, name, before)
