"""What each instruction asks of the register file's ports, and what operations on the tensor pipe lose between them.

Both follow from the code alone: which registers an instruction names, which of them the instruction before it
left in the operand cache (its reuse flags), which unit it goes to. `annotate` writes them into the lowered
operations; `gpuemu.engine.operand_ports` acts on them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuemu.isa import Kind
from gpuemu.registers import mma_registers, source_registers

if TYPE_CHECKING:
    from gpuemu.arch import Architecture
    from gpuemu.program import Op
    from gpuemu.trace.model import Instruction

TENSOR_PIPE = "tensor"
"""Operations on it are told apart by what they accumulate: the pipes tensor/f32, tensor/f16, tensor/fma and so on."""
SCALAR = f"{TENSOR_PIPE}/fma"

_SLOTS = 3
_ADD_IN_THIRD_SLOT = frozenset(("FADD", "HADD2", "DADD"))
"""A sum is a product with 1 to which the second source is added: it stands where FFMA has its third."""
_WRITES = {"f32": 2, "s32": 2, "f16": 1}
"""Cycles in which an mma writes its results, two registers in each."""

_MEMORY = (Kind.SHARED, Kind.GLOBAL, Kind.SHUFFLE, Kind.COPY_COMMIT)
_MATH = (Kind.FIXED, Kind.VARIABLE)
_NOT_MATH = ("nop", "uniform")


def tensor_pipe(mode: str) -> str:
    """The pipe of a tensor mode: m16n8k16.f32.f16 accumulates in f32."""
    return f"{TENSOR_PIPE}/{mode.split('.')[1]}"


def parts_of(name: str) -> tuple[str, ...]:
    """The parts of a pipe's name: fmaheavy and fmalite of "fmaheavy+fmalite"."""
    return tuple(name.replace("|", "+").split("+"))


def annotate(ops: Sequence[Op], code: Sequence[Instruction], arch: Architecture, pipes: Sequence[str]) -> None:
    """Set what the operand ports need to know of each operation; `pipes` names the pipes by number."""
    tensor = [name for name in pipes if name.startswith(TENSOR_PIPE)]
    before: Instruction | None = None
    for op, instruction in zip(ops, code, strict=True):
        kind = instruction.operation.kind
        op.is_memory = kind in _MEMORY
        op.needs = op.fills = (0,) * arch.register_file.banks
        operation = instruction.operation
        op.passes_barrier = (
            kind in _MATH and operation.operation not in _NOT_MATH and op.plain and not operation.warpgroup_columns
        )
        op.slips_barrier = kind not in (Kind.BARRIER, Kind.EXIT)
        # The address of a shared-memory load is read early: not yet so in the cycle in which a barrier opens.
        op.late_behind_barrier = (
            kind is Kind.SHARED and op.is_load and re.match(r"\[R\d", instruction.operands[-1]) is not None
        )
        if op.is_tensor:
            _annotate_mma(op, instruction, before, arch)
        elif kind in _MATH:
            op.needs, op.fills = _latches(instruction, before, arch)
        if pipes[op.pipe].startswith(TENSOR_PIPE):
            op.turnaround = tuple(_turnaround(pipes[op.pipe], after, arch) for after in tensor)
        op.reads_registers = any(op.fills) or op.is_tensor or op.is_memory
        op.crowds_ports = bool(op.turnaround) or any(latches & (latches - 1) for latches in op.fills)
        before = instruction


def _latches(
    instruction: Instruction, before: Instruction | None, arch: Architecture
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Which latches must be empty for the sources, and which they fill: for each bank a bit for each operand slot.

    A register that the instruction before it kept in the same operand slot is not read again. One that is named
    twice needs one empty latch and fills two.
    """
    slots = source_registers(instruction.opcode, instruction.operands)
    adds = instruction.opcode.split(".")[0] in _ADD_IN_THIRD_SLOT
    kept = _kept(before)
    needs = [0] * arch.register_file.banks
    fills = needs.copy()
    seen: set[int] = set()
    for slot, registers in enumerate(slots):
        if slot < len(kept) and registers and kept[slot] == registers:
            continue
        latch = 1 << (_SLOTS - 1 if adds and slot == 1 else slot % _SLOTS)
        for register in registers:
            fills[register % len(fills)] |= latch
            if register not in seen:
                needs[register % len(needs)] |= latch
        seen.update(registers)
    return tuple(needs), tuple(fills)


def _kept(before: Instruction | None) -> list[tuple[int, ...]]:
    """The registers that an instruction leaves in each operand slot."""
    if before is None or not any(".reuse" in operand for operand in before.operands):
        return []
    if before.operation.tensor:
        slots: tuple[tuple[int, ...], ...] = mma_registers(before.opcode, before.operands)
        texts = before.operands[1:]
    else:
        slots = source_registers(before.opcode, before.operands)
        texts = before.operands[len(before.operands) - len(slots) :]
    return [registers if ".reuse" in text else () for registers, text in zip(slots, texts, strict=True)]


def _annotate_mma(op: Op, instruction: Instruction, before: Instruction | None, arch: Architecture) -> None:
    """The fragments fill the operation's issue interval but for what is spare of each bank."""
    a, b, c = mma_registers(instruction.opcode, instruction.operands)
    kept = _kept(before)
    operands = arch.tensor_core.operands
    full = len(a) + len(b) > 4  # 16 x 8 x 32 bytes: two passes over the accumulator
    reads = [operands.accumulator_read_cycles if full else 0] * arch.register_file.banks
    for slot, registers in enumerate((a, b) if full else (a, b, c)):
        if not (slot < len(kept) and kept[slot] == registers):
            for register in registers:
                reads[register % len(reads)] += 1
    op.spare_reads = tuple(max(0, op.issue_interval_cycles - n) for n in reads)
    accumulator = instruction.operation.operation.split(".")[1]
    if accumulator in _WRITES:
        late = operands.s32_write_cycles if accumulator == "s32" else operands.float_write_cycles
        op.results, op.writes_after = _WRITES[accumulator], op.issue_interval_cycles + late
    if accumulator == "f16" and operands.f16_free_cycles:
        op.free_cycles = tuple(range(operands.f16_free_cycles, op.issue_interval_cycles, operands.f16_free_cycles))


def _turnaround(pipe: str, after: str, arch: Architecture) -> int:
    cycles = arch.tensor_core.turnaround
    if after == SCALAR:
        return 0 if pipe == SCALAR else cycles.mma_to_fma
    match pipe.partition("/")[2], after.partition("/")[2]:
        case "f32", "f16":
            return cycles.f32_to_f16
        case "f32", "s32":
            return cycles.f32_to_s32
        case "f16", "s32":
            return cycles.f16_to_s32
    return 0
