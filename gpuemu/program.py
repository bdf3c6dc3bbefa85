"""Lowering: a trace for an architecture becomes the dense program that the engine replays.

Everything that depends only on the instruction or only on its addresses is settled here, once and in bulk:
unit, stall count, counters, wavefronts. The engine then handles small objects and whole numbers; it never
sees YAML, pydantic or an opcode.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gpuemu import banks
from gpuemu.errors import GpuemuError, Problem
from gpuemu.isa import Kind, Row
from gpuemu.registers import source_words, written_and_read
from gpuemu.trace.model import Instruction, Trace

if TYPE_CHECKING:
    from gpuemu.arch import Architecture

MIO_PIPE = "mio"
"""The pipe of instructions that go through the sub-core's queue to the load/store unit; always pipe 0."""

GLOBAL_SEGMENT_BYTES = 128
"""The bytes of one L1 line: a global access occupies the data stage once for each line it touches."""


@dataclass(slots=True, eq=False)
class Op:
    """An instruction of the code, lowered: one object for all its executions.

    `stall_cycles` is the least distance to the warp's next issue. `waits` are the dependence counters that
    must be clear before it issues. `reads` and `writes` serve the register scoreboard and are empty in
    control-word mode. `plain` marks what the scheduler need not look at twice: a fixed-latency instruction
    in control-word mode. `keep` is the counter value a DEPBAR waits for, `threads` the count a barrier names.
    """

    index: int
    kind: Kind
    pipe: int
    latency_cycles: int
    issue_interval_cycles: int
    stall_cycles: int = 1
    yields: bool = False
    plain: bool = False
    waits: tuple[int, ...] = ()
    write_counter: int | None = None
    read_counter: int | None = None
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    row: Row | None = None
    is_tensor: bool = False
    is_store: bool = False
    is_atomic: bool = False
    returns_data: bool = True
    source_words: int = 1
    keep: int = 0
    barrier_id: int = 0
    threads: int | None = None
    arrives_only: bool = False
    long_latency: bool = False

    @property
    def carries_addresses(self) -> bool:
        """Whether each execution has an Access of its own."""
        return self.kind in (Kind.SHARED, Kind.GLOBAL)


END = Op(-1, Kind.EXIT, 0, 1, 1, waits=(0,))
"""Stands behind the last instruction of every warp; it has waits so that the scheduler looks at it."""


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """What one execution of a memory instruction asks of the load/store path.

    `data_stage_cycles` it holds the data stage (every group of lanes holds it at least once);
    `sectors` it moves from or to global memory.
    """

    wavefronts: int
    ideal_wavefronts: int
    data_stage_cycles: int
    sectors: int = 0


SHUFFLE_ACCESS = Access(0, 0, 1)
"""A shuffle crosses the lanes in one pass of the data stage and touches no bank."""


@dataclass(slots=True, eq=False)
class WarpProgram:
    """One warp: the operations it executes, in order, and the accesses of those that go to memory."""

    cta: int
    warp: int
    path: list[Op]
    accesses: list[Access]


@dataclass(slots=True)
class Program:
    """A lowered trace.

    `pipes` names the pipes of a sub-core, which an Op gives by number. `ctas` are the CTAs in launch order,
    each the list of its warps. `residency_limits`: CTAs that fit on the SM by each resource.
    """

    name: str
    pipes: list[str]
    ops: list[Op]
    ctas: list[list[WarpProgram]]
    uses_control_words: bool
    resident_ctas: int
    residency_limits: dict[str, int]
    code: tuple[Instruction, ...] = field(repr=False, default=())


def lower(trace: Trace, arch: Architecture) -> Program:
    """Lower `trace` for `arch`.

    Raises GpuemuError, naming the trace's file and the line of the instruction, for an operation without
    timing in the architecture file, a misaligned access, or a CTA that does not fit on the SM.
    """
    limits = residency(trace, arch)
    controlled = _control_words_apply(trace, arch)
    problems: list[Problem] = []
    ops: list[Op] = []
    pipes = {MIO_PIPE: 0}
    for index, instruction in enumerate(trace.code):
        try:
            ops.append(_lower_instruction(index, instruction, arch, controlled, pipes))
        except _UnreadableBarrierError as error:
            problems.append(
                Problem(
                    trace.file, instruction.line, f"code at {instruction.offset:#06x}",
                    f"{instruction} with {error.args[0]} in a register",
                    "numbers in the instruction are right, such as BAR.SYNC 0x1, 0x40",
                )
            )  # fmt: skip
        except KeyError as missing:
            problems.append(
                Problem(
                    trace.file, instruction.line, f"code at {instruction.offset:#06x}",
                    f"{instruction.opcode}, whose operation {missing.args[0]} has no timing in {arch.name}",
                    "an architecture file that gives one is right",
                )
            )  # fmt: skip
    if problems:
        raise GpuemuError(problems)
    accesses = _lower_accesses(trace, arch, ops)
    ctas: dict[int, list[WarpProgram]] = {}
    for warp in trace.warps:
        in_memory = [ops[i] for i in warp.path.tolist()]
        keys = [op.index for op in in_memory if op.index in accesses]
        ctas.setdefault(warp.cta, []).append(
            WarpProgram(
                warp.cta,
                warp.warp,
                in_memory,
                [accesses[index][row] for index, row in zip(keys, warp.rows.tolist(), strict=True)],
            )
        )
    return Program(
        name=trace.name,
        pipes=list(pipes),
        ops=ops,
        ctas=[ctas[c] for c in sorted(ctas)],
        uses_control_words=controlled,
        resident_ctas=min(limits.values()),
        residency_limits=limits,
        code=trace.code,
    )


def residency(trace: Trace, arch: Architecture) -> dict[str, int]:
    """How many CTAs of this launch fit on the SM by each limit: warps, CTAs, registers, shared memory.

    Registers are granted to warps, by each sub-core from its part of them, and shared memory to CTAs, both in
    the architecture's allocation units.
    Raises GpuemuError when not even one fits, naming each limit that forbids it.
    """
    launch, sm, shared = trace.launch, arch.sm, arch.shared_memory
    problems = []

    def refuse(field_name: str, found: str, right: str) -> None:
        problems.append(Problem(trace.file, None, f"launch.{field_name}", found, right))

    if launch.threads_per_cta > sm.max_threads_per_cta:
        refuse("block", f"{launch.threads_per_cta} threads", f"{arch.name} takes up to {sm.max_threads_per_cta}")
    if launch.registers_per_thread > sm.max_registers_per_thread:
        refuse(
            "registers_per_thread",
            str(launch.registers_per_thread),
            f"up to {sm.max_registers_per_thread} is right",
        )
    if launch.shared_bytes > shared.max_bytes_per_cta:
        refuse(
            "dynamic_shared_bytes",
            f"{launch.shared_bytes} bytes of shared memory, static and dynamic together",
            f"{arch.name} gives a CTA up to {shared.max_bytes_per_cta}",
        )
    warps = launch.warps_per_cta

    def units(amount: int, unit: int) -> int:
        return -(-amount // unit) * unit

    registers = units(launch.registers_per_thread * 32, sm.register_allocation_unit)
    bytes_taken = units(launch.shared_bytes + shared.reserved_bytes_per_cta, shared.allocation_unit_bytes)
    warps_with_registers = sm.sub_cores * (sm.registers // sm.sub_cores // registers) if registers else sm.max_warps
    limits = {
        "warps": sm.max_warps // warps,
        "CTAs": sm.max_ctas,
        "registers": warps_with_registers // warps if registers else sm.max_ctas,
        "shared memory": shared.capacity_bytes // bytes_taken if bytes_taken else sm.max_ctas,
    }
    if limits["registers"] == 0:
        refuse(
            "registers_per_thread",
            f"{warps} warps of {registers} registers",
            f"the SM has registers for {warps_with_registers} such warps",
        )
    if limits["warps"] == 0:
        refuse("block", f"{warps} warps", f"the SM holds {sm.max_warps}")
    if limits["shared memory"] == 0 and not problems:
        refuse(
            "dynamic_shared_bytes",
            f"{bytes_taken} bytes with the reserved ones",
            f"the SM has {shared.capacity_bytes}",
        )
    if problems:
        raise GpuemuError(problems)
    return limits


def _control_words_apply(trace: Trace, arch: Architecture) -> bool:
    mode = arch.issue.dependences
    if mode == "control_words" and not trace.has_control_words:
        bare = next(i for i in trace.code if i.control is None)
        raise GpuemuError.one(
            trace.file, bare.line, f"code at {bare.offset:#06x}", "no control word",
            "with issue.dependences = control_words every instruction carries one; "
            "auto or register_scoreboard is right here",
        )  # fmt: skip
    return trace.has_control_words and mode != "register_scoreboard"


def _lower_instruction(
    index: int, instruction: Instruction, arch: Architecture, controlled: bool, pipes: dict[str, int]
) -> Op:
    """`pipes` numbers the pipes met so far, and takes up a new one."""
    operation = instruction.operation
    kind = operation.kind
    if operation.tensor:
        modes = arch.tensor_core.operations
        if operation.operation not in modes:
            raise KeyError(f"tensor_core.operations.{operation.operation}")
        timing = modes[operation.operation]
        pipe, latency, interval = "tensor", timing.latency_cycles, timing.issue_interval_cycles
    elif kind in (Kind.SHARED, Kind.GLOBAL, Kind.SHUFFLE, Kind.COPY_COMMIT):
        pipe, latency, interval = MIO_PIPE, 0, 1
    elif kind is Kind.BARRIER:
        pipe, latency, interval = "barrier", 0, 1
    else:
        if operation.operation not in arch.operations:
            raise KeyError(f"operations.{operation.operation}")
        t = arch.operations[operation.operation]
        pipe, latency, interval = t.pipe, t.latency_cycles, t.issue_interval_cycles
    op = Op(
        index, kind, pipes.setdefault(pipe, len(pipes)), latency, interval,
        row=operation.row, is_tensor=operation.tensor, is_store=operation.store, is_atomic=operation.atomic,
        returns_data=not (operation.store or kind is Kind.COPY_COMMIT),
        long_latency=kind is Kind.GLOBAL or kind is Kind.COPY_COMMIT,
    )  # fmt: skip
    if pipe == MIO_PIPE:
        op.source_words = source_words(instruction.opcode, instruction.operands)
    if kind is Kind.BARRIER:
        _read_barrier(op, instruction)
    if controlled and instruction.control is not None:
        word = instruction.control
        # A stall count of 0 is written only where nothing follows (padding, a branch to itself). A warp that
        # yields leaves the next cycle to others, or empty (HUERTA).
        op.stall_cycles = max(2 if word.yields else 1, word.stall_cycles)
        op.yields = word.yields
        if kind is Kind.FIXED and not (word.write_counter is None and word.read_counter is None):
            op.kind = Kind.VARIABLE  # as FP64 on chips with few lanes for it
        op.plain = op.kind is Kind.FIXED
        op.waits = tuple(i for i in range(6) if word.wait_mask >> i & 1)
        op.write_counter, op.read_counter = word.write_counter, word.read_counter
    elif not controlled:
        op.writes, op.reads = written_and_read(instruction.opcode, instruction.operands, instruction.guard)
    if kind is Kind.COUNTER_WAIT:
        _read_counter_wait(op, instruction)
    return op


class _UnreadableBarrierError(ValueError):
    """Which number of a barrier is in a register."""


def _read_barrier(op: Op, instruction: Instruction) -> None:
    """BAR.SYNC 0x1, 0x40: barrier 1, for 64 threads."""
    for name, operand in zip(("its barrier", "its thread count"), instruction.operands, strict=False):
        if operand.startswith(("R", "UR")):
            raise _UnreadableBarrierError(name)
        if operand.startswith("0x"):
            if name == "its barrier":
                op.barrier_id = int(operand, 16)
            else:
                op.threads = int(operand, 16)
    op.arrives_only = ".ARV" in instruction.opcode


def _read_counter_wait(op: Op, instruction: Instruction) -> None:
    """DEPBAR.LE SB0, 0x1: waits until counter 0 is at most 1. `DEPBAR {4,3}` waits for these to be 0."""
    named, _, braced = ",".join(instruction.operands).partition("{")
    op.waits += tuple(int(counter) for counter in re.findall(r"\d", braced))
    counter, _, keep = named.partition(",")
    if counter.startswith("SB"):
        op.waits += (int(counter[2:]),)
        op.keep = int(keep.strip(",") or "0", 16)


def _lower_accesses(trace: Trace, arch: Architecture, ops: Sequence[Op]) -> dict[int, dict[int, Access]]:
    """For each memory instruction the Access of each address row that it was executed with."""
    rows_of: dict[int, set[int]] = {i.index: set() for i in ops if i.kind in (Kind.SHARED, Kind.GLOBAL)}
    memory = np.zeros(len(ops), dtype=bool)
    memory[list(rows_of)] = True
    for warp in trace.warps:
        indices = warp.path[memory[warp.path]]
        if len(indices) != len(warp.rows):
            raise GpuemuError.one(
                trace.file, None, f"warp {warp.warp} of CTA {warp.cta}",
                f"{len(warp.rows)} address rows for {len(indices)} memory instructions", "one for each is right",
            )  # fmt: skip
        if len(indices):
            for index, row in np.unique(np.stack([indices, warp.rows]), axis=1).T.tolist():
                rows_of[index].add(row)
    geometry = banks.BankGeometry.of(arch)
    sector = arch.global_memory.sector_bytes
    lowered: dict[int, dict[int, Access]] = {}
    for index, row_set in rows_of.items():
        rows = sorted(row_set)
        instruction = trace.code[index]
        operation = instruction.operation
        addresses, active = trace.addresses[rows], trace.active[rows]
        if operation.kind is Kind.GLOBAL and operation.row is not Row.COPY:
            width = operation.width_bits // 8
            sectors = _distinct(addresses, active, width, sector)
            lines = _distinct(addresses, active, width, GLOBAL_SEGMENT_BYTES)
            lowered[index] = {
                row: Access(0, 0, max(1, n_lines), n_sectors)
                for row, n_sectors, n_lines in zip(rows, sectors.tolist(), lines.tolist(), strict=True)
            }
            continue
        if operation.row is Row.COPY:
            # The trace has the shared side of an asynchronous copy, whose lanes share no words (CIC); its
            # global side is taken to be contiguous.
            kind, width = banks.AccessKind.ATOMIC, operation.width_bits
        else:
            kind, width = banks.parse_op(instruction.opcode)
        try:
            counts = banks.count(geometry, kind, width, addresses, active)
        except GpuemuError as error:
            raise GpuemuError(
                Problem(trace.file, instruction.line, f"code at {instruction.offset:#06x}", p.found, p.right)
                for p in error.problems
            ) from None
        sectors = np.zeros(len(rows), dtype=np.int64)
        if operation.row is Row.COPY:
            sectors = -(-active.sum(axis=1) * (width // 8) // sector)
        columns = (counts.wavefronts, counts.ideal, counts.data_stage_cycles, sectors)
        lowered[index] = {
            row: Access(*numbers) for row, *numbers in zip(rows, *(c.tolist() for c in columns), strict=True)
        }
    return lowered


def _distinct(addresses: np.ndarray, active: np.ndarray, width_bytes: int, block_bytes: int) -> np.ndarray:
    """How many distinct blocks of `block_bytes` the active lanes of each row touch."""
    first, last = addresses // block_bytes, (addresses + width_bytes - 1) // block_bytes
    blocks = np.concatenate([np.where(active, first, -1), np.where(active, last, -1)], axis=1)
    blocks.sort(axis=1)
    new = np.diff(blocks, axis=1, prepend=-1) != 0
    distinct: np.ndarray = np.count_nonzero(new & (blocks >= 0), axis=1)
    return distinct
