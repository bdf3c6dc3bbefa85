"""What each instruction asks of the register file's ports, and what operations on the tensor pipe lose between them.

Both follow from the code alone: which registers an instruction names, which of them the instruction before it
left in the operand cache (its reuse flags), which unit it goes to. `annotate` writes them into the lowered
operations; `gpuemu.engine.operand_ports` acts on them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuemu.isa.opcodes import Kind
from gpuemu.isa.registers import general_results, mma_registers, sent_registers, source_registers
from gpuemu.program.operand_cache import OperandCache

if TYPE_CHECKING:
    from gpuemu.arch import Architecture
    from gpuemu.arch.model import RegisterFile
    from gpuemu.program.lowering import Op
    from gpuemu.trace.model import Instruction

TENSOR_PIPE = "tensor"
"""Operations on it are told apart by what they accumulate: the pipes tensor/f32, tensor/f16, tensor/fma and so on."""
SCALAR = f"{TENSOR_PIPE}/fma"

_WRITES = {"f32": 2, "s32": 2, "f16": 1}
"""Cycles in which an mma writes its results, two registers in each."""

_PAIR = 2
"""Registers of a fragment that an mma reads in a cycle."""

_MEMORY = (Kind.SHARED, Kind.GLOBAL, Kind.SHUFFLE, Kind.COPY_COMMIT)
_MATH = (Kind.FIXED, Kind.VARIABLE)
_NOT_MATH = ("nop", "uniform", "uniform_move")


def tensor_pipe(mode: str) -> str:
    """The pipe of a tensor mode: m16n8k16.f32.f16 accumulates in f32."""
    return f"{TENSOR_PIPE}/{mode.split('.')[1]}"


def parts_of(name: str) -> tuple[str, ...]:
    """The parts of a pipe's name: fmaheavy and fmalite of "fmaheavy+fmalite"."""
    return tuple(name.replace("|", "+").split("+"))


def annotate(ops: Sequence[Op], code: Sequence[Instruction], arch: Architecture, pipes: Sequence[str]) -> None:
    """Set what the operand ports need to know of each operation; `pipes` names the pipes by number."""
    tensor = [name for name in pipes if name.startswith(TENSOR_PIPE)]
    cache = OperandCache(arch.register_file.banks)
    found: list[tuple[Op, frozenset[int], tuple[int, ...]]] = []
    for op, instruction in zip(ops, code, strict=True):
        kind = instruction.operation.kind
        reads: frozenset[int] = frozenset()
        op.is_memory = kind in _MEMORY
        operation = instruction.operation
        op.passes_barrier = (
            kind in _MATH and operation.operation not in _NOT_MATH and op.plain and not operation.warpgroup_columns
        )
        op.slips_barrier = kind not in (Kind.BARRIER, Kind.EXIT)
        # The address of a shared-memory load is read early: not yet so in the cycle in which a barrier opens.
        op.late_behind_barrier = (
            kind is Kind.SHARED and op.is_load and re.match(r"\[R\d", instruction.operands[-1]) is not None
        )
        scalar = not op.is_tensor and pipes[op.pipe].startswith(TENSOR_PIPE)
        if op.is_tensor:
            _annotate_mma(op, instruction, cache, arch)
        elif kind is Kind.FIXED:
            reads = cache.read(op, instruction, scalar)
        if kind is Kind.BRANCH:
            cache.clear()
        if scalar:
            cache.clear_fragments()
        if pipes[op.pipe].startswith(TENSOR_PIPE):
            op.turnaround = tuple(_turnaround(pipes[op.pipe], after, arch) for after in tensor)
        if op.is_memory or kind is Kind.VARIABLE:
            op.sent_banks = tuple(
                r % arch.register_file.banks for r in sent_registers(instruction.opcode, instruction.operands)
            )
        results = general_results(instruction.opcode, instruction.operands)
        op.writes_registers = kind is Kind.FIXED and not op.is_tensor and not scalar and bool(results)
        written = [1 << register % arch.register_file.banks for register in results]
        if op.writes_registers:
            op.written_banks = sum(set(written))
        elif kind is Kind.SHUFFLE or (kind is Kind.SHARED and op.is_load):
            op.bank_writes = tuple(written)
        if operation.operation == "imad_wide":
            op.second_read = arch.register_file.wide_second_read_cycles
            addend = source_registers(instruction.opcode, instruction.operands)[2:3] if op.second_read else ()
            op.upper = max((register for pair in addend for register in pair), default=-1)
        found.append((op, reads if op.kind is Kind.FIXED else frozenset(), results if op.writes_registers else ()))
        op.fills_latches = any(op.fetches_anew)
        op.uses_ports = op.fills_latches or op.is_tensor or op.writes_registers
        op.crowds_ports = op.fills_latches or bool(op.turnaround or op.second_read)
    _link_forwarding(found, arch.register_file)


def _link_forwarding(found: Sequence[tuple[Op, frozenset[int], tuple[int, ...]]], register_file: RegisterFile) -> None:
    """Set which results of fixed latency others may find on the forwarding path.

    `found`: of each operation the registers that it reads through the ports, and those that it writes. Behind a taken
    branch there is nothing left on it.
    """
    met: set[int] = set()
    for place, (op, reads, _) in enumerate(found):
        if not reads:
            continue
        op.fresh = tuple(sorted(reads & _just_written(found, place, register_file.forwarding_cycles)))
        apart = [(register,) for register in op.fresh]
        alike = [tuple(r for r in op.fresh if r % register_file.banks == bank) for bank in range(register_file.banks)]
        op.meets = tuple(apart if op.second_read else (group for group in alike if len(group) > 1))
        met.update(op.fresh)
    for op, _, results in found:
        op.forwards = tuple(register for register in results if register in met)


def _just_written(found: Sequence[tuple[Op, frozenset[int], tuple[int, ...]]], place: int, cycles: int) -> set[int]:
    """What the operations in front of a place write that may be issued no more than so many cycles before it."""
    written: set[int] = set()
    ago = 0
    for op, _, results in reversed(found[max(0, place - cycles) : place]):
        ago += max(1, op.stall_cycles)
        if ago > cycles:
            break
        written.update(results)
    return written


def _annotate_mma(op: Op, instruction: Instruction, cache: OperandCache, arch: Architecture) -> None:
    """When the fragments are read, and the results written."""
    fragments = mma_registers(instruction.opcode, instruction.operands)
    operands = arch.tensor_core.operands
    accumulator = instruction.operation.operation.split(".")[1]
    # In every cycle two registers: A, B, and at the end C, of which f16 is half as long.
    a_at = 1
    b_at = a_at + (_PAIR + operands.pause_cycles if len(fragments[0]) > _PAIR else 1)
    c_at = b_at + 1 + (operands.accumulator_read_cycles // 2 if accumulator == "f16" else 0)
    anew = [0] * arch.register_file.banks
    reads = anew.copy()
    for kept, registers, first in zip(
        cache.kept_fragments(op, instruction), fragments, (a_at, b_at, c_at), strict=True
    ):
        for number, register in enumerate(registers):
            bit = 1 << (first + number // _PAIR)
            anew[register % len(anew)] |= bit
            if not kept:
                reads[register % len(anew)] |= bit
    op.port_reads, op.port_reads_anew = tuple(reads), tuple(anew)
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
