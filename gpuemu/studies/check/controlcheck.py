"""Hazards of control words along the executed path: is what an instruction reads there, may it write where it writes?

The hardware checks nothing: a result of fixed latency is there when the stall counts between have let enough cycles
pass, another when a counter that its instruction has raised has been waited for. Each warp's path is followed with the
least cycles that its control words let pass, by the latencies of the architecture that the code is for. Paths are cut
into stretches of instructions in a row; a stretch met again in the same state says nothing new.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpuemu.arch import Architecture
from gpuemu.isa.opcodes import Kind, Operation
from gpuemu.isa.registers import written_and_read
from gpuemu.studies.check.findings import Finding, Findings, Point, Severity
from gpuemu.trace.model import Instruction, Trace

_BY_COUNTERS = (Kind.SHARED, Kind.GLOBAL, Kind.SHUFFLE)
"""Instructions of the load/store path: they leave one after the other, and read their sources as they do."""
_IN_ORDER = (Kind.SHARED, Kind.SHUFFLE)
"""Those of them whose results come in the order of their issue, too: waiting for one is waiting for those before."""
_ORDERED, _GLOBAL = "ordered", "global"
_PATH = (_ORDERED, _GLOBAL)
_GENERAL = 255
_MARK = -1
"""In the place of a register: an instruction that raises a counter, whatever its registers."""
_LATE_READ_CYCLES = 3
_SLACK_CYCLES = 2
"""How much earlier than the latency compilers let an instruction begin that reads a result later than at its issue:
one that leaves the sub-core or has no fixed latency, and a tensor or a wide one."""
_SLACK = {"imad", "imad_wide", "fp64"}
_HALF_CYCLES, _HALF_TO_HALF_CYCLES = 5, 4
"""Where HFMA2 takes 5 cycles, compilers count 4 to one that reads the result; docs/check.md has the evidence."""
_SLOW = 8
"""Cycles from one FP64 instruction to the next from which on counters tell of its results."""
_BARE_CYCLES = 8
"""For how long a source without a counter is looked after; by then it has been read."""
_COUNTED = ("result", "source")
_PREDICATES, _UNIFORM = 300, 400
"""Where they begin. Results of the uniform pipe are waited for by the hardware, as compilers rely on."""
_BASES = ((500, "UP"), (400, "UR"), (300, "P"), (0, "R"))


class _Pending(NamedTuple):
    """What a register waits for: `kind` "fixed" or "bare" (cycles left), "result" or "source" (a counter, -1 for none).

    "bare" are sources of an instruction that raises no counter; "busy" is a pipe, not a register.
    """

    register: int
    kind: str
    left: int
    pc: int
    unit: str
    """Where it runs: results of one unit come in the order of their issue, except of global memory."""


_State = tuple[_Pending, ...]


def _passed(pending: list[_Pending], cycles: int) -> list[_Pending]:
    """What is pending so many cycles later."""
    if not cycles:
        return pending
    return [
        p if p.kind in _COUNTED else p._replace(left=p.left - cycles)
        for p in pending
        if p.kind in _COUNTED or p.left > cycles
    ]


@dataclass(frozen=True)
class _Step:
    """What the check needs of an instruction."""

    instruction: Instruction
    written: tuple[int, ...]
    read: tuple[int, ...]
    waits: frozenset[int]
    keeps: tuple[int, int] | None
    stall: int
    latency: int | None
    write_counter: int
    read_counter: int
    late_reader: bool
    interval: int
    """Cycles for which it keeps a pipe that is slow; 0 if it is not."""


def _name(register: int) -> str:
    base, letters = next((b, n) for b, n in _BASES if register >= b)
    return f"{letters}{register - base}"


def _latency(instruction: Instruction, arch: Architecture) -> int | None:
    """The fixed latency of an instruction; None if a counter tells, or nobody knows."""
    operation = instruction.operation
    word = instruction.control
    if word is not None and word.write_counter is not None:
        return None
    if instruction.opcode.startswith("I2I"):
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


def _step(instruction: Instruction, arch: Architecture) -> _Step:
    word = instruction.control
    assert word is not None
    written, read = written_and_read(instruction.opcode, instruction.operands, instruction.guard)
    if instruction.opcode.startswith("P2R"):
        read = tuple(r for r in read if not _PREDICATES <= r < _UNIFORM)  # a mask tells which it takes
    if instruction.operation.operation == "uniform":
        written = tuple(r for r in written if r >= _UNIFORM)
    waits = {i for i in range(6) if word.wait_mask >> i & 1}
    keeps = None
    if instruction.operation.kind is Kind.COUNTER_WAIT:
        text = ",".join(instruction.operands)
        waits |= {int(c) for c in re.findall(r"\d", text.partition("{")[2])}
        named = re.match(r"SB(\d)(?:,(0x[0-9a-f]+))?", text)
        if named is not None:
            keeps = int(named[1]), int(named[2] or "0", 16)
    return _Step(
        instruction, written, read, frozenset(waits), keeps,
        max(2 if word.yields else 1, word.stall_cycles), _latency(instruction, arch),
        -1 if word.write_counter is None else word.write_counter,
        -1 if word.read_counter is None else word.read_counter,
        instruction.operation.kind in _BY_COUNTERS, _interval(instruction, arch),
    )  # fmt: skip


def check_control(trace: Trace, arch: Architecture, findings: Findings, point: Callable[..., Point]) -> None:
    """Add the hazards of a trace's paths. Code without control words has none: a scoreboard watches over it."""
    if not trace.has_control_words:
        return
    follower = _Follower(trace, arch, findings, point)
    seen = set()
    for warp in trace.warps:
        name = warp.path.tobytes()
        if name not in seen and len(warp.path):
            seen.add(name)
            follower.follow(warp.path, warp.warp, warp.cta)


class _Follower:
    def __init__(self, trace: Trace, arch: Architecture, findings: Findings, point: Callable[..., Point]):
        self._code = trace.code
        self._arch = arch
        self._findings = findings
        self._point = point
        self._steps: dict[int, _Step] = {}
        self._states: dict[_State, int] = {(): 0}
        self._state: list[_State] = [()]
        self._known: dict[tuple[int, int, int], int] = {}
        self.threads = 0
        self.cta = 0

    def follow(self, path: np.ndarray, warp: int, cta: int) -> None:
        """A warp's path."""
        self.threads, self.cta = 32 * warp, cta
        cuts = np.flatnonzero(np.diff(path) != 1) + 1
        starts = path[np.concatenate([[0], cuts])].tolist()
        ends = path[np.concatenate([cuts - 1, [len(path) - 1]])].tolist()
        state = 0
        for start, end in zip(starts, ends, strict=True):
            key = start, end, state
            after = self._known.get(key)
            if after is None:
                after = self._known[key] = self._number(self._stretch(start, end, self._state[state]))
            state = after

    def _number(self, state: _State) -> int:
        number = self._states.get(state)
        if number is None:
            number = self._states[state] = len(self._state)
            self._state.append(state)
        return number

    def _stretch(self, start: int, end: int, state: _State) -> _State:
        """Follow instructions in a row; what is pending behind them."""
        pending = list(state)
        for pc in range(start, end + 1):
            step = self._steps.get(pc)
            if step is None:
                step = self._steps[pc] = _step(self._code[pc], self._arch)
            pending = self._waited(step, pending)
            pending = self._issue(step, pc, pending)
        return tuple(pending)

    @staticmethod
    def _waited(step: _Step, pending: list[_Pending]) -> list[_Pending]:
        """What is left behind the waits of a step."""
        if step.waits:
            # The last places up to which sources have been read, and a unit's results are there.
            read, returned = -1, {}
            for k, p in enumerate(pending):
                if p.kind in _COUNTED and p.left in step.waits:
                    read = k if p.unit in _PATH else read
                    if p.kind == "result" and p.unit != _GLOBAL:
                        returned[p.unit] = k
            pending = [
                p for k, p in enumerate(pending)
                if p.kind in ("fixed", "busy")
                or not (
                    (p.kind in _COUNTED and p.left in step.waits)
                    or (p.kind in ("source", "bare") and k <= read)
                    or (p.kind == "result" and k <= returned.get(p.unit, -1))
                )
            ]  # fmt: skip
        if step.keeps is not None:
            counter, keep = step.keeps
            order = list(dict.fromkeys(p.pc for p in pending if p.kind in _COUNTED and p.left == counter))
            kept = set(order[len(order) - keep :]) if keep else set()
            pending = [p for p in pending if p.kind not in _COUNTED or p.left != counter or p.pc in kept]
        return pending

    def _issue(self, step: _Step, pc: int, pending: list[_Pending]) -> list[_Pending]:
        read, written = set(step.read), set(step.written)
        if step.interval:
            waited = max((p.left for p in pending if p.kind == "busy"), default=0)
            pending = _passed(pending, waited)
        for p in pending:
            if p.kind in ("fixed", "result") and p.register in read:
                if p.kind != "fixed" or p.left > self._slack(step, p):
                    self._tell("read", step, p)
            elif p.register in written and self._too_early(step, p):
                self._tell("written" if p.kind in ("fixed", "result") else "overwritten", step, p)
        operation = step.instruction.operation
        unit = _GLOBAL if operation.kind is Kind.GLOBAL else _ORDERED if step.late_reader else self._pipe(operation)
        left = [
            p for p in _passed(pending, step.stall)
            if not (p.register in written or (p.pc == pc and (p.kind in ("source", "bare") or p.register == _MARK)))
        ]  # fmt: skip
        if step.interval > step.stall:
            left.append(_Pending(_MARK, "busy", step.interval - step.stall, pc, ""))
        if step.latency is not None:
            if step.latency > step.stall:
                left += [_Pending(r, "fixed", step.latency - step.stall, pc, "") for r in step.written if r < _UNIFORM]
        elif operation.kind is not Kind.FIXED or step.write_counter >= 0 or operation.operation == "fp64":
            for r in (*step.written, _MARK):
                # That an atomic has reached memory is known when its sources are read.
                predicate = _PREDICATES <= r < _UNIFORM and step.write_counter < 0
                left.append(_Pending(r, "result", step.read_counter if predicate else step.write_counter, pc, unit))
        if step.late_reader:
            counter = step.read_counter if step.read_counter >= 0 else step.write_counter
            sources = [r for r in step.read if r < _GENERAL and r not in written]
            if counter >= 0:
                left += [_Pending(r, "source", counter, pc, unit) for r in (*sources, _MARK)]
            elif step.stall < _BARE_CYCLES:
                left += [_Pending(r, "bare", _BARE_CYCLES - step.stall, pc, unit) for r in sources]
        return left

    def _pipe(self, operation: Operation) -> str:
        timing = self._arch.operations.get(operation.operation)
        return operation.operation if timing is None else timing.pipe

    @staticmethod
    def _too_early(step: _Step, pending: _Pending) -> bool:
        """Whether a step may not write this register yet."""
        if pending.kind in ("source", "bare") and step.late_reader:
            return False  # it comes behind on the same path
        if pending.kind == "result" and step.late_reader and pending.unit == _ORDERED:
            return step.instruction.operation.kind not in _IN_ORDER
        if pending.kind == "result" and pending.unit not in _PATH:
            return False  # compilers leave results there that nobody reads
        return pending.kind != "fixed" or (step.latency is not None and step.latency < pending.left)

    def _slack(self, step: _Step, pending: _Pending) -> int:
        consumer, producer = step.instruction.operation, self._code[pending.pc].operation
        if consumer.kind is not Kind.FIXED:
            return _LATE_READ_CYCLES
        if producer.tensor and not consumer.tensor:
            return (_latency(self._code[pending.pc], self._arch) or 0) // 3  # the files' latencies are the longest seen
        if consumer.operation == producer.operation == "half":
            latency = _latency(self._code[pending.pc], self._arch)
            return _HALF_CYCLES - _HALF_TO_HALF_CYCLES if latency == _HALF_CYCLES else 0
        return _SLACK_CYCLES if producer.tensor or {consumer.operation, producer.operation} & _SLACK else 0

    def _tell(self, what: str, step: _Step, pending: _Pending) -> None:
        producer = self._code[pending.pc]
        name = _name(pending.register)
        if pending.kind == "fixed":
            word = producer.control
            assert word is not None
            found = f"{name} is {what} {pending.left} cycles before its latency has passed"
            stall = word.stall_cycles + pending.left
            at = f", such as S{stall:02d} at {producer.offset:#06x}" if stall < 16 else ""
            right = f"{pending.left} cycles more in the stall counts between{at}"
        elif pending.left < 0 or pending.kind == "bare":
            found = f"{name} is {what}, and no counter tells when {producer.opcode} is done with it"
            side = "R" if pending.kind == "bare" else "W"
            right = f"a counter, such as {side}0 at {producer.offset:#06x}, and a wait for it, B0, here"
        else:
            done = "read its sources" if what == "overwritten" else "written its result"
            found = f"{name} is {what} before {producer.opcode} has {done}"
            right = f"a wait for counter {pending.left} at {step.instruction.offset:#06x} or before"
        kinds = {"read": "RAW", "written": "WAW", "overwritten": "WAR"}
        self._findings.add(
            Finding(
                "controlcheck", Severity.ERROR, f"Register {kinds[what]} hazard", found,
                (
                    self._point(producer, self.threads, self.cta, _does(what != "overwritten")),
                    self._point(step.instruction, self.threads, self.cta, _does(what != "read")),
                ),
                name, 1, right,
            )
        )  # fmt: skip


def _does(writes: bool) -> str:
    return "writes it" if writes else "reads it"
