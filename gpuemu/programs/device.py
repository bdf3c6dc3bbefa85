"""The emulated GPU of one process of a program. It implements `protocol.Device`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpuemu.programs import chips, protocol
from gpuemu.programs.clock import Clock
from gpuemu.programs.executing import Job
from gpuemu.programs.journal import COPY_NAMES, FILL_NAME, CopyRecord, Journal, LaunchRecord
from gpuemu.programs.launching import Launches, Pending
from gpuemu.programs.memory import Allocation, ProgramMemory
from gpuemu.programs.modules import Modules
from gpuemu.programs.protocol import Chip, Copy, DeviceError, Direction, Function, MemoryKind
from gpuemu.programs.settings import Settings
from gpuemu.sass.launch_config import DEFAULT_STACK_BYTES
from gpuemu.sass.tools.images import link_images
from gpuemu.trace.launch_limits import MOST_STACK_BYTES
from gpuemu.trace.model import Launch
from gpuemu.trace.residency import limits_of

_STACK_LIMIT = 0


class EmulatedDevice:
    """See `protocol.Device`. The processes of a program share `journal`, which lists launches and copies."""

    def __init__(self, process: int, heap: NDArray[np.uint8], file: int, settings: Settings, journal: Journal):
        self._process = process
        self._settings = settings
        self._journal = journal
        self._memory = ProgramMemory(heap, file)
        self._modules = Modules(heap, chips.capability(settings.arch))
        self._clock = Clock(chips.dram_bytes_per_nanosecond(settings.arch))
        self._launches = Launches(settings, journal, self._memory)
        self._stack_bytes = DEFAULT_STACK_BYTES

    def chip(self) -> Chip:
        return chips.describe(self._settings.arch)

    # -- memory ------------------------------------------------------------------------------------------------

    def allocate(self, address: int, size: int, heap_offset: int, kind: MemoryKind) -> None:
        self._memory.add(address, size, heap_offset, kind)

    def free(self, address: int) -> None:
        gone = self._memory.at(address)
        if gone is not None and gone.offset != gone.start - protocol.BASE:  # its contents may outlive the address
            self._launches.settle([gone], read=gone.is_shared)
        if gone is not None:
            self._launches.frees(gone)
            self._memory.remove(gone.start)

    def copy(self, copy: Copy) -> None:
        sources = self._memory.within(copy.source, copy.source_span)
        targets = self._memory.within(copy.to, copy.to_span)
        self._launches.settle(sources, read=copy.direction is not Direction.DEVICE_TO_DEVICE)
        self._launches.settle(targets)
        lacks = next((one.lacks for one in sources if one.lacks), "")
        for one in targets:
            one.changed()
            one.lacks = lacks if one.is_within(copy.to, _whole(copy.to_span, copy.size)) else one.lacks or lacks
        nanoseconds = self._clock.copy_nanoseconds(copy.size, copy.direction)
        if copy.direction is not Direction.HOST_TO_HOST:
            engine = copy.direction.name
            self._moves(COPY_NAMES[copy.direction], copy.size, copy.stream, engine, nanoseconds)
        if copy.waits:
            self.synchronize(copy.stream)

    def fill(self, to: int, to_span: int, size: int, stream: int) -> None:
        targets = self._memory.within(to, to_span)
        self._launches.settle(targets)
        for one in targets:
            one.changed()
            one.lacks = "" if one.is_within(to, _whole(to_span, size)) else one.lacks
        self._moves(FILL_NAME, size, stream, "kernels", self._clock.fill_nanoseconds(size))

    def _moves(self, kind: str, size: int, stream: int, engine: str, nanoseconds: float) -> None:
        begins = self._clock.work(stream, engine, nanoseconds)
        self._journal.copies.append(CopyRecord(kind, self._process, size, stream, begins, nanoseconds))

    # -- modules -----------------------------------------------------------------------------------------------

    def load(self, image: bytes) -> int:
        number = self._modules.load(image)
        for start, data in self._modules.module(number).arrays.items():
            self._memory.place(Allocation(start, len(data), MemoryKind.DEVICE, data, start - protocol.BASE))
        return number

    def unload(self, module: int) -> None:
        self._launches.settle(None)
        gone = self._modules.unload(module)
        for start in gone.arrays if gone is not None else ():
            self._memory.remove(start)

    def link(self, images: Sequence[bytes]) -> bytes:
        return link_images(images, "cuLinkComplete", chips.capability(self._settings.arch))

    def function(self, module: int, name: str) -> Function:
        return self._modules.function(module, name)

    def kernels(self, module: int) -> list[str]:
        return list(self._modules.module(module).cubin.kernels)

    def variable(self, module: int, name: str, is_managed: bool = False) -> tuple[int, int]:
        address, size = self._modules.variable(module, name)
        section = self._memory.at(address)
        if is_managed and section is not None:
            section.kind = MemoryKind.MANAGED
        return address, size

    # -- launches ----------------------------------------------------------------------------------------------

    def launch(self, launch: protocol.LaunchRequest) -> None:
        module, kernel = self._modules.kernel(launch.function)
        arguments = tuple(launch.arguments[p.offset : p.offset + p.size] for p in kernel.parameters)
        block = launch.block
        if kernel.host_code is not None and block == (1, 1, 1):  # a program cannot choose the threads of a tile kernel
            block = kernel.required_block or block
        job = Job(
            module.cubin, kernel.name, launch.grid, block, launch.cluster if any(launch.cluster) else None,
            launch.dynamic_shared_bytes, arguments, self._stack_bytes, module.sections,
        )  # fmt: skip
        name = kernel.source_name
        wanted = self._settings.wants(name, len(self._journal.launches))
        record = LaunchRecord(
            len(self._journal.launches) + 1, self._process, name, kernel.name, launch.grid, block,
            kernel.registers_per_thread, kernel.static_shared_bytes + launch.dynamic_shared_bytes, launch.stream,
        )  # fmt: skip
        if wanted:
            self._journal.launches.append(record)
        reached = self._launches.reached(job, module.arrays)
        kind = self._launches.kind(job)
        self._launches.take(Pending(job, record, kind, wanted, reached, self._memory.everything))
        record.begins = self._clock.work(launch.stream, "kernels", record.nanoseconds or 0.0)

    def synchronize(self, stream: int) -> None:
        self._launches.reads_of_the_host()
        self._clock.wait_for(stream)

    def record(self, event: int, stream: int) -> None:
        self._clock.record(event, stream)

    def wait(self, stream: int, event: int) -> None:
        self._clock.wait(stream, event)

    def elapsed(self, first: int, second: int) -> float:
        found = self._clock.elapsed(first, second)
        if found is None:
            raise DeviceError(protocol.INVALID_VALUE, "an event that was not recorded")
        return found / 1e6

    def clock(self) -> int:
        return round(self._clock.host)

    # -- questions ---------------------------------------------------------------------------------------------

    def occupancy(self, function: int, threads: int, dynamic_shared_bytes: int) -> int:
        _, kernel = self._modules.kernel(function)
        launch = Launch(
            (1, 1, 1), (threads, 1, 1), max(1, kernel.registers_per_thread), kernel.static_shared_bytes,
            dynamic_shared_bytes,
        )  # fmt: skip
        return min(limits_of(launch, self._settings.arch).values())

    def clusters(
        self, function: int, block: tuple[int, int, int], cluster: tuple[int, int, int], dynamic_shared_bytes: int
    ) -> int:
        """The SMs of one GPC hold a whole cluster."""
        chip = self._settings.arch.chips[self._settings.arch.chip]
        gpcs = chip.gpcs or 1
        ctas = self.occupancy(function, math.prod(block), dynamic_shared_bytes) * (chip.sms // gpcs)
        return gpcs * (ctas // max(1, math.prod(cluster)))

    def limit(self, which: int, value: int) -> None:
        if which == _STACK_LIMIT:
            if value > MOST_STACK_BYTES:
                raise DeviceError(protocol.INVALID_VALUE, f"a stack of {value} bytes")
            self._stack_bytes = max(value, DEFAULT_STACK_BYTES)

    def printed(self) -> bytes:
        printed = "".join(self._launches.printed)
        self._launches.printed.clear()
        return printed.encode("utf-8", "surrogateescape")

    def close(self) -> None:
        """Nobody reads the results of launches that still wait."""


def _whole(span: int, size: int) -> int:
    """The bytes that a copy or a fill covers without gaps from its start on."""
    return span if span == size else 0


class Maker:
    """Makes a device for each process of a program. It implements `protocol.DeviceMaker`."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.journal = Journal()

    def __call__(self, process: int, heap: NDArray[np.uint8], file: int) -> EmulatedDevice:
        return EmulatedDevice(process, heap, file, self.settings, self.journal)
