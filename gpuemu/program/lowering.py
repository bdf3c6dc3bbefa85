"""Lowering: a trace for an architecture becomes the dense program that the engine replays.

Everything that depends only on the instruction or only on its addresses is settled here, once and in bulk:
unit, stall count, counters, wavefronts. The engine then handles small objects and whole numbers; it never
sees YAML, pydantic or an opcode.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.isa.opcodes import CLUSTER_BARRIER, Kind, Row, indexes_constants, reads_lane_register
from gpuemu.isa.registers import source_words, written_and_read
from gpuemu.program.accesses import Access, lower_accesses
from gpuemu.program.instruction_lines import mark_lines
from gpuemu.program.operand_fetch import SCALAR, TENSOR_PIPE, annotate, tensor_pipe
from gpuemu.trace.model import Instruction, Trace
from gpuemu.trace.residency import carveout, residency, shared_bytes_taken

if TYPE_CHECKING:
    from gpuemu.arch import Architecture
    from gpuemu.program.operand_cache import Fetches

MIO_PIPE = "mio"
"""The pipe of instructions that go through the sub-core's queue to the load/store unit; always pipe 0."""


@dataclass(slots=True, eq=False)
class Op:
    """An instruction of the code, lowered: one object for all its executions.

    `stall_cycles` is the least distance to the warp's next issue. `waits` are the dependence counters that
    must be clear before it issues. `reads` and `writes` serve the register scoreboard and are empty in
    control-word mode. `plain` marks what the scheduler need not look at twice: a fixed-latency instruction
    in control-word mode. `keep` is the counter value a DEPBAR waits for, `threads` the count a barrier names.
    `settles`: the scheduler must find out when it may issue; `next_line`: of a branch target, the first instruction of
    the line of code behind its own, -1 if none is known; `slot`: its place in its own.
    `late_cycles`: of an LDC with a register in its address, by which it comes later than without, and keeps that.
    `passes_barrier`: it issues behind a closed barrier; `slips_barrier`: it does within the first few cycles;
    `late_behind_barrier`: it is delayed if a barrier opens in the cycle of its issue.
    What the ports of the register file need to know, set by `operand_fetch`: for each bank the registers that it
    `fetches`, each with the latches that it goes into, and the latches with kept registers that it has `held`;
    `sent_banks`, of the registers that it sends to another unit in turn; `written_banks`, a bit for each bank that
    arithmetic writes to, and `bank_writes`, the same for each register in turn that comes from shared memory; for an
    mma `port_reads`, for each bank a bit for each cycle from issue on in which it reads, and the `free_cycles` that it
    leaves to memory instructions; all this for the case that the operand cache keeps what the reuse flags say, with
    `_anew` for the other; `kept_for`, since how many instructions that fill latches (`fills_latches`); `turnaround`,
    for each kind of the tensor pipe in turn, cycles that the pipe loses before it takes one of that kind;
    `second_read`: an IMAD.WIDE reads its operands again so much later, `upper` the upper half of its addend; `fresh`:
    registers that it reads which may still be on the forwarding path, `meets`, those of which more than one at a time
    may be, by bank (each alone if it reads twice), and `forwards`, those of its results that another meets there;
    `crowds_ports` if it may hold up others, `uses_ports` if others may hold it up, `writes_registers` if it writes a
    result at a fixed time.
    `results`: for an mma the cycles in which it writes registers, the first of them `writes_after` its issue; matrices
    of an LDSM, which come one behind another (`results_apart`); 1 for other instructions that return something.
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
    settles: bool = False
    next_line: int = -1
    slot: int = 0
    write_counter: int | None = None
    read_counter: int | None = None
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    row: Row | None = None
    is_tensor: bool = False
    is_store: bool = False
    is_atomic: bool = False
    source_words: int = 1
    keep: int = 0
    barrier_id: int = 0
    threads: int | None = None
    arrives_only: bool = False
    long_latency: bool = False
    is_load: bool = False
    is_memory: bool = False
    is_cached: bool = False
    is_local: bool = False
    late_cycles: int = 0
    passes_barrier: bool = False
    slips_barrier: bool = True
    late_behind_barrier: bool = False
    crowds_ports: bool = False
    uses_ports: bool = False
    writes_registers: bool = False
    fills_latches: bool = False
    fetches: Fetches = ()
    held: tuple[int, ...] = ()
    fetches_anew: Fetches = ()
    sent_banks: tuple[int, ...] = ()
    written_banks: int = 0
    bank_writes: tuple[int, ...] = ()
    kept_for: int = 0
    second_read: int = 0
    upper: int = -1
    fresh: tuple[int, ...] = ()
    meets: tuple[tuple[int, ...], ...] = ()
    forwards: tuple[int, ...] = ()
    port_reads: tuple[int, ...] = (0,)
    port_reads_anew: tuple[int, ...] = (0,)
    free_cycles: tuple[int, ...] = ()
    results: int = 0
    results_apart: bool = False
    writes_after: int = 0
    turnaround: tuple[int, ...] = ()

    @property
    def is_plain_global_store(self) -> bool:
        """Whether it writes global memory and nobody waits for what becomes of it."""
        return self.kind is Kind.GLOBAL and self.is_store and self.row is None

    @property
    def address_first(self) -> bool:
        """Whether it sends nothing but addresses: of loads and asynchronous copies they are read a cycle earlier."""
        return self.is_load or self.row is Row.COPY

    @property
    def stored_registers(self) -> int:
        """How many 32-lane registers of data a store brings with it, behind its address; 0 for all that are none."""
        if self.is_plain_global_store:
            return max(0, self.source_words - 2)
        return max(0, self.source_words - 1) if self.kind is Kind.SHARED and self.row is Row.STORE else 0

    @property
    def carries_addresses(self) -> bool:
        """Whether each execution has an Access of its own."""
        return self.kind in (Kind.SHARED, Kind.GLOBAL)


END = Op(-1, Kind.EXIT, 0, 1, 1, settles=True)
"""Stands behind the last instruction of every warp; the scheduler must look at it."""


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
    `carveout_bytes`: what the driver takes of L1's memory for them.
    """

    name: str
    pipes: list[str]
    ops: list[Op]
    ctas: list[list[WarpProgram]]
    uses_control_words: bool
    resident_ctas: int
    residency_limits: dict[str, int]
    carveout_bytes: int = 0
    code: tuple[Instruction, ...] = field(repr=False, default=())


def lower(trace: Trace, arch: Architecture) -> Program:
    """Lower `trace` for `arch`.

    Raises GpuemuError, naming the trace's file and the line of the instruction, for an operation without
    timing in the architecture file, a misaligned access, or a CTA that does not fit on the SM. Instructions that
    no warp executed may be anything.
    """
    limits = residency(trace, arch)
    controlled = _control_words_apply(trace, arch)
    problems: list[Problem] = []
    ops: list[Op] = []
    pipes = {MIO_PIPE: 0}
    warpgroup: Op | None = None
    executed = np.zeros(len(trace.code), dtype=np.bool_)
    for warp in trace.warps:
        executed[warp.path] = True
    for index, instruction in enumerate(trace.code):
        if not executed[index]:
            ops.append(Op(index, Kind.FIXED, 0, 1, 1))
            continue
        try:
            op = _lower_instruction(index, instruction, arch, controlled, pipes)
            if instruction.operation.warpgroup_columns:
                warpgroup = op
            elif warpgroup is not None and instruction.opcode.startswith("WARPGROUP.DEPBAR"):
                _read_warpgroup_wait(op, instruction, warpgroup)
            ops.append(op)
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
    mark_lines(ops, trace, arch.issue.instruction_line_bytes)
    annotate(ops, trace.code, arch, list(pipes))
    accesses = lower_accesses(trace, arch, ops)
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
        carveout_bytes=carveout(min(limits.values()) * shared_bytes_taken(trace, arch), arch),
        code=trace.code,
    )


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
    late = 0
    indexed = indexes_constants(instruction.opcode, " ".join(instruction.operands))
    if reads_lane_register(instruction.opcode, " ".join(instruction.operands)):
        kind = Kind.LANE_REGISTER
    if operation.tensor or operation.warpgroup_columns:
        modes = arch.tensor_core.operations
        if operation.operation not in modes:
            raise KeyError(f"tensor_core.operations.{operation.operation}")
        timing = modes[operation.operation]
        pipe, latency, interval = tensor_pipe(operation.operation), timing.latency_cycles, timing.issue_interval_cycles
        if operation.warpgroup_columns:  # the timing is that of eight columns
            more = (operation.warpgroup_columns // 8 - 1) * interval
            latency, interval = latency + more, interval + more
    elif kind in (Kind.SHARED, Kind.GLOBAL, Kind.SHUFFLE, Kind.LANE_REGISTER, Kind.COPY_COMMIT):
        pipe, latency, interval = MIO_PIPE, 0, 1
    elif kind is Kind.BARRIER:
        pipe, latency, interval = "barrier", 0, 1
    else:
        name = "indexed_constant_load" if indexed else operation.operation
        if name not in arch.operations:
            raise KeyError(f"operations.{name}")
        t = arch.operations[name]
        if indexed:
            late = t.latency_cycles - arch.operations[operation.operation].latency_cycles
        pipe, latency, interval = t.pipe, t.latency_cycles, t.issue_interval_cycles
        if pipe == TENSOR_PIPE:
            pipe = SCALAR
    op = Op(
        index, kind, pipes.setdefault(pipe, len(pipes)), latency, interval,
        row=operation.row, is_tensor=operation.tensor, is_store=operation.store, is_atomic=operation.atomic,
        is_load=kind in (Kind.SHARED, Kind.GLOBAL) and not operation.store and not operation.atomic,
        long_latency=kind is Kind.GLOBAL or kind is Kind.COPY_COMMIT,
        is_cached=operation.cached, is_local=operation.local, late_cycles=late,
    )  # fmt: skip
    if kind is Kind.LANE_REGISTER:
        op.source_words = 0
    elif pipe == MIO_PIPE:
        op.source_words = source_words(instruction.opcode, instruction.operands)
    if kind is Kind.SHUFFLE or (kind is Kind.SHARED and not operation.store):
        op.results = max(1, operation.matrices)
        op.results_apart = operation.row is Row.LOAD_MATRIX
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
    if instruction.opcode == "BSYNC":
        op.stall_cycles = max(op.stall_cycles, arch.issue.convergence_cycles)
    if kind is Kind.COUNTER_WAIT:
        _read_counter_wait(op, instruction)
    return op


def _read_warpgroup_wait(op: Op, instruction: Instruction, last: Op) -> None:
    """WARPGROUP.DEPBAR.LE gsb0, 0x0: waits until the tensor core has taken all there is, and for the last result.

    With a number above 0 all but the last products are done when the tensor core has taken the last one, which is
    when that could issue: nothing is left to wait for.
    """
    if int(instruction.operands[-1], 16) == 0:
        op.pipe, op.latency_cycles = last.pipe, last.latency_cycles
        op.stall_cycles = max(op.stall_cycles, last.latency_cycles - last.issue_interval_cycles)


class _UnreadableBarrierError(ValueError):
    """Which number of a barrier is in a register."""


def _read_barrier(op: Op, instruction: Instruction) -> None:
    """BAR.SYNC 0x1, 0x40: barrier 1, for 64 threads. UCGABAR_WAIT: that of the cluster, one more than CTAs have."""
    if instruction.opcode == "UCGABAR_WAIT":
        op.barrier_id = CLUSTER_BARRIER
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
