"""The part of an instruction that controlcheck needs: registers, counters, the cycles of its control word, latency.

`slack` is the number of cycles by which a consumer may begin before the latency has passed: it reads later than at its
issue, or the file's latency is the longest of several. The values hold for all observed code of compilers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from gpuemu.arch import Architecture
from gpuemu.isa.opcodes import Kind
from gpuemu.isa.registers import PREDICATES, UNIFORM, written_and_read
from gpuemu.trace.model import COUNTERS, Instruction

_AT_ISSUE = (Kind.FIXED, Kind.PRODUCT, Kind.PRODUCT_WAIT)
"""Instructions that read their registers at a fixed time after their issue."""
_BY_COUNTERS = (Kind.SHARED, Kind.GLOBAL, Kind.SHUFFLE)
"""Instructions of the load/store path. They leave in order, and read their sources when they leave."""
ORDERED, GLOBAL_PATH = "ordered", "global"
PATH = (ORDERED, GLOBAL_PATH)
"""Units. The results of the first come in the order of issue, for shared loads, shuffles and matrix moves alike."""
_SLOW = 8
"""The cycles between FP64 instructions from which on counters report their results."""

# An A100 and an H100 behave so in 101 of 101 runs each. Compilers' code relies on it from sm_75 to sm_90.
STALLS_NOT_WAITED_FOR = 12
"""The stall counts from which on the hardware also needs the yield bit."""
SHORT_STALL_CYCLES = 2
"""The cycles that such a stall count lasts without the yield bit."""
DEPBAR_CYCLES = 4
"""The cycles from DEPBAR.LE until its results may be read. An earlier read gets the old value."""
SEEN_CYCLES = 2
"""The cycles from the instruction that raises a counter until other instructions' waits see it."""

COPIES = -2
"""Stands for a register: the destination of asynchronous copies."""

_LATE_READ_CYCLES = 1
_LATER_READ_CYCLES = 2
_READ_LATER = ("SYNCS", "WARPSYNC")
"""These read their registers even later. nvcc lets both use the result of HFMA2.MMA after 6 cycles, not 8."""
_SLACK_CYCLES = 2
_SLACK = {"imad_wide", "fp64"}
_PACKED = ("FFMA2", "FADD2", "FMUL2")
"""Pairs of floats of sm_100. Compilers leave 4 cycles from one to an FFMA or FADD, 5 to others."""
_COUNTED_AS_FOUR = 5
"""Where HFMA2 or IMAD takes 5 cycles, compilers count 4 to HFMA2 and from IMAD (validation/evidence.md)."""


@dataclass(frozen=True)
class Step:
    """An instruction as the check sees it."""

    instruction: Instruction
    written: tuple[int, ...]
    read: tuple[int, ...]
    waits: frozenset[int]
    keeps: tuple[int, int] | None
    """The counter that a DEPBAR waits for, and how many raises of it may remain."""
    stall: int
    """The least cycles to the warp's next instruction."""
    latency: int | None
    write_counter: int
    read_counter: int
    late_reader: bool
    interval: int
    """The cycles for which it occupies a slow pipe; 0 if the pipe is not slow."""
    unit: str
    """Its unit. The results of one unit come in the order of their issue, except those of global memory."""
    tells: bool
    """Whether a counter reports its results, or should."""
    guard: tuple[int, bool] | None
    """The predicate of its guard, and whether it has a "!"."""
    off: bool = False
    """Whether its guard is false in the lanes that are followed."""

    @property
    def parts(self) -> bool:
        """Whether other lanes may diverge here."""
        return self.instruction.operation.kind in (Kind.BRANCH, Kind.EXIT)

    @property
    def partial(self) -> bool:
        """Whether a trace says that only some lanes executed it, without saying which."""
        return self.instruction.threads is not None


def latency_of(instruction: Instruction, arch: Architecture) -> int | None:
    """The fixed latency of an instruction; None if a counter reports its result, or if the latency is unknown."""
    operation = instruction.operation
    word = instruction.control
    if word is not None and word.write_counter is not None:
        return None
    if instruction.mnemonic == "I2I":
        return 0  # Compilers rely on a latency that nobody has measured.
    if operation.kind is not Kind.FIXED:
        return None
    if operation.operation == "fp64" and arch.operations["fp64"].issue_interval_cycles >= _SLOW:
        return None  # Counters report these results; one counter may report several.
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
        read = tuple(r for r in read if not PREDICATES <= r < UNIFORM)  # a mask selects them
    if operation.operation == "uniform":
        written = tuple(r for r in written if r >= UNIFORM)  # the hardware waits for others; compilers rely on it
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
    """The cycles before the end of `producer`'s latency at which `consumer` may issue and read the result."""
    reader, writer = consumer.operation, producer.operation
    late = 0 if reader.kind in _AT_ISSUE else _LATE_READ_CYCLES
    if consumer.mnemonic in _READ_LATER:
        late = _LATER_READ_CYCLES
    if writer.tensor and not reader.tensor:
        # The files' latencies are those from one tensor instruction to another.
        return max(late, (latency_of(producer, arch) or 0) // 3)
    if writer.tensor or {reader.operation, writer.operation} & _SLACK:
        return _SLACK_CYCLES
    packed = producer.mnemonic in _PACKED and reader.operation == "ffma"
    if writer.operation == "imad" or reader.operation == writer.operation == "half" or packed:
        return 1 if latency_of(producer, arch) == _COUNTED_AS_FOUR else late
    return late
