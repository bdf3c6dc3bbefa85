"""Finds what each instruction asks of the register file's ports, and what operations on the tensor pipe lose between
them.

Both follow from the code alone: the registers that an instruction names, those that the instruction before it left in
the operand cache (its reuse flags), and its unit. `gpuemu.engine.units.ports` acts on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuemu.arch import Architecture
from gpuemu.arch.model import RegisterFile
from gpuemu.isa.opcodes import Kind
from gpuemu.isa.operands import parse_operand
from gpuemu.isa.registers import general_results, mma_registers, sent_registers, source_registers
from gpuemu.program.op import Op
from gpuemu.program.operand_cache import OperandCache
from gpuemu.program.units import SCALAR, Destination
from gpuemu.trace.model import Instruction

_LONGEST_A = 4
"""Registers of a 16 x 32 byte A. FP64 has more; nobody has measured those."""

_APART = {"alu", "fma"}
"""The beginnings of the names of pipes that have forwarding paths of their own."""
_MEMORY = (Kind.SHARED, Kind.GLOBAL, Kind.SHUFFLE, Kind.COPY_COMMIT)
_MATH = (Kind.FIXED, Kind.VARIABLE)
_NOT_MATH = ("nop", "uniform", "uniform_move")


@dataclass
class _Found:
    """An operation with the registers that it reads through the ports, those that it writes, and the fields found so
    far.
    """

    op: Op
    pipe: str
    reads: frozenset[int]
    results: tuple[int, ...]
    fields: dict[str, Any]


def operand_ports(
    ops: Sequence[Op], code: Sequence[Instruction], arch: Architecture, pipes: Mapping[str, Destination]
) -> list[dict[str, Any]]:
    """The fields of each operation that the operand ports need; `pipes` are in the order of their numbers."""
    names = list(pipes)
    tensor = [name for name, unit in pipes.items() if unit is Destination.TENSOR]
    cache = OperandCache(arch.register_file.banks)
    found = [_of_one(op, i, cache, arch, names[op.pipe], tensor) for op, i in zip(ops, code, strict=True)]
    _link_forwarding(found, arch.register_file)
    return [one.fields for one in found]


def _of_one(
    op: Op, instruction: Instruction, cache: OperandCache, arch: Architecture, pipe: str, tensor: Sequence[str]
) -> _Found:
    kind, operation, banks = instruction.operation.kind, instruction.operation, arch.register_file.banks
    reads: frozenset[int] = frozenset()
    scalar = not op.is_tensor and pipe in tensor
    results = general_results(instruction.opcode, instruction.operands)
    writes_registers = kind is Kind.FIXED and not op.is_tensor and not scalar and bool(results)
    fields: dict[str, Any] = {
        "passes_barrier": (
            kind in _MATH and operation.operation not in _NOT_MATH and op.plain and not operation.warpgroup_columns
        ),
        "slips_barrier": kind not in (Kind.BARRIER, Kind.EXIT),
        # The address of a shared-memory load is read early, but not yet in the cycle in which a barrier opens.
        "late_behind_barrier": (kind is Kind.SHARED and op.is_load and _address_is_in_a_register(instruction)),
        "writes_registers": writes_registers,
    }
    if op.is_tensor:
        fields |= _mma(op, instruction, cache, arch)
    elif kind is Kind.FIXED:
        reads, fetched = cache.read(op, instruction, scalar)
        fields |= fetched
    if kind is Kind.BRANCH:
        cache.clear()
    if scalar:
        cache.clear_fragments()
    if pipe in tensor:
        fields["turnaround"] = tuple(_turnaround(pipe, after, arch) for after in tensor)
    if kind in _MEMORY or kind is Kind.VARIABLE:
        fields["sent_banks"] = tuple(r % banks for r in sent_registers(instruction.opcode, instruction.operands))
    written = [1 << register % banks for register in results]
    if writes_registers:
        fields["written_banks"] = sum(set(written))
    elif kind is Kind.SHUFFLE or (kind is Kind.SHARED and op.is_load):
        fields["bank_writes"] = tuple(written)
    late, second_read = _read_late(instruction), arch.register_file.wide_second_read_cycles
    if late is not None and second_read:
        fields |= {"second_read": second_read, "writes_twice": len(results) > 1}
        addend = source_registers(instruction.opcode, instruction.operands)[late : late + 1]
        fields["upper"] = max((register for pair in addend for register in pair), default=-1)
    fills = any(fields.get("fetches_anew", ()))
    fields["fills_latches"] = fills
    fields["uses_ports"] = fills or op.is_tensor or writes_registers
    return _Found(
        op, pipe, reads if op.kind is Kind.FIXED else frozenset(), results if writes_registers else (), fields
    )


def _read_late(instruction: Instruction) -> int | None:
    """The source whose upper half an instruction with a timing class of its own reads late, or None."""
    row = instruction.parsed.row
    return row.late if instruction.operation.operation != row.operation else None


def _address_is_in_a_register(instruction: Instruction) -> bool:
    sums = [parse_operand(operand).address for operand in instruction.operands[-1:]]
    return any(not r.is_constant for inside in sums if inside for r in inside.registers if r.file == "R")


def _link_forwarding(found: Sequence[_Found], register_file: RegisterFile) -> None:
    """Find the results of fixed latency that other instructions may find on the forwarding path.

    After a taken branch the path is empty.
    """
    met: set[int] = set()
    for place, one in enumerate(found):
        if not one.reads:
            continue
        fresh = tuple(sorted(one.reads & _just_written(found, place, register_file.forwarding_cycles)))
        apart = [(register,) for register in fresh]
        alike = [tuple(r for r in fresh if r % register_file.banks == bank) for bank in range(register_file.banks)]
        meets = tuple(apart if "second_read" in one.fields else (group for group in alike if len(group) > 1))
        across = _across(found, place, register_file)
        one.fields |= {"fresh": fresh, "meets": meets, "across": across}
        met.update(fresh)
    for one in found:
        one.fields["forwards"] = tuple(register for register in one.results if register in met)


def _across(found: Sequence[_Found], place: int, register_file: RegisterFile) -> tuple[tuple[int, int], ...]:
    """The registers that another pipe may just have sent, each with the latency of the instruction that writes it."""
    reader, ago, written = found[place], 0, dict[int, int]()
    for one in reversed(found[max(0, place - register_file.forwarding_cycles) : place]):
        ago += max(1, one.op.stall_cycles)
        if ago > register_file.forwarding_cycles:
            break
        late = (
            ago < one.op.latency_cycles + register_file.across_pipes_cycles
            and {one.pipe[:3], reader.pipe[:3]} == _APART
        )
        written = {r: one.op.latency_cycles if late else 0 for r in one.results if r in reader.reads} | written
    return tuple((register, latency) for register, latency in sorted(written.items()) if latency)


def _just_written(found: Sequence[_Found], place: int, cycles: int) -> set[int]:
    """The registers written by operations before a place that may issue at most `cycles` before it."""
    written: set[int] = set()
    ago = 0
    for one in reversed(found[max(0, place - cycles) : place]):
        ago += max(1, one.op.stall_cycles)
        if ago > cycles:
            break
        written.update(one.results)
    return written


def _mma(op: Op, instruction: Instruction, cache: OperandCache, arch: Architecture) -> dict[str, Any]:
    """The cycles in which an mma reads its fragments and writes its results."""
    fragments = mma_registers(instruction.opcode, instruction.operands)
    operands = arch.tensor_core.operands
    accumulator = instruction.operation.operation.split(".")[1]
    # A, B, and at the end C, which takes half as long for f16.
    together = operands.registers_per_cycle
    long = len(fragments[0]) > together
    a_at = operands.first_read_cycles
    b_at = a_at + (-(-_LONGEST_A // together) + operands.pause_cycles if long else 1)
    c_at = b_at + 1 + (operands.accumulator_read_cycles // 2 if accumulator == "f16" else 0)
    anew = [0] * arch.register_file.banks
    reads = anew.copy()
    for kept, registers, first in zip(
        cache.kept_fragments(op, instruction), fragments, (a_at, b_at, c_at), strict=True
    ):
        for number, register in enumerate(registers):
            bit = 1 << (first + number // together)
            anew[register % len(anew)] |= bit
            if not kept:
                reads[register % len(anew)] |= bit
    fields: dict[str, Any] = {"port_reads": tuple(reads), "port_reads_anew": tuple(anew)}
    if accumulator in ("f32", "f16", "s32"):
        late = operands.s32_write_cycles if accumulator == "s32" else operands.float_write_cycles
        fields["results"] = operands.f16_result_cycles if accumulator == "f16" else operands.result_cycles
        fields["writes_after"] = op.issue_interval_cycles + late
    if accumulator == "f16" and operands.f16_free_cycles < op.issue_interval_cycles:
        fields["free_every"] = operands.f16_free_cycles
    return fields


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
