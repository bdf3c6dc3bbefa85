"""What a launch puts in the constant banks: the cubin's constants, and in bank 0 the launch and its arguments.

Bank 0 begins with words that the driver fills in. Those below are known from what compilers read there for which
PTX register or address; the others are refused when code reads them. A launch has clusters of one CTA.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.arguments import arguments_bytes
from gpuemu.sass.machine.memory import CONSTANT_WINDOW, LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW, Memory
from gpuemu.sass.tools.disassembly import DecodedFunction
from gpuemu.trace.model import Launch
from gpuemu.trace.residency import units

if TYPE_CHECKING:
    from gpuemu.arch import Architecture

Banks = dict[int, NDArray[np.uint8]]
_BLOCK_DIMENSIONS = 0x0
_GRID_DIMENSIONS = 0xC
_SHARED_WINDOW = 0x18
_LOCAL_WINDOW = 0x20
_STACK_POINTER = 0x28
_DYNAMIC_SHARED_BYTES = 0x2C
_RESERVED_SHARED_BYTES = 0x114
_GROUPS_SCRATCH_BYTES = 288
"""What cooperative groups count on from %reserved_smem_offset_1 on."""
_RESERVED_OFFSETS = (0x120, 0x68)
"""%reserved_smem_offset_end, and _1 behind it, without and with clusters."""
_GRID_WORKSPACE = (0x8C, 0x44)
"""%envreg1 and %envreg2, upper and lower word of the address of what `grid_group::sync` counts arrivals in."""
_ALL_BANKS_BYTES = 128
_LEAST_BYTES = 0x240
_WITH_CLUSTERS = 90
_PARAMETER_ADDRESS = "c[0x0][0x198]"
"""The generic address of the parameters."""
_USER_CONSTANTS = 3
"""The bank of `__constant__` variables, which have generic addresses, too."""


def shared_memory_size(launch: Launch, arch: Architecture) -> int:
    """Bytes of shared memory that a CTA takes, what the system reserves included: SR_SMEMSZ."""
    memory = arch.shared_memory
    return units(launch.shared_bytes + memory.reserved_bytes_per_cta, memory.allocation_unit_bytes)


def shared_memory(function: DecodedFunction, launch: Launch, arch: Architecture) -> tuple[int, int, slice]:
    """Bytes of a CTA's shared memory, the address of the first, and which of them the system wrote.

    That is none, but for code that asks where cooperative groups may keep the barriers of groups of several warps: in
    memory that the system reserves, in front of the CTA's own with clusters, else behind it.
    """
    clusters = _has_clusters(function)
    if not _asks_for(function, _RESERVED_OFFSETS[clusters] + 4):
        return launch.shared_bytes, function.shared_base, slice(0)
    if clusters:
        # As many as keep every byte in its bank.
        kept = units(_GROUPS_SCRATCH_BYTES, _ALL_BANKS_BYTES)
        return launch.shared_bytes + kept, function.shared_base - kept, slice(kept)
    end = shared_memory_size(launch, arch)
    return end, function.shared_base, slice(launch.shared_bytes, end)


def _asks_for(function: DecodedFunction, offset: int) -> bool:
    """Whether code reads this word of bank 0; code that is not optimised has its offset in a register."""
    number = f"{offset:#x}"
    return any(
        (i.mnemonic in ("MOV", "MOV32I") and i.operands[1:2] == (number,))
        or any(f"c[0x0][{number}]" in operand for operand in i.operands)
        for i in function.code
    )


def is_cooperative(function: DecodedFunction) -> bool:
    """Whether code asks for the barrier of the whole grid, which only a cooperative launch has."""
    return _asks_for(function, _GRID_WORKSPACE[_has_clusters(function)])


def _has_clusters(function: DecodedFunction) -> bool:
    return int(function.arch.removeprefix("sm_").rstrip("af")) >= _WITH_CLUSTERS


def constant_banks(
    function: DecodedFunction, launch: Launch, memory: Memory, args: Sequence[Any], arch: Architecture
) -> tuple[Banks, frozenset[int]]:
    """The banks, and the offsets of those words in front of bank 0's parameters that hold what they should.

    Variables and array arguments become buffers of `memory`. Raises GpuemuError for arguments that do not fit.
    """
    addresses = function.image.addresses
    for section in function.cubin.global_sections:
        # The image has counted on where they come to lie.
        data = np.zeros(max(1, len(section.data)), dtype=np.uint8)
        data[: len(section.data)] = np.frombuffer(section.placed(addresses, function.cubin.file), dtype=np.uint8)
        place = memory.add_buffer(section.name, data, fixed=True)
        assert place == addresses[section.name], section.name
    placed = function.placed_constant_banks(addresses)
    banks = {number: np.frombuffer(data, dtype=np.uint8).copy() for number, data in placed.items()}
    end = function.parameter_base + function.parameter_bytes
    zero = np.zeros(max(end, _LEAST_BYTES, len(banks.get(0, b""))), dtype=np.uint8)
    if 0 in banks:
        zero[: len(banks[0])] = banks[0]
    banks[0] = zero

    def put(offset: int, data: bytes) -> None:
        zero[offset : offset + len(data)] = np.frombuffer(data, dtype=np.uint8)

    for parameter, value in zip(function.parameters, arguments_bytes(function, args, memory), strict=True):
        put(function.parameter_base + parameter.offset, value)
    words = _driver_words(function, launch, memory, banks, arch)
    known = set()
    for offset, values in words.items():
        put(offset, values.tobytes())
        known |= set(range(offset, offset + values.nbytes, 4))
    return banks, frozenset(known | set(range(function.parameter_base, len(zero), 4)))


def _driver_words(
    function: DecodedFunction, launch: Launch, memory: Memory, banks: Banks, arch: Architecture
) -> dict[int, NDArray[Any]]:
    """What the driver puts in front of the parameters: offset → values."""
    clusters = _has_clusters(function)
    words: dict[int, NDArray[Any]] = {
        _BLOCK_DIMENSIONS: np.array(launch.block, dtype=np.uint32),
        _GRID_DIMENSIONS: np.array(launch.grid, dtype=np.uint32),
        _LOCAL_WINDOW: np.array([LOCAL_WINDOW], dtype=np.uint64),
        _STACK_POINTER: np.array([memory.local_bytes], dtype=np.uint32),
        _DYNAMIC_SHARED_BYTES: np.array([launch.dynamic_shared_bytes], dtype=np.uint32),
        _RESERVED_SHARED_BYTES: np.array([arch.shared_memory.reserved_bytes_per_cta], dtype=np.uint32),
        # The descriptor of global memory that instructions name as desc[...]: it changes no value here.
        0x208 if clusters else 0x118: np.zeros(1, dtype=np.uint64),
    }
    reserved = arch.shared_memory.reserved_bytes_per_cta
    if reserved:
        # %reserved_smem_offset_end and _1, of what the system reserves: in front of the CTA's own with clusters.
        end = reserved if clusters else shared_memory_size(launch, arch)
        words[_RESERVED_OFFSETS[clusters]] = np.array([end, end - _GROUPS_SCRATCH_BYTES], dtype=np.uint32)
    if clusters:
        ones = np.ones(3, dtype=np.uint32)
        words[0x140] = np.zeros(1, dtype=np.uint32)  # %is_explicit_cluster
        words[0x144] = ones  # %cluster_nctaid
        words[0x150] = ones.astype(np.float32)  # and its reciprocal
        words[0x15C] = np.array(launch.grid, dtype=np.uint32)  # %nclusterid
        words[0x188] = ones[:1]  # %cluster_nctarank
    else:
        words[_SHARED_WINDOW] = np.array([SHARED_WINDOW], dtype=np.uint64)
    if is_cooperative(function):
        address = memory.add_buffer("the grid's barrier", np.zeros(2, dtype=np.uint32))
        words[_GRID_WORKSPACE[clusters]] = np.array([address >> 32, address & 0xFFFFFFFF], dtype=np.uint32)
    words[0xD0 if clusters else 0x50] = np.array([CONSTANT_WINDOW], dtype=np.uint64)
    if _USER_CONSTANTS in banks:
        memory.add_constants(banks[_USER_CONSTANTS])
    if clusters and any(_PARAMETER_ADDRESS in operand for i in function.code for operand in i.operands):
        memory.add_parameters(banks[0][function.parameter_base :])
        words[0x198] = np.array([PARAMETER_WINDOW], dtype=np.uint64)
    return words
