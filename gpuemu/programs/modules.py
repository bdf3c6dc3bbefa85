"""The modules of a program with their kernels and variables. Variables are on the device from load to unload."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.errors import GpuemuError
from gpuemu.programs import protocol
from gpuemu.programs.protocol import BASE, DEVICE_BYTES, DeviceError, Function
from gpuemu.sass.image.cubin import Cubin, Kernel
from gpuemu.sass.machine.linking import function_pointers, variable_addresses
from gpuemu.sass.tools.images import NoImageError, load_image

_CONSTANTS = 3
"""The bank of `__constant__` variables."""
_ALIGNMENT = 4096
_WARP = 32
_THREADS = 1024
_REGISTERS = 65536


@dataclass
class Module:
    """A loaded module. `sections` maps section names of the cubin to bytes on the device. `variables` maps names to
    addresses and sizes.
    """

    cubin: Cubin
    ptx_version: int
    sections: dict[str, NDArray[np.uint8]] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    variables: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def arrays(self) -> dict[int, NDArray[np.uint8]]:
        """The sections by their addresses."""
        return {self.starts[name]: data for name, data in self.sections.items()}


class Modules:
    """Loads modules for one compute capability. Their variables are in the first part of the heap."""

    def __init__(self, heap: NDArray[np.uint8], capability: tuple[int, int]):
        self._heap = heap
        self._capability = capability
        self._used = 0
        self._modules: dict[int, Module] = {}
        self._functions: list[tuple[Module, Kernel]] = []
        self._numbers: dict[tuple[int, str], int] = {}
        self._count = 0

    def load(self, image: bytes) -> int:
        """Load a module, and return its number. Raises GpuemuError, or DeviceError if a driver refuses the image."""
        self._count += 1
        file = f"module {self._count}"
        try:
            found = load_image(image, file, self._capability)
        except NoImageError as error:
            print(f"gpuemu: {error}", file=sys.stderr, flush=True)
            raise DeviceError(protocol.NO_IMAGE, str(error)) from None
        module = Module(found.cubin, found.ptx_version)
        self._place(module)
        self._modules[self._count] = module
        return self._count

    def unload(self, number: int) -> Module | None:
        return self._modules.pop(number, None)

    def module(self, number: int) -> Module:
        found = self._modules.get(number)
        if found is None:
            raise DeviceError(protocol.INVALID_VALUE, f"no module {number}")
        return found

    def function(self, module: int, name: str) -> Function:
        """The attributes of a kernel, always with the same number. Raises DeviceError(NOT_FOUND)."""
        found = self.module(module)
        kernel = found.cubin.kernels.get(name)
        if kernel is None:
            raise DeviceError(protocol.NOT_FOUND, f"no kernel {name} in module {module}")
        _check_parameters(kernel)
        number = self._numbers.get((module, name))
        if number is None:
            number = self._numbers[module, name] = len(self._functions)
            self._functions.append((found, kernel))
        registers = max(1, kernel.registers_per_thread)
        per_warp = -(-registers * _WARP // 256) * 256
        most = min(_THREADS, _REGISTERS // per_warp // 4 * 4 * _WARP)
        if kernel.max_threads is not None:
            x, y, z = kernel.max_threads
            most = min(most, x * y * z)
        constants = kernel.constant_sections.get(_CONSTANTS)
        return Function(
            number, registers, kernel.static_shared_bytes, 0 if constants is None else len(constants.data),
            kernel.local_bytes, most, found.ptx_version, int(found.cubin.arch.removeprefix("sm_")),
            kernel.cluster or (0, 0, 0), tuple((p.offset, p.size) for p in kernel.set_parameters),
            kernel.parameter_bytes, kernel.host_code or b"",
        )  # fmt: skip

    def kernel(self, function: int) -> tuple[Module, Kernel]:
        """The kernel with this number from `function`."""
        return self._functions[function]

    def variable(self, module: int, name: str) -> tuple[int, int]:
        found = self.module(module).variables.get(name)
        if found is None:
            raise DeviceError(protocol.NOT_FOUND, f"no variable {name} in module {module}")
        return found

    def _place(self, module: Module) -> None:
        """Place a module's variables, and set their initial values."""
        cubin = module.cubin
        constants = {
            s.name: s for k in cubin.kernels.values() for n, s in k.constant_sections.items() if n == _CONSTANTS
        }
        sections = (*cubin.global_sections, *constants.values())
        for section in sections:
            self._used = -(-self._used // max(_ALIGNMENT, section.alignment)) * max(_ALIGNMENT, section.alignment)
            if self._used + len(section.data) > DEVICE_BYTES:
                raise DeviceError(protocol.OUT_OF_MEMORY, "no room for the variables of a module")
            module.starts[section.name] = BASE + self._used
            module.sections[section.name] = self._heap[self._used : self._used + max(1, len(section.data))]
            module.variables |= {v.name: (BASE + self._used + v.offset, v.size) for v in section.variables}
            self._used += max(1, len(section.data))
        starts = {section.name: module.starts[section.name] for section in cubin.global_sections}
        module.cubin = replace(cubin, section_starts=starts)
        addresses = variable_addresses(module.cubin) | function_pointers(cubin)
        for section in sections:
            data = section.placed(addresses, cubin.file)
            module.sections[section.name][: len(data)] = np.frombuffer(data, np.uint8)


def refused(error: GpuemuError) -> str:
    """The sentences of an error on one line."""
    return "; ".join(str(problem) for problem in error.problems)


def _check_parameters(kernel: Kernel) -> None:
    """Raises DeviceError if the driver would have to fill in parameters, and nothing in the cubin can do it."""
    if kernel.driver_parameters and not kernel.host_code:
        text = f"{kernel.source_name} needs tensor maps that the driver makes, and its cubin does not say how"
        print(f"gpuemu: {text}", file=sys.stderr, flush=True)
        raise DeviceError(protocol.NOT_SUPPORTED, text)
