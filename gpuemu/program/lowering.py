"""Lowering: a trace for an architecture becomes the dense program that the engine replays.

Lowering settles everything that depends only on the instruction or only on its addresses, once and in bulk: unit, stall
count, counters, wavefronts. The engine then handles small objects and whole numbers. It never sees YAML, pydantic or an
opcode.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gpuemu.arch import Architecture
from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.isa.opcodes import Kind, Row, reads_lane_register
from gpuemu.isa.registers import MOST_SOURCE_WORDS, indexes_constants, mistake, source_words
from gpuemu.program.accesses import lower_accesses
from gpuemu.program.constant_lines import constant_lines
from gpuemu.program.events import lower_events
from gpuemu.program.generic import IN_LOCAL, IN_SHARED, Variant, as_shared, of_code, variants
from gpuemu.program.instruction_lines import lines
from gpuemu.program.op import NONE, Op
from gpuemu.program.operand_fetch import operand_ports
from gpuemu.program.products import product
from gpuemu.program.program import NO_ACCESS, SHUFFLE_ACCESS, Program, joined
from gpuemu.program.stall_reasons import LONG_SCOREBOARD, SHORT_SCOREBOARD
from gpuemu.program.threads import thread_instructions
from gpuemu.program.units import BARRIER_PIPE, MIO_PIPE, SCALAR, TENSOR_PIPE, Destination, tensor_pipe
from gpuemu.program.waits import (
    MOST_KEPT,
    MOST_NANOSECONDS,
    UnreadableBarrierError,
    awaited,
    barrier,
    counter_wait,
    number_in,
)
from gpuemu.trace.model import RIGHT_CONTROL_WORD, ControlWord, Instruction, Trace
from gpuemu.trace.residency import carveout, residency, shared_bytes_taken

REPLAY_ONLY = (
    "mio.", "barrier.", "tensor_core.numerics.", "issue.policy", "issue.taken_branch_cycles", "sm.cta_launch_cycles",
    "shared_memory.ports.", "shared_memory.latency_cycles", "shared_memory.atomic_latency_cycles",
    "shared_memory.cycles_per_wavefront_per_warp", "global_memory.latency_cycles",
    "global_memory.atomic_", "global_memory.bytes_per_cycle", "global_memory.store_", "global_memory.mask_sectors",
    "global_memory.spread_cycles", "global_memory.refresh_", "global_memory.l2.", "global_memory.l1.latency_cycles",
    "shared_memory.returned_registers_per_cycle", "special_function.", "address_divergence.", "code.",
    "launch.overhead_cycles", "launch.warp_interval_cycles", "launch.cta_", "launch.first_code_cycles",
    "launch.constant_load_miss_cycles", "launch.constant_operand_miss_cycles",
)  # fmt: skip
"""Beginnings of the names of values that lowering does not read: points that differ only in these share one program."""
_ALL = 1 << 20
"""The groups of products that a WARPGROUP.ARRIVE leaves unfinished: it waits for none."""


class _Timing(NamedTuple):
    """The pipe of an instruction, and its times there."""

    pipe: str
    latency_cycles: int
    issue_interval_cycles: int


def lower(trace: Trace, arch: Architecture) -> Program:
    """Lower `trace` for `arch`.

    Raises GpuemuError, naming the trace's file and the line of the instruction, for an operation without
    timing in the architecture file, a misaligned access, or a CTA that does not fit on the SM. Instructions that
    no warp executed may be anything.
    """
    limits = residency(trace, arch)
    lowering = _Lowering(arch, _control_words_apply(trace, arch))
    ops = _lower_code(trace, lowering)
    carry = np.array([op.carries_addresses for op in ops])
    for warp in trace.warps:
        if len(warp.rows) != (count := int(np.count_nonzero(carry[warp.path]))):
            raise GpuemuError.one(
                trace.file, None, f"warp {warp.warp} of CTA {warp.cta}",
                f"{len(warp.rows)} address rows for {count} memory instructions", "expected one for each",
            )  # fmt: skip
    warps = sorted(trace.warps, key=lambda warp: warp.cta)
    path = np.concatenate([warp.path for warp in warps]).astype(np.int32)
    first_issue = np.cumsum([0, *(len(warp.path) for warp in warps)])
    carries = carry[path]
    rows = np.concatenate([warp.rows for warp in warps]).astype(np.int64)
    of_other_spaces, path = variants(trace, path, carries, rows)
    ops += [lowering.variant(variant, ops[variant.index]) for variant in of_other_spaces]
    still = np.array([op.carries_addresses for op in ops])[path]  # without accesses to other CTAs of the cluster
    rows, carries = rows[still[carries]], still
    units = {pipe: _unit_of(pipe, arch) for pipe in lowering.pipes}
    everything = [*of_code(trace.code), *of_other_spaces]
    line_of = lines(trace, arch.issue.instruction_line_bytes)
    constants = constant_lines(trace, arch.launch.constant_line_bytes)
    ports_of = operand_ports(ops, [variant.instruction for variant in everything], arch, units)
    ops = [
        op.with_fetches(**line_of[op.index], **constants[op.index], **ports)
        for op, ports in zip(ops, ports_of, strict=True)
    ]
    distinct, numbers = lower_accesses(trace, arch, everything, path[carries].astype(np.int64), rows)
    access = np.array([op.kind in (Kind.SHUFFLE, Kind.LANE_REGISTER) for op in ops], dtype=np.int32)[path]
    access[carries] = numbers + 2
    request_issue = np.flatnonzero(np.array([op.pipe == 0 for op in ops])[path])
    cta = np.array([warp.cta for warp in warps])
    return Program(
        name=trace.name,
        code=trace.code,
        pipes=tuple(lowering.pipes),
        units=tuple(units.values()),
        ops=tuple(ops),
        accesses=joined([NO_ACCESS, SHUFFLE_ACCESS, *distinct]),
        path=path,
        access=access[request_issue],
        request_issue=request_issue,
        first_issue=first_issue,
        first_request=np.searchsorted(request_issue, first_issue),
        first_warp=np.append(np.flatnonzero(np.diff(cta, prepend=-1)), len(cta)),
        warp_cta=cta,
        warp_number=np.array([warp.warp for warp in warps]),
        uses_control_words=lowering.controlled,
        resident_ctas=min(limits.values()),
        residency_limits=limits,
        carveout_bytes=carveout(min(limits.values()) * shared_bytes_taken(trace, arch), arch),
        thread_instructions=thread_instructions(trace),
        events=lower_events(trace, warps, arch),
    )


def _lower_code(trace: Trace, lowering: _Lowering) -> list[Op]:
    """The op of each instruction of the code. Raises GpuemuError with the problems of all of them."""
    problems: list[Problem] = []
    ops: list[Op] = []
    executed = np.zeros(len(trace.code), dtype=np.bool_)
    for warp in trace.warps:
        executed[warp.path] = True
    for index, instruction in enumerate(trace.code):
        if not executed[index]:
            ops.append(Op(index, Kind.FIXED, 0, 1, 1))
            continue
        wrong = mistake(instruction.opcode, instruction.operands)
        if instruction.control is not None and instruction.control.is_impossible:
            wrong = f"the control word {instruction.control}", RIGHT_CONTROL_WORD
        if wrong is None:
            try:
                ops.append(lowering.op(index, instruction))
            except UnreadableBarrierError as error:
                found = f"{instruction} has {error.args[0]} in a register"
                wrong = found, "Write numbers in the instruction, such as BAR.SYNC 0x1, 0x40"
            except (ValueError, IndexError):
                found = f"the operands of {str(instruction)[:80]} cannot be read"
                wrong = found, "Write operands as nvdisasm prints them"
            except KeyError as missing:
                name = lowering.arch.name
                found = f"{name} has no timing for {missing.args[0]}, which {instruction.opcode} needs"
                wrong = found, "Use an architecture file that has one"
        if wrong is not None:
            problems.append(Problem(trace.file, instruction.line, f"code at {instruction.offset:#06x}", *wrong))
    if problems:
        raise GpuemuError(problems)
    return ops


def _unit_of(pipe: str, arch: Architecture) -> Destination:
    """The unit behind a pipe. Names in architecture files have no slash."""
    if pipe.partition("/")[0] == TENSOR_PIPE:
        return Destination.TENSOR
    return {
        MIO_PIPE: Destination.LOAD_STORE,
        BARRIER_PIPE: Destination.BARRIER,
        arch.operations["constant_load"].pipe: Destination.ADDRESS_DIVERGENCE,
        arch.operations["mufu"].pipe: Destination.SPECIAL_FUNCTION,
    }.get(pipe, Destination.ARITHMETIC)


def _control_words_apply(trace: Trace, arch: Architecture) -> bool:
    mode = arch.issue.dependences
    if mode == "control_words" and not trace.has_control_words:
        bare = next(i for i in trace.code if i.control is None)
        raise GpuemuError.one(
            trace.file, bare.line, f"code at {bare.offset:#06x}", "the instruction has no control word",
            "Set issue.dependences to auto or register_scoreboard: with control_words every instruction needs one",
        )  # fmt: skip
    return trace.has_control_words and mode != "register_scoreboard"


def _stall(word: ControlWord, arch: Architecture) -> int:
    """Cycles until the warp may issue again: a warp that yields leaves the next ones to other warps, or empty."""
    if word.yields:
        least = arch.issue.yield_cycles if word.stall_cycles else arch.issue.no_stall_yield_cycles
        return max(least, word.stall_cycles)
    return max(1, word.stall_cycles if word.stall_cycles <= arch.issue.longest_stall_cycles else 1)


class _Lowering:
    """Lowers instructions one by one and numbers the pipes that they use.

    `controlled`: control words hold back dependent instructions, instead of the register scoreboard.
    """

    def __init__(self, arch: Architecture, controlled: bool):
        self.arch, self.controlled = arch, controlled
        self.pipes = {MIO_PIPE: 0}

    def op(self, index: int, instruction: Instruction) -> Op:
        """The op of an instruction. Raises KeyError for a missing timing, ValueError for unreadable operands."""
        operation, kind = instruction.operation, instruction.operation.kind
        if reads_lane_register(instruction.opcode, " ".join(instruction.operands)):
            kind = Kind.LANE_REGISTER
        timing, fields = self._timing(instruction, kind)
        number = self.pipes.setdefault(timing.pipe, len(self.pipes))
        if kind is Kind.LANE_REGISTER:
            fields["source_words"] = 0
        elif timing.pipe == MIO_PIPE:
            fields["source_words"] = source_words(instruction.opcode, instruction.operands)
            if fields["source_words"] > MOST_SOURCE_WORDS:
                raise ValueError(f"{instruction} sends more registers than any does")
        if kind is Kind.SHUFFLE or (kind is Kind.SHARED and not operation.store):
            fields["results"] = max(1, operation.matrices)
            fields["results_apart"] = operation.row is Row.LOAD_MATRIX
        if kind is Kind.BARRIER:
            fields |= barrier(instruction)
        issued_as = self._dependences(instruction, kind, fields)
        self._waits(instruction, kind, fields)
        return Op(
            index, issued_as, number, timing.latency_cycles, timing.issue_interval_cycles,
            row=operation.row, is_tensor=operation.tensor, is_store=operation.store, is_atomic=operation.atomic,
            is_load=kind in (Kind.SHARED, Kind.GLOBAL) and not operation.store and not operation.atomic,
            reason=LONG_SCOREBOARD if kind in (Kind.GLOBAL, Kind.COPY_COMMIT) else SHORT_SCOREBOARD,
            shared_row=Row.ATOMIC if operation.atomic and instruction.takes_generic_addresses else None,
            is_cached=operation.cached, is_local=operation.local, **fields,
        )  # fmt: skip

    def variant(self, variant: Variant, op: Op) -> Op:
        """The op of a variant of the instruction whose op is `op`."""
        if variant.is_mixed:
            return replace(op, shared_row=as_shared(variant.instruction).operation.row)
        if variant.spaces == IN_SHARED or variant.in_cluster:
            return replace(self.op(variant.index, variant.instruction), reads=op.reads, writes=op.writes)
        return replace(op, is_local=variant.spaces == IN_LOCAL)

    def _timing(self, instruction: Instruction, kind: Kind) -> tuple[_Timing, dict[str, Any]]:
        """The pipe and its times, with the fields of the op that belong to them."""
        operation, operations = instruction.operation, self.arch.operations
        if operation.tensor or operation.warpgroup_columns:
            modes = self.arch.tensor_core.operations
            if operation.operation not in modes:
                raise KeyError(f"tensor_core.operations.{operation.operation}")
            mode = modes[operation.operation]
            if operation.warpgroup_columns:
                fields = product(instruction, mode, self.arch)
                return _Timing(operation.unit, fields.pop("latency_cycles"), 1), fields
            return _Timing(tensor_pipe(operation.operation), mode.latency_cycles, mode.issue_interval_cycles), {}
        if kind in (Kind.SHARED, Kind.GLOBAL, Kind.SHUFFLE, Kind.LANE_REGISTER, Kind.COPY_COMMIT):
            return _Timing(MIO_PIPE, 0, 1), {}
        if kind is Kind.BARRIER:
            return _Timing(BARRIER_PIPE, 0, 1), {}
        if operation.unit:
            return _Timing(operation.unit, 0, 1), {}
        indexed = indexes_constants(instruction.opcode, instruction.operands)
        name = "indexed_constant_load" if indexed else operation.operation
        if name not in operations:
            raise KeyError(f"operations.{name}")
        found = operations[name]
        late = found.latency_cycles - operations[operation.operation].latency_cycles if indexed else 0
        pipe = SCALAR if found.pipe == TENSOR_PIPE else found.pipe
        return _Timing(pipe, found.latency_cycles, found.issue_interval_cycles), {"late_cycles": late}

    def _dependences(self, instruction: Instruction, kind: Kind, fields: dict[str, Any]) -> Kind:
        """Add the fields that hold the warp back, and return the kind that the instruction issues as."""
        word, issued_as, stall_cycles = instruction.control, kind, 1
        if self.controlled and word is not None:
            stall_cycles = _stall(word, self.arch)
            if kind is Kind.FIXED and not (word.write_counter is None and word.read_counter is None):
                issued_as = Kind.VARIABLE  # as FP64 on chips with few lanes for it
            fields |= awaited(word.wait_mask, (), 0) | {
                "yields": word.yields, "plain": issued_as is Kind.FIXED,
                "write_counter": NONE if word.write_counter is None else word.write_counter,
                "read_counter": NONE if word.read_counter is None else word.read_counter,
            }  # fmt: skip
        elif not self.controlled:
            fields["writes"], fields["reads"] = instruction.registers
        if instruction.opcode == "BSYNC":
            stall_cycles = max(stall_cycles, self.arch.issue.convergence_cycles)
        if instruction.opcode == "ERRBAR":  # its warp yields
            stall_cycles = max(stall_cycles, self.arch.issue.yield_cycles)
        fields["stall_cycles"] = stall_cycles
        return issued_as

    def _waits(self, instruction: Instruction, kind: Kind, fields: dict[str, Any]) -> None:
        """Add the fields of an instruction that waits for counters, products, copies or time."""
        if kind is Kind.COUNTER_WAIT:
            fields |= awaited(fields.get("wait_mask", 0), *counter_wait(instruction))
        if kind is Kind.PRODUCT_WAIT:
            fields["arrives_only"] = not instruction.has("DEPBAR")
            fields["keep_groups"] = _ALL
            if not fields["arrives_only"]:
                fields["keep_groups"] = number_in(instruction, instruction.operands[-1], MOST_KEPT)
        if instruction.mnemonic == "NANOSLEEP" and instruction.operands:
            number_in(instruction, instruction.operands[-1], MOST_NANOSECONDS)  # the engine reads the number itself
        if kind is Kind.ASYNCHRONOUS and instruction.mnemonic == "UTMACMDFLUSH":
            # Its counter belongs to a group of copies, which DEPBAR counts as results.
            fields["write_counter"], fields["read_counter"] = fields.get("read_counter", NONE), NONE
