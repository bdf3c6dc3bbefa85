"""Takes down what a Triton file's `launch(...)` launches: machine code and arguments, without executing any of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError
from gpuemu.sass.image.cubin import Cubin
from gpuemu.sass.machine.arguments import Pointer
from gpuemu.sass.machine.tensor_map import TensorMap
from gpuemu.triton.emulated import Device
from gpuemu.triton.launch import Launch
from gpuemu.triton.script import run_script
from gpuemu.triton.wheel import check_triton


class _Taking(Device):
    """Launches are taken down with the arguments as numbers of the problem's."""

    def __init__(self, arch: Architecture, arguments: list[Any]):
        super().__init__(arch, False, False, 1)
        self._arguments = arguments
        self._scratch: list[Any] = []
        self.taken: list[Any] = []

    def launch(
        self, cubin: Cubin, kernel: str, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int,
        registers: int, args: list[Any],
    ) -> Launch:  # fmt: skip
        self.taken.append((cubin.content, kernel, grid, block, shared, [self._told(kernel, one) for one in args]))
        done = Launch(kernel, grid, block, registers, shared, cubin)
        self.launches.append(done)
        return done

    def _told(self, kernel: str, argument: Any) -> Any:
        if isinstance(argument, TensorMap):
            right = "a descriptor that the kernel makes (tl.make_tensor_descriptor) is right"
            raise GpuemuError.one("judge", None, kernel, "a tensor descriptor of the host", right)
        if not isinstance(argument, Pointer):
            return argument
        address = argument.array.__array_interface__["data"][0] + argument.offset
        for number, one in enumerate(self._arguments):
            if isinstance(one, np.ndarray):
                start = one.__array_interface__["data"][0]
                if start <= address < start + max(1, one.nbytes):
                    return ("at", number, address - start)
        known = [kept.__array_interface__["data"][0] for kept in self._scratch]
        start = argument.array.__array_interface__["data"][0]
        if start not in known:
            self._scratch.append(argument.array)
            known.append(start)
        return ("scratch", known.index(start), len(argument.array), argument.offset)


def take(file: str, arch: Architecture, arguments: list[Any]) -> list[Any]:
    """The launches of `launch(*arguments)`, which a Triton file defines. Raises GpuemuError."""
    check_triton()
    from gpuemu.triton.driver import active

    device = _Taking(arch, arguments)
    with active(device):
        names = run_script(file, name="judged")
        if not callable(names.get("launch")):
            right = "launch(...), which takes the problem's arguments and launches the kernel, is right"
            raise GpuemuError.one(file, None, "", "no function launch", right)
        device.taken.clear()
        names["launch"](*arguments)
    return device.taken
