"""A launch before its first instruction: the decoded kernel, its limits on the chip, its memory and its executor."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuemu.arch import Architecture, load_arch
from gpuemu.base.errors import GpuemuError
from gpuemu.sass.clusters import cluster_size
from gpuemu.sass.launch_config import LaunchConfig, Sizes
from gpuemu.sass.machine.environment import Environment, WorkQueues
from gpuemu.sass.machine.lanes import WARP, Lanes
from gpuemu.sass.machine.memory.constant_banks import (
    NOTHING_KEPT,
    allocates_tensors,
    constant_banks,
    is_cooperative,
    shared_memory,
    shared_memory_size,
)
from gpuemu.sass.machine.memory.storage import Memory
from gpuemu.sass.machine.recording.clock import ReplayedClock
from gpuemu.sass.machine.recording.observer import Observer
from gpuemu.sass.machine.scheduling.cluster_state import Clusters
from gpuemu.sass.machine.scheduling.cta import CtaExecutor
from gpuemu.sass.machine.scheduling.launch_control import LaunchControl
from gpuemu.sass.machine.system_calls import add_heap
from gpuemu.sass.room import check_room
from gpuemu.sass.tools.disassembly import DecodedFunction, decode_function, without_padding
from gpuemu.trace.model import Instruction, Launch, Trace
from gpuemu.trace.residency import residency, units

_STACK_ALIGNMENT = 16
"""A thread's stack is rounded up to this number of bytes."""


@dataclass(frozen=True)
class PreparedLaunch:
    """A kernel that fits the hardware.

    `code` has no padding at its end. `cluster` counts the CTAs of a cluster. Each of the chip's `sms` SMs runs
    `resident` CTAs at once.
    """

    function: DecodedFunction
    hardware: Architecture
    launch: Launch
    code: tuple[Instruction, ...]
    cluster: Sizes
    sms: int
    resident: int

    @property
    def file(self) -> str:
        """The kernel's file, as the user named it."""
        return self.function.cubin.file

    @property
    def at_once(self) -> int:
        """CTAs that the chip runs at once."""
        return self.sms * self.resident

    @property
    def timed_launch(self) -> Launch:
        """The launch with only those CTAs that begin first, if these take over the work of the others."""
        control = self.launch_control()
        if control is None or control.first_ctas == self.launch.ctas:
            return self.launch
        return replace(self.launch, grid=(control.first_ctas, 1, 1))

    def launch_control(self) -> LaunchControl | None:
        """Return the clusters that CTAs can take over, or None if the code takes none."""
        if all(instruction.mnemonic != "UGETNEXTWORKID" for instruction in self.code):
            return None
        return LaunchControl(self.launch.grid, self.cluster, self.at_once)

    def check_ctas(self, ctas: Sequence[int]) -> None:
        """Raise GpuemuError for a CTA that the grid does not have."""
        for cta in ctas:
            if not 0 <= cta < self.launch.ctas:
                raise GpuemuError.one(
                    "--cta", None, "", f"the grid has no CTA {cta}", f"Choose from 0 to {self.launch.ctas - 1}"
                )


def prepare(config: LaunchConfig) -> PreparedLaunch:
    """Decode the kernel and check it against the chip. Raises GpuemuError for a launch that no GPU would accept."""
    arch = config.arch
    # A user's what-if architecture is compiled for its compute capability.
    name = arch.code_name if isinstance(arch, Architecture) else arch
    function = decode_function(config.code, config.kernel, name, options=config.options)
    hardware = arch if isinstance(arch, Architecture) else load_arch(name or function.arch)
    launch = Launch(
        config.grid, config.block, max(1, function.registers_per_thread), function.static_shared_bytes,
        config.dynamic_shared_bytes,
    )  # fmt: skip
    _check_bounds(function, launch)
    cluster = cluster_size(function, launch, config.cluster)
    check_room(launch, config.stack_bytes, function.cubin.file)
    code = without_padding(function.code)
    nothing, nobody = np.zeros((0, WARP), np.int64), np.zeros((0, WARP), np.bool_)
    head = Trace(
        function.source_name, function.arch, launch, code, (), nothing, nobody, file=function.cubin.file
    )  # fmt: skip
    resident, sms = min(residency(head, hardware).values()), hardware.chips[hardware.chip].sms
    prepared = PreparedLaunch(function, hardware, launch, code, cluster, sms, resident)
    if launch.ctas > prepared.at_once and is_cooperative(function):
        found = f"{launch.ctas} CTAs of a kernel that synchronizes the grid"
        right = f"Launch at most {prepared.at_once}, which fit on the chip at once"
        raise GpuemuError.one(prepared.file, None, "--grid", found, f"{right} ({sms} SMs x {resident})")
    return prepared


def new_memory(prepared: PreparedLaunch, config: LaunchConfig, lanes: Lanes, spread: int) -> Memory:
    """Return the memory of a launch. `spread`: see Observer."""
    shared_bytes, shared_base, system_wrote = shared_memory(prepared.function, prepared.launch, prepared.hardware)
    return Memory(
        shared_bytes=shared_bytes,
        shared_base=shared_base,
        # The frames of wide variables are aligned to this initial value of the stack.
        local_bytes_per_lane=units(max(prepared.function.local_bytes, config.stack_bytes), _STACK_ALIGNMENT),
        lanes=lanes,
        zero_shared=config.zero_shared,
        system_wrote=system_wrote,
        spread=spread,
        noise=config.noise,
        allocates_tensors=allocates_tensors(prepared.function),
    )


def new_environment(
    prepared: PreparedLaunch, config: LaunchConfig, observer: Observer | None, printer: Callable[[str], None],
    clock: ReplayedClock | None, work_queues: WorkQueues | None,
) -> Environment:  # fmt: skip
    """Return memory, constants and arguments of a launch before execution. Raises GpuemuError for unfit arguments."""
    function, launch, hardware = prepared.function, prepared.launch, prepared.hardware
    lanes = Lanes(launch.threads_per_cta, config.noise)
    memory = new_memory(prepared, config, lanes, 0 if observer is None else observer.spread)
    device = config.device or NOTHING_KEPT
    constants, known = constant_banks(function, launch, memory, config.args, hardware, prepared.cluster, device)
    add_heap(memory, function.image.codeless)
    return Environment(
        hardware,
        launch,
        lanes,
        memory,
        constants,
        prepared.code,
        known,
        shared_memory_size(launch, hardware),
        codeless=function.image.codeless,
        entries=function.image.entries,
        printer=printer,
        observer=observer,
        replayed=clock,
        handouts=work_queues,
        launch_control=prepared.launch_control(),
    )


def new_executor(prepared: PreparedLaunch, environment: Environment) -> CtaExecutor:
    """Return the executor of CTAs. Raises UnsupportedError for an unknown instruction."""
    several = math.prod(prepared.cluster) > 1
    clusters = Clusters(prepared.cluster, prepared.launch.grid, environment.lanes.exists) if several else None
    return CtaExecutor(environment, clusters)


def _check_bounds(function: DecodedFunction, launch: Launch) -> None:
    """Refuse a block that the code was not compiled for: by __launch_bounds__ (PTX: .maxntid) or .reqntid."""
    file, found, required = function.cubin.file, str(launch.block), function.required_block
    if required is not None and launch.block != required:
        right = f"expected {required}, the only block that {function.source_name} was compiled for (.reqntid)"
        raise GpuemuError.one(file, None, "block", found, right)
    most = math.prod(function.max_threads or (launch.threads_per_cta,))
    if launch.threads_per_cta > most:
        right = f"expected at most {most} threads for {function.source_name} (__launch_bounds__)"
        raise GpuemuError.one(file, None, "block", f"{found}, {launch.threads_per_cta} threads", right)
