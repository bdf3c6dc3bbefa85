"""What each instruction asks of the register file's ports, and what operations on the tensor pipe lose between them.

Both follow from the code alone: which registers an instruction names, which of them the instruction before it
left in the operand cache (its reuse flags), which unit it goes to. `annotate` writes them into the lowered
operations; `gpuemu.engine.operand_ports` acts on them.
"""

from __future__ import annotations

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

_MEMORY = (Kind.SHARED, Kind.GLOBAL, Kind.SHUFFLE, Kind.COPY_COMMIT)
_MATH = (Kind.FIXED, Kind.VARIABLE)
_NOT_MATH = ("nop", "uniform")


def tensor_pipe(mode: str) -> str:
    """The pipe of a tensor mode: m16n8k16.f32.f16 accumulates in f32."""
    return f"{TENSOR_PIPE}/{mode.split('.')[1]}"


def annotate(ops: Sequence[Op], code: Sequence[Instruction], arch: Architecture, pipes: Sequence[str]) -> None:
    """Set what the operand ports need to know of each operation; `pipes` names the pipes by number."""
    tensor = [name for name in pipes if name.startswith(TENSOR_PIPE)]
    before: Instruction | None = None
    for op, instruction in zip(ops, code, strict=True):
        kind = instruction.operation.kind
        op.is_memory = kind in _MEMORY
        operation = instruction.operation
        op.passes_barrier = (
            kind in _MATH and operation.operation not in _NOT_MATH and op.plain and not operation.warpgroup_columns
        )
        op.slips_barrier = kind not in (Kind.BARRIER, Kind.EXIT)
        if op.is_tensor:
            _annotate_mma(op, instruction, before, arch)
        elif kind in (*_MATH, *_MEMORY):
            op.reads_per_bank = _reads(source_registers(instruction.opcode, instruction.operands), before, arch)
            if op.is_memory:
                op.reads_per_bank = tuple(min(1, n) for n in op.reads_per_bank)
        if pipes[op.pipe].startswith(TENSOR_PIPE):
            op.turnaround = tuple(_turnaround(pipes[op.pipe], after, arch) for after in tensor)
        op.reads_registers = any(op.reads_per_bank) or op.is_tensor
        op.crowds_ports = bool(op.turnaround) or max(op.reads_per_bank) > 1
        before = instruction


def _reads(slots: tuple[tuple[int, ...], ...], before: Instruction | None, arch: Architecture) -> tuple[int, ...]:
    """Registers to read from each bank; `slots` are those of each source operand.

    One that the instruction before it kept in the same operand slot is not read again, one that is named twice
    is read once.
    """
    kept = _kept(before)
    wanted = {
        register
        for slot, registers in enumerate(slots)
        if not (slot < len(kept) and registers and kept[slot] == registers)
        for register in registers
    }
    counts = [0] * arch.register_file.banks
    for register in wanted:
        counts[register % len(counts)] += 1
    return tuple(counts)


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
