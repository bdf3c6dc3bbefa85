"""What controlcheck needs of an instruction: registers, counters, the cycles that its control word lets pass, latency.

`slack` says how much earlier than the latency an instruction may begin that reads a result; it reads later than at its
issue, or the file's latency is the longest of several. Values hold for all code that compilers have been seen to make.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from gpuemu.arch import Architecture
from gpuemu.isa.opcodes import Kind
from gpuemu.isa.registers import PREDICATES, UNIFORM, written_and_read
from gpuemu.trace.model import COUNTERS, Instruction

_AT_ISSUE = (Kind.FIXED, Kind.PRODUCT, Kind.PRODUCT_WAIT)
"""Those that read their registers at a fixed time behind their issue."""
_BY_COUNTERS = (Kind.SHARED, Kind.GLOBAL, Kind.SHUFFLE)
"""Instructions of the load/store path: they leave one after the other, and read their sources as they do."""
ORDERED, GLOBAL_PATH = "ordered", "global"
PATH = (ORDERED, GLOBAL_PATH)
"""Units: of the first, results come in the order of issue, shared loads, shuffles and matrix moves alike."""
_SLOW = 8
"""Cycles from one FP64 instruction to the next from which on counters tell of its results."""

# An A100 and an H100 do these three in 101 of 101 runs each; code of compilers keeps to them from sm_75 to sm_90.
STALLS_NOT_WAITED_FOR = 12
"""Stall counts from which on the hardware wants the yield bit, too."""
SHORT_STALL_CYCLES = 2
"""What passes without it."""
DEPBAR_CYCLES = 4
"""From DEPBAR.LE until what it waits for may be read; a read before gets the old value."""
SEEN_CYCLES = 2
"""From the instruction that raises a counter until waits of others see it."""

COPIES = -2
"""In the place of a register: what asynchronous copies write."""

_LATE_READ_CYCLES = 1
_LATER_READ_CYCLES = 2
_READ_LATER = ("SYNCS", "WARPSYNC")
"""These read their registers later still: nvcc has both take the result of HFMA2.MMA 6 cycles after it, not 8."""
_SLACK_CYCLES = 2
_SLACK = {"imad_wide", "fp64"}
_COUNTED_AS_FOUR = 5
"""Where HFMA2 or IMAD takes 5 cycles, compilers count 4 to HFMA2 and from IMAD (validation/evidence.md)."""


@dataclass(frozen=True)
class Step:
    """An instruction, as the check sees it."""

    instruction: Instruction
    written: tuple[int, ...]
    read: tuple[int, ...]
    waits: frozenset[int]
    keeps: tuple[int, int] | None
    """The counter that a DEPBAR waits for, and how many of its raisers may be left."""
    stall: int
    """The least cycles to the warp's next instruction."""
    latency: int | None
    write_counter: int
    read_counter: int
    late_reader: bool
    interval: int
    """Cycles for which it keeps a pipe that is slow; 0 if it is not."""
    unit: str
    """Where it runs: results of one unit come in the order of their issue, except of global memory."""
    tells: bool
    """Whether a counter tells of its results, or should."""
    guard: tuple[int, bool] | None
    """The predicate of its guard, and whether it has a "!"."""
    off: bool = False
    """Whether its guard is false in the lanes that are followed."""

    @property
    def parts(self) -> bool:
        """Whether other lanes may go on behind it."""
        return self.instruction.operation.kind in (Kind.BRANCH, Kind.EXIT)

    @property
    def partial(self) -> bool:
        """Whether a trace says that not all lanes executed it, and not which."""
        return self.instruction.threads is not None


def latency_of(instruction: Instruction, arch: Architecture) -> int | None:
    """The fixed latency of an instruction; None if a counter tells, or nobody knows."""
    operation = instruction.operation
    word = instruction.control
    if word is not None and word.write_counter is not None:
        return None
    if instruction.mnemonic == "I2I":
        return 0  # compilers count on one that nobody has measured
    if operation.kind is not Kind.FIXED:
        return None
    if operation.operation == "fp64" and arch.operations["fp64"].issue_interval_cycles >= _SLOW:
        return None  # counters tell; one may tell for several
    if operation.tensor:
        mode = arch.tensor_core.operations.get(operation.operation)
        return None if mode is None else mode.latency_cycles
    timing = arch.operations.get(operation.operation)
    return None if timing is None else timing.latency_cycles


def _interval(instruction: Instruction, arch: Architecture) -> int:
    operation = instruction.operation
    mode = arch.tensor_core.operations.get(operation.operation) if operation.tensor else None
    return 0 if mode is None else mode.issue_interval_cycles


def _unit(instruction: Instruction, arch: Architecture) -> str:
    operation = instruction.operation
    if operation.kind is Kind.GLOBAL:
        return GLOBAL_PATH
    if operation.kind in _BY_COUNTERS or operation.operation == "matrix_move":
        return ORDERED
    timing = arch.operations.get(operation.operation)
    return operation.operation if timing is None else timing.pipe


def _guard(instruction: Instruction) -> tuple[int, bool] | None:
    predicates = written_and_read("NOP", (), instruction.guard)[1]
    return (predicates[0], "!" in instruction.guard) if predicates else None


def step_of(instruction: Instruction, arch: Architecture) -> Step:
    """The step of an instruction with a control word."""
    word = instruction.control
    assert word is not None
    operation = instruction.operation
    written, read = instruction.registers
    if instruction.mnemonic == "P2R":
        read = tuple(r for r in read if not PREDICATES <= r < UNIFORM)  # a mask tells which it takes
    if operation.operation == "uniform":
        written = tuple(r for r in written if r >= UNIFORM)  # the hardware waits for others, as compilers rely on
    if operation.kind in (Kind.SHARED, Kind.BARRIER):
        read = (*read, COPIES)
    waits = {i for i in range(COUNTERS) if word.wait_mask >> i & 1}
    keeps = None
    if operation.kind is Kind.COUNTER_WAIT:
        text = ",".join(instruction.operands)
        waits |= {int(c) for c in re.findall(r"\d", text.partition("{")[2])}
        named = re.match(r"SB(\d)(?:,(0x[0-9a-f]+))?", text)
        if named is not None:
            keeps = int(named[1]), int(named[2] or "0", 16)
    stall = max(2 if word.yields else 1, word.stall_cycles)
    if stall >= STALLS_NOT_WAITED_FOR and not word.yields:
        stall = SHORT_STALL_CYCLES
    write_counter = -1 if word.write_counter is None else word.write_counter
    return Step(
        instruction, written, read, frozenset(waits), keeps, stall, latency_of(instruction, arch), write_counter,
        -1 if word.read_counter is None else word.read_counter, operation.kind in _BY_COUNTERS,
        _interval(instruction, arch), _unit(instruction, arch),
        operation.kind not in _AT_ISSUE or write_counter >= 0 or operation.operation == "fp64",
        _guard(instruction),
    )  # fmt: skip


def switched_off(step: Step) -> Step:
    """The step in lanes where its guard is false: it takes its time and raises its counters."""
    read = () if step.guard is None else (step.guard[0],)
    return replace(step, written=(), read=read, off=True)


def slack(consumer: Instruction, producer: Instruction, arch: Architecture) -> int:
    """How many cycles before the latency of `producer` has passed `consumer` may issue that reads its result."""
    reader, writer = consumer.operation, producer.operation
    late = 0 if reader.kind in _AT_ISSUE else _LATE_READ_CYCLES
    if consumer.mnemonic in _READ_LATER:
        late = _LATER_READ_CYCLES
    if writer.tensor and not reader.tensor:
        # The files' latencies are those from one tensor instruction to another.
        return max(late, (latency_of(producer, arch) or 0) // 3)
    if writer.tensor or {reader.operation, writer.operation} & _SLACK:
        return _SLACK_CYCLES
    if writer.operation == "imad" or reader.operation == writer.operation == "half":
        return 1 if latency_of(producer, arch) == _COUNTED_AS_FOUR else late
    return late
