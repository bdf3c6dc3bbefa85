"""Hazards of control words along the executed path: reads before a result is there, and writes that come too early.

The hardware checks nothing. A result of a fixed latency is there when the stall counts have let enough cycles pass.
Another result is there when its consumer has waited for the counter that its instruction raised. gpuemu follows the
path of each lane with the least cycles of its control words, and the latencies of the architecture that the code is
for. Paths are divided into runs of consecutive instructions. A run in a known state gives no new findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.isa.opcodes import Kind
from gpuemu.isa.registers import PREDICATES, UNIFORM, register_name
from gpuemu.studies.check.control_steps import (
    COPIES,
    DEPBAR_CYCLES,
    GLOBAL_PATH,
    ORDERED,
    PATH,
    SEEN_CYCLES,
    STALLS_NOT_WAITED_FOR,
    Step,
    slack,
    step_of,
    switched_off,
)  # fmt: skip
from gpuemu.studies.check.findings import Finding, Findings, Point, Severity
from gpuemu.studies.check.lane_paths import LanePath, warp_paths
from gpuemu.trace.model import Trace

_MARK = -1
"""Stands for a register: an instruction that raises a counter, for all of its registers."""
_BARE_CYCLES = 8
"""The cycles for which a source without a counter is tracked. By then it has been read."""
_COUNTED = ("result", "source")


class _Pending(NamedTuple):
    """A pending register: `kind` "fixed", "waited" or "bare" (cycles left), "result" or "source" (a counter, -1 for
    none).

    "waited" are results for which a DEPBAR waits; `pc` is the DEPBAR's. "bare" are sources of an instruction that
    raises no counter. "busy" is a pipe, not a register.
    """

    register: int
    kind: str
    left: int
    pc: int
    unit: str = ""
    guard: tuple[int, bool] | None = None
    """The guard of the instruction, while its predicate keeps its value. The opposite guard belongs to other lanes."""
    fresh: bool = False
    """Whether its counter was raised in the cycle before, so that waits do not see it yet."""
    partial: bool = False
    """Whether unknown lanes executed it."""


_State = tuple[_Pending, ...]


def _passed(pending: list[_Pending], cycles: int) -> list[_Pending]:
    if not cycles:
        return pending
    return [
        p if p.kind in _COUNTED else p._replace(left=p.left - cycles)
        for p in pending
        if p.kind in _COUNTED or p.left > cycles
    ]


def check_control(
    trace: Trace, arch: Architecture, findings: Findings, point: Callable[..., Point],
    paths: Iterable[LanePath] | None = None,
) -> None:  # fmt: skip
    """Add the hazards of the paths that lanes took, by default those of a trace's warps.

    Code without control words has none, because a scoreboard protects it.
    """
    if not trace.has_control_words:
        return
    follower = _Follower(trace, arch, findings, point)
    seen = set()
    for path in warp_paths(trace) if paths is None else paths:
        if path.name not in seen and len(path.path):
            seen.add(path.name)
            follower.follow(path)


class _Follower:
    def __init__(self, trace: Trace, arch: Architecture, findings: Findings, point: Callable[..., Point]):
        self._code = trace.code
        self._arch = arch
        self._findings = findings
        self._point = point
        self._steps: dict[tuple[int, bool], Step] = {}
        self._states: dict[_State, int] = {(): 0}
        self._state: list[_State] = [()]
        self._known: dict[tuple[int, int, bytes, int], int] = {}
        self.thread = 0
        self.cta = 0

    def follow(self, path: LanePath) -> None:
        self.thread, self.cta = path.thread, path.cta
        cuts = (np.flatnonzero(np.diff(path.path) != 1) + 1).tolist()
        state = 0
        for start, end in zip([0, *cuts], [*cuts, len(path.path)], strict=True):
            off = path.off[start:end]
            key = int(path.path[start]), end - start, off.tobytes(), state
            after = self._known.get(key)
            if after is None:
                after = self._known[key] = self._number(self._stretch(key[0], off, self._state[state]))
            state = after

    def _number(self, state: _State) -> int:
        number = self._states.get(state)
        if number is None:
            number = self._states[state] = len(self._state)
            self._state.append(state)
        return number

    def _stretch(self, first: int, off: NDArray[np.bool_], state: _State) -> _State:
        """Follow consecutive instructions. Returns what is pending after them."""
        pending = list(state)
        before: Step | None = None
        for pc, is_off in enumerate(off.tolist(), first):
            step = self._step(pc, is_off)
            if before is not None and (before.parts or before.instruction.threads != step.instruction.threads):
                pending = _elsewhere(pending)
            before = step
            pending = self._waited(step, pc, pending)
            pending = self._issue(step, pc, pending)
        return tuple(_elsewhere(pending))

    def _step(self, pc: int, off: bool) -> Step:
        step = self._steps.get((pc, off))
        if step is None:
            step = switched_off(self._step(pc, False)) if off else step_of(self._code[pc], self._arch)
            self._steps[pc, off] = step
        return step

    def _waited(self, step: Step, pc: int, pending: list[_Pending]) -> list[_Pending]:
        """The registers that are still pending after the waits of a step."""
        if step.waits:
            # The last places up to which sources have been read, and up to which a unit's results are there.
            read, returned = -1, {}
            for k, p in enumerate(pending):
                if p.kind in _COUNTED and p.left in step.waits and not p.fresh:
                    read = k if p.unit in PATH else read
                    if p.kind == "result" and p.unit != GLOBAL_PATH:
                        returned[p.unit] = k
            pending = [
                p for k, p in enumerate(pending)
                if p.kind not in (*_COUNTED, "bare")
                or not (
                    (p.kind in _COUNTED and p.left in step.waits and not p.fresh)
                    or (p.kind in ("source", "bare") and k <= read)
                    or (p.kind == "result" and k <= returned.get(p.unit, -1))
                )
            ]  # fmt: skip
        if step.instruction.operation.kind is Kind.BARRIER:  # it takes the same path after them
            pending = [p for p in pending if p.unit != ORDERED or p.kind not in ("source", "bare")]
        if step.keeps is not None:
            counter, keep = step.keeps
            order = list(dict.fromkeys(p.pc for p in pending if p.kind in _COUNTED and p.left == counter))
            kept = set(order[len(order) - keep :]) if keep else set()
            done = [p.kind in _COUNTED and p.left == counter and p.pc not in kept for p in pending]
            late = [
                p._replace(kind="waited", left=DEPBAR_CYCLES, pc=pc, unit="", register=self._what_waits(p))
                for p, here in zip(pending, done, strict=True)
                if here and p.kind == "result"
            ]
            pending = [*(p for p, here in zip(pending, done, strict=True) if not here), *late]
        return pending

    def _what_waits(self, p: _Pending) -> int:
        copies = p.register == _MARK and self._code[p.pc].operation.kind is Kind.COPY_COMMIT
        return COPIES if copies else p.register

    def _issue(self, step: Step, pc: int, pending: list[_Pending]) -> list[_Pending]:
        read, written = set(step.read), set(step.written)
        if step.interval:
            waited = max((p.left for p in pending if p.kind == "busy"), default=0)
            pending = _passed(pending, waited)
        for p in pending:
            if (p.register not in read and p.register not in written) or self._apart(step, p):
                continue
            if p.kind in ("fixed", "waited", "result") and p.register in read:
                if p.kind != "fixed" or p.left > slack(step.instruction, self._code[p.pc], self._arch):
                    self._tell("read", step, p)
            elif p.register in written and self._too_early(step, p):
                self._tell("overwritten" if p.kind in ("source", "bare") else "written", step, p)
        left = [
            self._renamed(p, written) for p in _passed(pending, step.stall)
            if not (
                (p.register in written and not self._apart(step, p))
                or (p.pc == pc and (p.kind in ("source", "bare") or p.register == _MARK))
            )
        ]  # fmt: skip
        return left + self._raised(step, pc, written)

    def _raised(self, step: Step, pc: int, written: set[int]) -> list[_Pending]:
        fresh = step.stall < SEEN_CYCLES
        guard = None if step.off or step.guard is None or step.guard[0] in written else step.guard

        def of(register: int, kind: str, left: int) -> _Pending:
            counted = kind in _COUNTED
            return _Pending(
                register, kind, left, pc, step.unit if counted or kind == "bare" else "", guard, fresh and counted,
                step.partial,
            )  # fmt: skip

        left = []
        if step.interval > step.stall:
            left.append(of(_MARK, "busy", step.interval - step.stall))
        if step.latency is not None:
            if step.latency > step.stall:
                left += [of(r, "fixed", step.latency - step.stall) for r in step.written if r < UNIFORM]
        elif step.tells:
            for r in (*step.written, _MARK):
                # An atomic has reached memory when its sources have been read.
                predicate = PREDICATES <= r < UNIFORM and step.write_counter < 0
                left.append(of(r, "result", step.read_counter if predicate else step.write_counter))
        if step.late_reader:
            counter = step.read_counter if step.read_counter >= 0 else step.write_counter
            sources = [r for r in step.read if 0 <= r < PREDICATES and r not in written]
            if counter >= 0:
                left += [of(r, "source", counter) for r in (*sources, _MARK)]
            elif step.stall < _BARE_CYCLES:
                left += [of(r, "bare", _BARE_CYCLES - step.stall) for r in sources]
        return left

    @staticmethod
    def _renamed(p: _Pending, written: set[int]) -> _Pending:
        """Advance a pending register one instruction: waits see its counter, and its guard counts until its
        predicate changes.
        """
        if p.fresh:
            p = p._replace(fresh=False)
        if p.guard is not None and p.guard[0] in written:
            p = p._replace(guard=None)
        return p

    @staticmethod
    def _apart(step: Step, p: _Pending) -> bool:
        """Whether other lanes execute a step than the pending ones."""
        return step.guard is not None and p.guard == (step.guard[0], not step.guard[1])

    def _too_early(self, step: Step, pending: _Pending) -> bool:
        """Whether a step may not write this register yet."""
        if pending.kind in ("source", "bare") and step.unit in PATH:
            return False  # it follows on the same path
        if pending.kind == "waited":
            return False  # The value is on its way, and arrives before the later one.
        if pending.kind == "result" and step.unit == pending.unit == ORDERED:
            return False
        if pending.kind == "result" and pending.unit not in PATH:
            return False  # Compilers leave results there that nobody reads.
        if pending.kind != "fixed":
            return True
        early = slack(step.instruction, self._code[pending.pc], self._arch)
        return step.latency is not None and step.latency < pending.left - early

    def _tell(self, what: str, step: Step, pending: _Pending) -> None:
        producer = self._code[pending.pc]
        word = producer.control
        assert word is not None
        name = "what was copied" if pending.register == COPIES else register_name(pending.register)
        does = _does(what != "overwritten")
        if pending.kind in ("fixed", "waited"):
            found = f"{name} is {what} {pending.left} cycles before its latency has passed"
            if pending.kind == "waited":
                found = f"{name} is {what} {pending.left} cycles before {producer.opcode} has waited for it"
                does = "waits for it"
            passed = self._step(pending.pc, False).stall
            stall = passed + pending.left
            short = passed < word.stall_cycles
            yields = "Y:" if short or stall >= STALLS_NOT_WAITED_FOR else ""
            at = f", such as {yields}S{stall:02d} at {producer.offset:#06x}" if stall < 16 else ""
            right = f"{pending.left} cycles more in the stall counts between{at}"
            if short:
                found += f": S{word.stall_cycles:02d} without Y lets {passed} pass"
        elif pending.left < 0 or pending.kind == "bare":
            found = f"{name} is {what}, and no counter tells when {producer.opcode} is done with it"
            side = "R" if pending.kind == "bare" else "W"
            right = f"a counter, such as {side}0 at {producer.offset:#06x}, and a wait for it, B0, here"
        else:
            done = "read its sources" if what == "overwritten" else "written its result"
            found = f"{name} is {what} before {producer.opcode} has {done}"
            right = f"a wait for counter {pending.left} at {step.instruction.offset:#06x} or before"
            if pending.fresh and pending.left in step.waits:
                found += ": a wait in the cycle behind it does not see its counter"
                right = f"a stall count of 2, S02, at {producer.offset:#06x}"
        kinds = {"read": "RAW", "written": "WAW", "overwritten": "WAR"}
        self._findings.add(
            Finding(
                "controlcheck", Severity.ERROR, f"Register {kinds[what]} hazard", found,
                (
                    self._point(producer, self.thread, self.cta, does),
                    self._point(step.instruction, self.thread, self.cta, _does(what != "read")),
                ),
                name, 1, right,
            )
        )  # fmt: skip


def _elsewhere(pending: list[_Pending]) -> list[_Pending]:
    """The pending registers where lanes may diverge. Only the counters of unknown lanes' registers remain."""
    return [p._replace(register=_MARK) if p.partial and p.register != _MARK else p for p in pending]


def _does(writes: bool) -> str:
    return "writes it" if writes else "reads it"
