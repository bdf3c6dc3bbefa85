"""The contents of the constant banks in a launch: the cubin's constants, and in bank 0 the launch and its arguments.

Bank 0 begins with words that the driver fills in. The words below are known from the PTX registers or addresses for
which compilers read them. Code that reads other words is refused. A launch has clusters of one CTA.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.memory.arguments import arguments_bytes
from gpuemu.sass.machine.memory.storage import (
    CONSTANT_WINDOW,
    LOCAL_WINDOW,
    PARAMETER_WINDOW,
    SHARED_WINDOW,
    Device,
    Memory,
)
from gpuemu.sass.tools.disassembly import DecodedFunction
from gpuemu.trace.model import Launch
from gpuemu.trace.residency import units

if TYPE_CHECKING:
    from gpuemu.arch import Architecture

Banks = dict[int, NDArray[np.uint8]]
NOTHING_KEPT = Device()
_GROUPS_SCRATCH_BYTES = 288
"""Bytes that cooperative groups expect from %reserved_smem_offset_1 on."""
_ALL_BANKS_BYTES = 128


@dataclass(frozen=True)
class _Words:
    """Offsets of the driver's words in bank 0; None if code of the architecture does not read the word.

    `in_front`: bytes per CTA of a cluster by which code of sm_120 moves the offsets of the words of the launch and its
    cluster (`CS2R SR_CgaSize`, `IMAD -0xa0`). A launch has one CTA per cluster.
    """

    least: int
    block: int
    grid: int
    local_window: int
    stack_pointer: int
    reserved_shared_bytes: int
    descriptor: int
    constant_window: int
    dynamic_shared_bytes: int
    reserved_offsets: int
    grid_workspace: int
    shared_window: int | None = None
    explicit_cluster: int | None = None
    cluster: int | None = None
    cluster_reciprocal: int | None = None
    clusters: int | None = None
    cluster_ctas: int | None = None
    parameters: int | None = None
    in_front: int = 0


_OF_CODE = (
    _Words(
        least=100, block=0x360, grid=0x370, local_window=0x2F8, stack_pointer=0x37C, reserved_shared_bytes=0x16C,
        descriptor=0x358, constant_window=0x120, dynamic_shared_bytes=0x2AC, reserved_offsets=0x278,
        grid_workspace=0x254, explicit_cluster=0x36C, cluster=0x2A0, cluster_reciprocal=0x2B0, clusters=0x2C0,
        cluster_ctas=0x2CC, parameters=0x348, in_front=0xA0,
    ),
    _Words(
        least=90, block=0x0, grid=0xC, local_window=0x20, stack_pointer=0x28, reserved_shared_bytes=0x114,
        descriptor=0x208, constant_window=0xD0, dynamic_shared_bytes=0x2C, reserved_offsets=0x68,
        grid_workspace=0x44, explicit_cluster=0x140, cluster=0x144, cluster_reciprocal=0x150, clusters=0x15C,
        cluster_ctas=0x188, parameters=0x198,
    ),
    _Words(
        least=70, block=0x0, grid=0xC, local_window=0x20, stack_pointer=0x28, reserved_shared_bytes=0x114,
        descriptor=0x118, constant_window=0x50, dynamic_shared_bytes=0x2C, reserved_offsets=0x120,
        grid_workspace=0x8C, shared_window=0x18,
    ),
)  # fmt: skip
"""The words by the minimum compute capability of the code, latest first.

`reserved_offsets`: %reserved_smem_offset_end, followed by _1. `grid_workspace`: %envreg1 and %envreg2, the upper and
lower word of the address at which `grid_group::sync` counts arrivals. `parameters`: their generic address.
"""
_LEAST_BYTES = 0x380
_USER_CONSTANTS = 3
"""The bank of `__constant__` variables, which also have generic addresses."""


def shared_memory_size(launch: Launch, arch: Architecture) -> int:
    """Return the bytes of shared memory that a CTA occupies, including the reserved ones: SR_SMEMSZ."""
    memory = arch.shared_memory
    return units(launch.shared_bytes + memory.reserved_bytes_per_cta, memory.allocation_unit_bytes)


def shared_memory(function: DecodedFunction, launch: Launch, arch: Architecture) -> tuple[int, int, slice]:
    """Return the bytes of a CTA's shared memory, the address of the first, and the range that the system wrote.

    That range is empty, unless the code asks where cooperative groups may keep the barriers of groups of several warps.
    They are in memory that the system reserves. That memory precedes the CTA's own with clusters, and otherwise follows
    it. Code that allocates tensor memory keeps words of its own in the memory before the CTA's.
    """
    words = _words(function)
    if allocates_tensors(function):
        kept = function.shared_base
        return launch.shared_bytes + kept, 0, slice(kept)
    if not _asks_for(function, words.reserved_offsets + 4):
        return launch.shared_bytes, function.shared_base, slice(0)
    if words.cluster is not None:
        # The size is a multiple of all banks, so every byte keeps its bank.
        kept = units(_GROUPS_SCRATCH_BYTES, _ALL_BANKS_BYTES)
        return launch.shared_bytes + kept, function.shared_base - kept, slice(kept)
    end = shared_memory_size(launch, arch)
    return end, function.shared_base, slice(launch.shared_bytes, end)


def allocates_tensors(function: DecodedFunction) -> bool:
    """Whether code allocates tensor memory."""
    return any(i.mnemonic == "UTCATOMSWS" for i in function.code)


def _asks_for(function: DecodedFunction, offset: int) -> bool:
    """Whether code reads this word of bank 0; code without optimization has its offset in a register."""
    number = f"{offset:#x}"
    places = (f"c[0x0][{number}]", f"+{number}]")
    return any(
        (i.mnemonic in ("MOV", "MOV32I") and i.operands[1:2] == (number,))
        or any(operand.startswith("c[0x0]") and operand.endswith(places) for operand in i.operands)
        for i in function.code
    )


def is_cooperative(function: DecodedFunction) -> bool:
    """Whether code requests the barrier of the whole grid, which only a cooperative launch has."""
    return _asks_for(function, _words(function).grid_workspace)


def _words(function: DecodedFunction) -> _Words:
    capability = int(function.arch.removeprefix("sm_").rstrip("af"))
    return next(words for words in _OF_CODE if capability >= words.least)


def constant_banks(
    function: DecodedFunction,
    launch: Launch,
    memory: Memory,
    args: Sequence[Any],
    arch: Architecture,
    cluster: tuple[int, int, int] = (1, 1, 1),
    device: Device = NOTHING_KEPT,
) -> tuple[Banks, frozenset[int]]:
    """Return the banks, and the offsets of the words before bank 0's parameters that have valid values.

    `cluster`: the CTAs of a cluster along each axis. Data in `device` replaces the cubin's. Variables and array
    arguments become buffers of `memory`. Raises GpuemuError for arguments that do not fit.
    """
    addresses = function.image.addresses
    for section in function.cubin.global_sections:
        if section.name in function.cubin.section_starts:  # it is among the arrays on the device
            continue
        # The image depends on their addresses.
        data = device.sections.get(section.name)
        if data is None:
            data = np.zeros(max(1, len(section.data)), dtype=np.uint8)
            data[: len(section.data)] = np.frombuffer(section.placed(addresses, function.cubin.file), dtype=np.uint8)
        place = memory.add_buffer(section.name, data, fixed=True)
        assert place == addresses[section.name], section.name
    placed = function.placed_constant_banks(addresses)
    banks = {number: np.frombuffer(data, dtype=np.uint8).copy() for number, data in placed.items()}
    banks |= {n: device.sections[s.name] for n, s in function.constant_sections.items() if s.name in device.sections}
    for address, array in device.arrays.items():
        memory.add_at(address, array)
    end = function.parameter_base + function.parameter_bytes
    zero = np.zeros(max(end, _LEAST_BYTES, len(banks.get(0, b""))), dtype=np.uint8)
    if 0 in banks:
        zero[: len(banks[0])] = banks[0]
    banks[0] = zero

    def put(offset: int, data: bytes) -> None:
        zero[offset : offset + len(data)] = np.frombuffer(data, dtype=np.uint8)

    for parameter, value in zip(function.parameters, arguments_bytes(function, args, memory), strict=True):
        put(function.parameter_base + parameter.offset, value)
    words = _driver_words(function, launch, memory, banks, arch, cluster)
    known = set()
    for offset, values in words.items():
        put(offset, values.tobytes())
        known |= set(range(offset, offset + values.nbytes, 4))
    return banks, frozenset(known | set(range(function.parameter_base, len(zero), 4)))


def _driver_words(
    function: DecodedFunction,
    launch: Launch,
    memory: Memory,
    banks: Banks,
    arch: Architecture,
    cluster: tuple[int, int, int],
) -> dict[int, NDArray[Any]]:
    """Return the driver's words before the parameters: offset → values."""
    at = _words(function)
    reserved = arch.shared_memory.reserved_bytes_per_cta
    # %reserved_smem_offset_end and _1 of the reserved memory, which precedes the CTA's own with clusters.
    end = shared_memory_size(launch, arch) if at.cluster is None else reserved
    words: dict[int | None, NDArray[Any]] = {
        at.block: np.array(launch.block, dtype=np.uint32),
        at.grid: np.array(launch.grid, dtype=np.uint32),
        at.local_window: np.array([LOCAL_WINDOW], dtype=np.uint64),
        at.stack_pointer: np.array([memory.local_bytes], dtype=np.uint32),
        at.reserved_shared_bytes: np.array([reserved], dtype=np.uint32),
        # The descriptor of global memory, which instructions name as desc[...], does not change any value here.
        at.descriptor: np.zeros(1, dtype=np.uint64),
        at.constant_window: np.array([CONSTANT_WINDOW], dtype=np.uint64),
        at.shared_window: np.array([SHARED_WINDOW], dtype=np.uint64),
        at.explicit_cluster: np.array([math.prod(cluster) > 1], dtype=np.uint32),
    }
    size = np.array(cluster, dtype=np.uint32)
    moved: dict[int | None, NDArray[Any]] = {
        at.dynamic_shared_bytes: np.array([launch.dynamic_shared_bytes], dtype=np.uint32),
        at.cluster: size,
        at.cluster_reciprocal: (1 / size).astype(np.float32),
        at.clusters: np.array(launch.grid, dtype=np.uint32) // size,
        at.cluster_ctas: np.array([math.prod(cluster)], dtype=np.uint32),
    }
    if reserved:
        moved[at.reserved_offsets] = np.array([end, end - _GROUPS_SCRATCH_BYTES], dtype=np.uint32)
    if is_cooperative(function):
        address = memory.add_buffer("the grid's barrier", np.zeros(2, dtype=np.uint32))
        moved[at.grid_workspace] = np.array([address >> 32, address & 0xFFFFFFFF], dtype=np.uint32)
    words |= {offset - at.in_front: values for offset, values in moved.items() if offset is not None}
    if _USER_CONSTANTS in banks:
        memory.add_constants(banks[_USER_CONSTANTS])
    if at.parameters is not None and _asks_for(function, at.parameters):
        memory.add_parameters(banks[0][function.parameter_base :])
        words[at.parameters] = np.array([PARAMETER_WINDOW], dtype=np.uint64)
    return {offset: values for offset, values in words.items() if offset is not None}
