"""Runs a compiled program and answers its stand-in for the CUDA runtime: memory, modules, and every launch.

    for launch in launches(executable, ["1000"], folder):
        launch.execute()                       # or not: then its stores are missing

Device memory is one file, mapped here and there. A launch is handed out while the program waits for it.
"""

from __future__ import annotations

import mmap
import os
import resource
import socket
import subprocess
import tempfile
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from io import BufferedRWPair
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.sass.image.cubin import Cubin, read_cubin
from gpuemu.sass.machine.linking import variable_addresses
from gpuemu.sass.machine.memory import Device

BASE = 0x7000_0000_0000
HEAP_BYTES = 1 << 36
"""Both as in runtime.cpp; of the file, what nobody wrote takes no room."""
PROGRAM_SECONDS = 60
"""Of a core, for all that a program does itself."""
_ELF = b"\x7fELF"
_ALIGNMENT = 1 << 12
_NO_RESERVE = 0x4000
"""MAP_NORESERVE, which Python's mmap has no name for."""


class ProgramError(Exception):
    """What a program did that is not served."""


@dataclass(frozen=True)
class Launch:
    """A launch as the program asked for it: `arguments` are the bytes of each parameter."""

    cubin: Cubin
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    cluster: tuple[int, int, int] | None
    """As the launch says it; None if it does not."""
    arguments: tuple[bytes, ...]
    device: Device
    heap: int
    """The descriptor of the file that device memory is."""

    @property
    def name(self) -> str:
        """The kernel's name in the source, without that of a namespace."""
        return self.cubin.kernel(self.kernel).source_name.rpartition("::")[2]

    def apart(self) -> Device:
        """The device as it is, in memory of its own: what a kernel stores there, nobody else finds."""
        own = mmap.mmap(self.heap, HEAP_BYTES, flags=mmap.MAP_PRIVATE | _NO_RESERVE)
        heap, whole = np.frombuffer(own, np.uint8), self.device
        arrays = {start: heap[start - BASE :][: len(array)] for start, array in whole.arrays.items()}
        begins = {array.ctypes.data: start for start, array in whole.arrays.items()}
        return Device(arrays, {name: arrays[begins[array.ctypes.data]] for name, array in whole.sections.items()})


@dataclass
class _Module:
    cubin: Cubin
    sections: dict[str, NDArray[np.uint8]] = field(default_factory=dict)
    variables: dict[str, int] = field(default_factory=dict)
    """Name → offset in the heap."""


class _Server:
    """The emulator's side of the socket."""

    def __init__(self, stream: BufferedRWPair, heap: mmap.mmap, file: int):
        self._stream = stream
        self._file = file
        self._heap = np.frombuffer(heap, np.uint8)
        self._modules: dict[int, _Module] = {}
        self._arrays: dict[int, NDArray[np.uint8]] = {}
        self._used = 0

    def launches(self) -> Iterator[Launch]:
        """Answers until the program ends; each launch returns to it when the next is asked for."""
        while line := self._stream.readline():
            what, *rest = line.decode().split()
            if what == "launch":
                yield self._launch(rest)
                self._say("")
            else:
                self._say(str(self._answer(what, rest)))

    def _answer(self, what: str, given: list[str]) -> int:
        match what, given:
            case "module", [number, size]:
                return self._module(int(number), int(size))
            case "variable", [module, name]:
                return self._variable(int(module), name)
            case "allocate", [start, size]:
                self._arrays[BASE + int(start)] = self._heap[int(start) : int(start) + int(size)]
            case "free", [start]:
                del self._arrays[BASE + int(start)]
            case _:
                raise ProgramError(f"{what} {given} of a stand-in that is not this one's")
        return 0

    def _say(self, line: str) -> None:
        self._stream.write(f"{line}\n".encode())
        self._stream.flush()

    def _launch(self, given: list[str]) -> Launch:
        module, kernel = self._modules[int(given[0])], given[1]
        sizes = [parameter.size for parameter in module.cubin.kernel(kernel).parameters]
        self._say(" ".join(map(str, sizes)))
        arguments = tuple(self._stream.read(size) for size in sizes)
        x, y, z, *block, shared = map(int, given[2:9])
        cluster_x, cluster_y, cluster_z = map(int, given[9:])
        device = Device(dict(self._arrays), module.sections)
        return Launch(
            module.cubin, kernel, (x, y, z), (block[0], block[1], block[2]), shared,
            (cluster_x, cluster_y, cluster_z) if cluster_x else None, arguments, device, self._file,
        )  # fmt: skip

    def _module(self, number: int, size: int) -> int:
        """Take a fat binary, and give its variables their places in the heap."""
        content = self._stream.read(size)
        start = content.find(_ELF)
        if start < 0:
            raise ProgramError("no machine code in a fat binary")
        cubin = read_cubin(content[start:], f"module {number}")
        module = _Module(cubin)
        addresses = variable_addresses(cubin)
        constants = {s.name: s for k in cubin.kernels.values() for n, s in k.constant_sections.items() if n == 3}
        for section in (*cubin.global_sections, *constants.values()):
            data = np.frombuffer(section.placed(addresses, cubin.file), np.uint8)
            place = self._heap[self._used : self._used + max(1, len(data))]
            place[: len(data)] = data
            module.sections[section.name] = place
            module.variables |= {v.name: self._used + v.offset for v in section.variables}
            self._arrays[BASE + self._used] = place
            self._used += -(-max(1, len(data)) // _ALIGNMENT) * _ALIGNMENT
        self._modules[number] = module
        return 0

    def _variable(self, module: int, name: str) -> int:
        places = self._modules[module].variables
        if name not in places:
            raise ProgramError(f"no variable {name} in its module")
        return places[name]


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (PROGRAM_SECONDS, PROGRAM_SECONDS))


def launches(
    executable: Path, arguments: Sequence[str], folder: Path, arch: Architecture | None = None
) -> Generator[Launch]:
    """Start a program in `folder` and hand out its launches in order; it is killed when the iterator is closed.

    The program sees the chip of `arch`: its SMs, compute capability and shared memory; by default an RTX 3080.
    """
    ours, theirs = socket.socketpair()
    with tempfile.TemporaryFile(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as file:
        file.truncate(HEAP_BYTES)
        heap = mmap.mmap(file.fileno(), HEAP_BYTES)
        environment = os.environ | {"GPUEMU_SOCKET": str(theirs.fileno()), "GPUEMU_HEAP": str(file.fileno())}
        if arch is not None:
            capability, shared = arch.compute_capability.split("."), arch.shared_memory.max_bytes_per_cta
            environment["GPUEMU_DEVICE"] = " ".join(map(str, (arch.chips[arch.chip].sms, *capability, shared)))
        with tempfile.TemporaryFile() as told:
            program = subprocess.Popen(
                [executable, *arguments], cwd=folder, env=environment, pass_fds=(theirs.fileno(), file.fileno()),
                stdin=subprocess.DEVNULL, stdout=told, stderr=told, preexec_fn=_bounded,
            )  # fmt: skip
            theirs.close()
            try:
                with ours, ours.makefile("rwb") as stream:
                    yield from _Server(stream, heap, file.fileno()).launches()
                code = program.wait()
                if code:
                    told.seek(0)
                    last = told.read().decode(errors="replace").strip().rpartition("\n")[2]
                    raise ProgramError(f"the program ended with {code}: {last[:120]}")
            finally:
                program.kill()
                program.wait()
