"""Finds what the products of a warpgroup (HGMMA, IGMMA, QGMMA) ask of the tensor core and of shared memory."""

from __future__ import annotations

from typing import Any

from gpuemu.arch import Architecture
from gpuemu.arch.tensor_core import TensorOperation
from gpuemu.isa.operands import parse_operand
from gpuemu.isa.products import NO_PRODUCT
from gpuemu.trace.model import Instruction

_COLUMNS = 8
"""The columns of the product whose timing the architecture file has."""
_LINES, _LINE_BYTES = 64, 32
"""A has so many lines of K, each of so many bytes, whatever the type. B has as many lines as the product has columns.
"""


def wavefronts(instruction: Instruction, arch: Architecture) -> int:
    """Wavefronts of shared memory that the operands of one product take (H100, counted: in every swizzle)."""
    if instruction.operands[:3] == NO_PRODUCT:
        return 0
    lines = instruction.operation.warpgroup_columns + _LINES * a_is_shared(instruction)
    wide = arch.shared_memory.banks * arch.shared_memory.bank_width_bytes
    return -(-lines * _LINE_BYTES // wide)


def a_is_shared(instruction: Instruction) -> bool:
    """Whether A is in shared memory, as B always is: the descriptor is the second operand then."""
    return parse_operand(instruction.operands[1]).prefix == "gdesc"


def product(instruction: Instruction, timing: TensorOperation, arch: Architecture) -> dict[str, Any]:
    """The fields of its Op: how long it keeps the tensor cores, and when it is done."""
    if instruction.operands[:3] == NO_PRODUCT:
        return {"latency_cycles": 0, "product_cycles": 0, "commits": True}
    core, in_shared = arch.tensor_core.warpgroup, a_is_shared(instruction)
    by_columns = instruction.operation.warpgroup_columns // _COLUMNS * timing.issue_interval_cycles
    if in_shared:
        takes, early = max(by_columns, wavefronts(instruction, arch)), 0
    else:
        takes, early = max(by_columns, core.register_interval_cycles), core.register_early_cycles
    blocks, halves = instruction.operation.warpgroup_columns // _COLUMNS, ".f16." in instruction.operation.operation
    return {
        "product_period": takes // blocks,
        "product_busy": -(-(2 if halves else 4) // arch.tensor_core.operands.registers_per_cycle),
        "latency_cycles": timing.latency_cycles + by_columns - timing.issue_interval_cycles - early,
        "product_cycles": takes,
        "product_wavefronts": wavefronts(instruction, arch),
        "commits": "gsb0" in instruction.operands,
    }
