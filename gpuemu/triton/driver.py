"""A Device as Triton's driver: the object that describes the GPU, loads code, and launches it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import triton
import triton.testing
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime import _allocation
from triton.runtime.jit import JITFunction

from gpuemu.base.errors import GpuemuError
from gpuemu.sass.image.cubin import Cubin, read_cubin
from gpuemu.sass.launch_config import LaunchConfig
from gpuemu.triton.arguments import Arguments, HostArray
from gpuemu.triton.emulated import Device, Event

_WARP = 32
_MOST_THREADS = 1024


@dataclass(frozen=True)
class Function:
    """A loaded kernel."""

    cubin: Cubin
    name: str
    registers: int


class Driver(DriverBase):  # type: ignore[misc]
    """The driver's functions for a Device."""

    def __init__(self, device: Device):
        self.device = device
        self.utils = SimpleNamespace(
            get_device_properties=lambda _=None: device.properties,
            load_binary=self._load,
            unload_module=lambda _: None,
            set_printf_fifo_size=lambda _: None,
        )
        self.launcher_cls = lambda src, metadata: Launcher(device, src, metadata)

    @classmethod
    def is_active(cls) -> bool:
        """This driver is active only where it is set."""
        return False

    def map_python_to_cpp_type(self, ty: str) -> str:
        """There is no launcher in C."""
        raise GpuemuError.one(
            "triton", None, "", f"a program asks for the C type of {ty}", "Launch kernels from Python only"
        )

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", int(self.device.arch.code_name.removeprefix("sm_")), _WARP)

    def get_active_torch_device(self) -> Any:
        """The device of tensors: the CPU."""
        import torch

        return torch.device("cpu")

    def get_current_device(self) -> str:
        """Triton compiles code again for another kind of device."""
        return self.device.name

    def set_current_device(self, device: Any) -> None:
        """There is one device, which is always current."""

    def get_current_stream(self, device: Any = None) -> int:
        """There is one stream."""
        return 0

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        return self.device.capability

    def get_device_interface(self) -> Any:
        """Triton's access to torch.cuda; its events report emulated time."""
        return SimpleNamespace(
            Event=partial(Event, self.device), synchronize=lambda *_: None, current_device=self.get_current_device,
            __name__="gpuemu",
        )  # fmt: skip

    def get_benchmarker(self) -> Callable[..., Any]:
        """The function with which @triton.autotune times."""
        return self.do_bench

    def get_empty_cache_for_benchmark(self) -> None:
        """A benchmark needs no buffer to flush caches: its launches start with flushed ones."""

    def clear_cache(self, cache: Any) -> None:
        """See get_empty_cache_for_benchmark."""

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: Any) -> Any:
        """Memory for a profiler that runs inside of the kernel."""
        return np.zeros(size, np.uint8).view(HostArray)

    def do_bench(
        self, fn: Callable[[], Any], warmup: Any = 25, rep: Any = 100, grad_to_none: Any = None, quantiles: Any = None,
        return_mode: str = "mean", **_: Any,
    ) -> Any:  # fmt: skip
        """The emulated milliseconds of a call, in place of triton.testing.do_bench. One run is enough: all would be
        equal.
        """
        for tensor in grad_to_none or ():
            tensor.grad = None
        found = self.device.benchmark(fn)
        if quantiles is not None:
            return found if len(quantiles) == 1 else [found] * len(quantiles)
        return [found] if return_mode == "all" else found

    def _load(self, name: str, kernel: bytes, shared: int, device: Any) -> tuple[Any, Function, int, int, int]:
        cubin = read_cubin(kernel, f"{name}.cubin")
        code = cubin.kernel(name)
        registers = code.registers_per_thread
        per_warp = -(-max(1, registers) * _WARP // 256) * 256
        most = min(_MOST_THREADS, 65536 // per_warp // 4 * 4 * _WARP)
        # Without a module nothing is unloaded, which might happen after the device is gone.
        return None, Function(cubin, name, registers), registers, code.local_bytes // 4, most


class Launcher:
    """The launcher of one compiled kernel."""

    def __init__(self, device: Device, src: Any, metadata: Any):
        self._device = device
        self._signature = dict(src.signature)
        self._metadata = metadata

    def __call__(
        self, x: int, y: int, z: int, stream: Any, function: Function, packed: Any, told: Any, enter: Any, leave: Any,
        *values: Any,
    ) -> None:  # fmt: skip
        """Launch with the values of the kernel's own arguments. Raises GpuemuError if that is not possible."""
        if x * y * z <= 0:
            return
        metadata = self._metadata
        ctas = getattr(metadata, "num_ctas", 1)
        x *= ctas
        if enter is not None:
            enter(told)
        arguments = Arguments(function.name, getattr(metadata, "tensordesc_meta", None), self._device.keeps_buffers)
        for kind, value in zip(self._signature.values(), values, strict=True):
            arguments.add(kind, value)
        found_args = arguments.found
        extra = len(function.cubin.kernel(function.name).parameters) - len(found_args)
        scratch = [
            self._scratch("global", x * y * z, stream), self._scratch("profile", x * y * z, stream),
        ]  # fmt: skip
        found_args += [arguments.pointer(one) for one in scratch[: max(0, extra)]]
        config = LaunchConfig(
            function.cubin, function.name, (x, y, z), (_WARP * metadata.num_warps, 1, 1),
            (ctas, 1, 1) if ctas > 1 else None, metadata.shared, found_args,
        )  # fmt: skip
        self._device.launch(config, function.registers)
        if leave is not None:
            leave(told)

    def _scratch(self, what: str, ctas: int, stream: Any) -> Any:
        size = getattr(self._metadata, f"{what}_scratch_size", 0) or 0
        align = getattr(self._metadata, f"{what}_scratch_align", 1) or 1
        if not size:
            return None
        if what == "profile":
            return np.zeros(size * ctas, np.uint8).view(HostArray)
        return _allocation._allocator.get()(size * ctas, align, stream)


@contextmanager
def active(device: Device) -> Iterator[None]:
    """Give Triton this device, and NumPy arrays as tensors. torch's programs for a GPU stay on the CPU."""
    config, driver = triton.runtime.driver, Driver(device)
    before = config._active
    run, bench = JITFunction.run, triton.testing.do_bench

    def with_arrays(self: Any, *args: Any, **kwargs: Any) -> Any:
        return run(self, *map(_as_tensor, args), **{name: _as_tensor(value) for name, value in kwargs.items()})

    with ExitStack() as stack:
        if "torch" in sys.modules or find_spec("torch") is not None:
            from gpuemu.triton.inductor import compiled_for
            from gpuemu.triton.on_the_cpu import on_the_cpu

            stack.enter_context(on_the_cpu(device))
            stack.enter_context(compiled_for(device))
        if find_spec("jax") is not None:
            from gpuemu.triton.pallas import pallas_on

            stack.enter_context(pallas_on(device))
        config.set_active(driver)
        JITFunction.run = with_arrays
        triton.testing.do_bench = driver.do_bench
        for name in ("do_bench_cudagraph",):
            stack.callback(setattr, triton.testing, name, getattr(triton.testing, name))
            setattr(triton.testing, name, driver.do_bench)
        try:
            yield
        finally:
            config._active = before
            JITFunction.run, triton.testing.do_bench = run, bench


def _as_tensor(value: Any) -> Any:
    if isinstance(value, np.ndarray) and not isinstance(value, HostArray):
        return np.asarray(value).view(HostArray)
    return value
