"""Execute a launch: all CTAs of the grid or some of them, and record the ones that its plan chooses.

    trace = execute_launch(LaunchConfig("k.cubin", args=[array, array, 64]), Listeners(), plan)

Arrays passed as arguments are the kernel's buffers, and contain its results afterwards.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpuemu.base.errors import GpuemuError, Problem
from gpuemu.sass.again import Repeat
from gpuemu.sass.barrier_numbers import with_barrier_numbers
from gpuemu.sass.clusters import notes_of
from gpuemu.sass.grid_plan import Executed, GridPlan, LaunchPlan
from gpuemu.sass.launch_config import LaunchConfig, Listeners
from gpuemu.sass.machine.environment import ExecutionError
from gpuemu.sass.machine.lanes import WARP
from gpuemu.sass.machine.operands import UnsupportedError
from gpuemu.sass.machine.recording.clock import ReplayedClock
from gpuemu.sass.machine.recording.recorder import Recorder, kinds_of
from gpuemu.sass.machine.recording.windows import MOST as MOST_WINDOWS
from gpuemu.sass.machine.recording.windows import Windows
from gpuemu.sass.machine.scheduling.ahead import Ahead
from gpuemu.sass.machine.scheduling.live_cta import Cta, Ended
from gpuemu.sass.machine.scheduling.turns import Turns
from gpuemu.sass.prepared import PreparedLaunch, new_environment, new_executor, prepare
from gpuemu.sass.taken import Taken
from gpuemu.sass.tools.disassembly import DecodedFunction
from gpuemu.trace.events import table
from gpuemu.trace.lines import with_threads
from gpuemu.trace.model import Launch, Trace, WarpTrace
from gpuemu.trace.row_table import joined_sources


class KernelFaultError(GpuemuError):
    """A fault of a kernel. `cause` is the executor's own error."""

    cause: ExecutionError | None = None


def execute_launch(
    config: LaunchConfig, listeners: Listeners, plan: GridPlan | None = None, clock: ReplayedClock | None = None
) -> Trace:
    """Execute a launch and return the trace of its recorded CTAs, which `config` or else the plan names.

    Without a plan, all CTAs are recorded. `clock`: the values of clock reads in a second execution, which
    `gpuemu.run(..., clocks=True)` requests. The first execution counts instructions instead.

    Raises GpuemuError for unfit arguments, for an unknown instruction, and for any fault of the kernel. An integer for
    a parameter that may be a float is also unfit. A fault has its instruction, warp, lane and source line.
    """
    prepared = prepare(config)
    planned = (
        plan.begin(prepared.timed_launch, prepared.sms, prepared.resident) if plan and config.ctas is None else None
    )
    execution = _Execution(prepared, config, listeners, planned, clock)
    execution.run()
    if listeners.reads is not None:
        listeners.reads(frozenset(b.start for b in execution.environment.memory.buffers if b.is_read))
    if execution.gave_up:
        planned = None
    if planned is not None:
        planned.explore(execution.environment, execution.executed, execution.run_further, config.timed_only)
    trace, others = execution.traces()
    again = replace(config, code=prepared.function.cubin, args=tuple(config.args), options=())
    trace = replace(trace, again=execution.repeat.again(execution.executor, partial(_again, again, plan)))
    return trace if planned is None else replace(trace, sample=planned.sample(execution.environment, others))


def _again(
    config: LaunchConfig, plan: GridPlan | None, clock: ReplayedClock, progress: Callable[[int, int], None] | None
) -> Trace:
    """Execute a launch a second time, with these values of the clock."""
    return execute_launch(config, Listeners(progress=progress), plan, clock)


class _Execution:
    """One launch during its execution. `executed` grows with each CTA that ends.

    `gave_up`: whether the timed CTAs are too long to record. Then nothing is recorded.
    """

    def __init__(
        self, prepared: PreparedLaunch, config: LaunchConfig, listeners: Listeners, planned: LaunchPlan | None,
        clock: ReplayedClock | None,
    ):  # fmt: skip
        ctas, observer = prepared.launch.ctas, listeners.observer
        self._launch = prepared.timed_launch
        self._prepared, self._config, self._listeners = prepared, config, listeners
        kept = planned.timed if planned is not None else range(ctas) if config.ctas is None else config.ctas
        prepared.check_ctas(kept)
        self._order: Sequence[int] = kept if config.timed_only else range(ctas)
        self._in_order = deque(kept)
        self._timed = set(kept)
        self._recorded = {*kept} if planned is None else {*kept, *planned.recorded_beside(config.timed_only)}
        self._planned = self._limits = planned
        self.gave_up = False
        self._part = 0
        """The warp instructions of each CTA to record; 0 means all of them."""
        self._apart = 0
        self._windows: dict[int, Windows] = {}
        self._begun = set[int]()
        self._printed: list[str] = []
        queues = None if planned is None else planned.work_queues(config.timed_only)
        self.environment = new_environment(prepared, config, observer, self._print, clock, queues)
        buffers = self.environment.memory.buffers
        self.repeat = Repeat(prepared.code, buffers, clock is None and (observer is None or not observer.forgives))
        if observer is not None:
            observer.launches(self.environment)
        try:
            self.executor = new_executor(prepared, self.environment)
        except UnsupportedError as error:
            raise _unknown(error, prepared.function, prepared.file) from None
        if listeners.watch is not None:
            listeners.watch(self.executor.instructions)
        self._recorder = partial(Recorder, self.environment.lanes, prepared.code, kinds_of(prepared.code))
        self._turns = Turns(
            self.executor, self._begin, prepared.at_once, f"{prepared.sms} SMs x {prepared.resident}", observer,
            self.repeat.instructions, Ahead(self.executor, self._recorder, self._recorded, config.budget),
        )  # fmt: skip
        self.executed = Executed(Taken(WARP), Taken(WARP), np.zeros(self._launch.ctas))
        self._ended: dict[int, Cta] = {}
        self._threads = np.zeros(0, np.int64)

    def _print(self, text: str) -> None:
        self._printed.append(text)
        if self._listeners.printer is not None:
            self._listeners.printer(text)

    def _begin(self, cta: int) -> Cta:
        self.executor.at_once = self._part if cta in self._recorded else 0
        return self.executor.begin(cta, self._recorder(), cta in self._recorded, self._config.budget)

    @property
    def _spare(self) -> range:
        """Return the CTAs that execute only if others wait for them."""
        return range(self._prepared.launch.ctas if self._config.timed_only else 0)

    def run(self) -> None:
        """Execute all CTAs, or the timed ones. Raises GpuemuError for a fault, unless the observer forgives it."""
        prepared, observer = self._prepared, self._listeners.observer
        progress = self._listeners.progress or (lambda done, ctas: None)
        done, ctas = 0, len(self._order)
        progress(done, ctas)
        self.executor.pulse = lambda: self._hear(progress, done)
        try:
            for one in self._turns.run(self._order, self._spare):
                self._limit_recording(one)
                if self.gave_up and self._config.timed_only:
                    break
                self._count(one)
                if one.number in self._timed and isinstance(one, Cta):
                    self._ended[one.number] = one
                    self._record()
                elif self._is_recorded(one) and isinstance(one, Cta) and not self.gave_up:
                    self._add(self.executed.others, one)
                done += self._is_recorded(one) or not self._config.timed_only
                progress(done, ctas)
                if observer is not None and observer.has_enough:
                    break
            self._begun.update(self._order)
        except ExecutionError as error:
            if observer is None or not observer.forgives:
                raise _explained(error, prepared.function, prepared.file, self._turns.now, prepared.launch) from None
            observer.fails(error)
            observer.ends()
            if observer.has_enough:
                return
            self._ended |= {one.number: one for one in self._turns.begun() if one.keep}
            self._in_order = deque(sorted(self._ended))
            self._record()
        except UnsupportedError as error:
            raise _unknown(error, prepared.function, prepared.file) from None

    def _hear(self, progress: Callable[[int, int], None], done: int) -> None:
        """Called from time to time while a CTA executes: stop recording a CTA that is already too long."""
        progress(done, len(self._order))
        cta = self._turns.current
        if cta is None or not (cta.keep or cta.number in self._windows):
            return
        executed = self.executor.instructions_of(cta)
        if cta.number in self._timed:
            self._shorten_if_too_long(executed)
        if self.gave_up and cta.keep:
            self.executor.stop_recording(cta)
        elif self._part:
            self._record_parts(cta, executed)

    def _record_parts(self, cta: Cta, executed: int) -> None:
        """Record a CTA in windows once it is longer than the part of it to record."""
        windows = self._windows.get(cta.number)
        if windows is not None:
            windows.hear(executed)
        elif executed > self._part:
            size = max(1, self._part // MOST_WINDOWS)
            windows = Windows(cta.recorder, size, max(self._apart, executed // MOST_WINDOWS))
            self._windows[cta.number] = windows
            windows.divide(executed)
        if windows is None:
            return
        self._apart, self.executor.at_once = windows.apart, windows.until_news(executed)
        if windows.is_open != cta.keep:
            (self.executor.resume_recording if windows.is_open else self.executor.stop_recording)(cta)

    def _shorten_if_too_long(self, executed: int) -> None:
        """Record less of each CTA, or nothing, if a timed CTA with so many warp instructions is too long."""
        planned = self._limits
        if planned is None or not planned.gives_up(executed):
            return
        self._limits = None
        self._part = planned.shorten() if self._may_be_cut() else 0
        if self._part == 0:
            self.gave_up = True
            for numbers in (self._recorded, self._timed, self._in_order):
                numbers.clear()

    def _may_be_cut(self) -> bool:
        """Whether parts of a CTA's record are a valid record.

        A barrier opens for all warps that have not ended. Nothing else may wait for an instruction that is missing.
        """
        prepared = self._prepared
        waits = any(i.has_events or (i.mnemonic == "BAR" and len(i.operands) > 1) for i in prepared.code)
        return not waits and math.prod(prepared.cluster) == 1

    def _limit_recording(self, one: Cta | Ended) -> None:
        """Record less if a timed CTA was too long. Once the first has ended, record fewer others if that is enough."""
        if one.number not in self._timed:
            return
        self._shorten_if_too_long(one.executed)
        planned, self._planned = self._planned, None
        if planned is None or self._config.timed_only:
            return
        enough = planned.enough_beside(one.executed)
        if enough is not None:
            self._recorded &= {*self._timed, *enough}

    def _count(self, one: Cta | Ended) -> None:
        """Keep the warp instructions of a CTA, unless others were to take it over."""
        if one.number < len(self.executed.work):
            self.executed.work[one.number] = one.executed

    def _is_taken(self, number: int) -> bool:
        control = self.environment.launch_control
        return control is not None and number in control.taken

    def _note_of_taken(self) -> tuple[str, ...]:
        """The note about CTAs that others take over."""
        first, ctas = self._launch.ctas, self._prepared.launch.ctas
        if first == ctas:
            return ()
        return (f"{first:,} of {ctas:,} CTAs begin and take over the others, in equal shares (cluster launch control)",)

    def _is_recorded(self, one: Cta | Ended) -> bool:
        """Whether a CTA was recorded, at least its first part."""
        return one.keep or one.number in self._windows

    def _add(self, to: Taken, cta: Cta) -> None:
        """Add the record of a CTA."""
        if self._part and cta.number not in self._windows and cta.executed > self._part:
            self._record_parts(cta, cta.executed)
        if cta.number in self._windows:
            self._windows[cta.number].end()
        to.add(cta)

    def _record(self) -> None:
        """Record the CTAs that have ended, each once all before it have ended."""
        while self._in_order and (self._in_order[0] in self._ended or self._is_taken(self._in_order[0])):
            number = self._in_order.popleft()
            if number not in self._ended:
                continue
            cta = self._ended.pop(number)
            if self._listeners.observer is not None:
                self._listeners.observer.recorded(cta.number, cta.recorder)
            self._add(self.executed.timed, cta)
            threads = cta.recorder.threads(len(self._prepared.code) + len(self.executor.barriers_used))
            missing = np.zeros(len(threads) - len(self._threads), np.int64)
            self._threads = np.concatenate([self._threads, missing]) + threads

    def run_further(self, ctas: Iterable[int]) -> None:
        """Execute and record further CTAs. Raises ExecutionError and UnsupportedError."""
        numbers = list(ctas)
        self._recorded.update(numbers)
        for one in self._turns.run(numbers, self._spare, self._begun):
            self._begun.add(one.number)
            self._count(one)
            if self._is_recorded(one) and isinstance(one, Cta):
                self._add(self.executed.others, one)

    def traces(self) -> tuple[Trace, Trace]:
        """Return the traces of the timed CTAs and of the others that were recorded."""
        prepared, (timed, others, _) = self._prepared, self.executed
        barriers = self.executor.barriers_used
        code, warps, threads = with_barrier_numbers(prepared.code, timed.warps + others.warps, self._threads, barriers)
        has_events = any(i.has_events for i in prepared.code)
        nothing, nobody = np.zeros((0, WARP), np.int64), np.zeros((0, WARP), np.bool_)
        trace = Trace(
            prepared.function.source_name,
            prepared.function.arch,
            self._launch,
            code,
            (),
            nothing,
            nobody,
            file=prepared.file,
            printed="".join(self._printed),
            source_paths=prepared.function.source_paths,
            lacks=(*notes_of(prepared.function, prepared.cluster), *_note_of_parts(self._part), *self._note_of_taken()),
            buffer_bytes=sum(buffer.bytes for buffer in self.environment.memory.buffers),
        )
        first = len(timed.warps)
        trace = _with_ctas(trace, tuple(warps[:first]), timed, has_events)
        trace = replace(trace, code=with_threads(trace, threads))
        return trace, _with_ctas(trace, tuple(warps[first:]), others, has_events)


def _with_ctas(trace: Trace, warps: tuple[WarpTrace, ...], taken: Taken, has_events: bool) -> Trace:
    """Return the trace with these warps and their recorded accesses."""
    addresses, active, spaces = taken.columns()
    return replace(
        trace, warps=warps, addresses=addresses, active=active, spaces=spaces if spaces.any() else None,
        sources=joined_sources((len(part[0]), part[3]) for part in taken.rows),
        events=table(taken.events) if has_events else None,
    )  # fmt: skip


def _note_of_parts(part: int) -> tuple[str, ...]:
    """The note about CTAs of which only a part was recorded."""
    if part == 0:
        return ()
    return (f"about {part:,} warp instructions of each long CTA are timed, in parts. The rest has the same pace",)


def as_given(source: tuple[str, int] | None, what: Any) -> tuple[str, int] | None:
    """Return a source line with the file name that the user gave."""
    if source is None or not isinstance(what, str | os.PathLike):
        return source
    return (os.fspath(what), source[1]) if Path(source[0]) == Path(what).resolve() else source


def _unknown(error: UnsupportedError, function: DecodedFunction, file: str) -> GpuemuError:
    """Return the error for an unknown instruction: its function, its address, its text, and the unknown part."""
    offset = error.instruction.offset
    source = as_given(function.source_line(offset), file)
    where = function.image.place(offset) + _called_from(function, offset)
    right = "The executor does not know this instruction, or this form of it"
    if source is not None:
        return GpuemuError.one(source[0], source[1], where, f"{error}", right)
    return GpuemuError.one(file, None, where, f"{error}", right)


def _called_from(function: DecodedFunction, offset: int) -> str:
    """Return the calls that inlined an instruction, the innermost first: ", called at k.cu:42", or ""."""
    return "".join(f", called at {file}:{line}" for file, line in function.call_sites(offset))


def _explained(
    error: ExecutionError, function: DecodedFunction, file: str, cta: int, launch: Launch
) -> KernelFaultError:
    """Return the error as a kernel's author needs it: source line, instruction, CTA, warp, lane."""
    instruction = error.instruction
    source = as_given(function.source_line(instruction.offset), file)
    place = function.image.place(instruction.offset).replace("+", " at ")
    where = f"{place}, {instruction}{_called_from(function, instruction.offset)}, CTA {cta}"
    if error.lane is not None:
        x, y, _ = launch.block
        thread = error.lane
        where += f", warp {error.lane // WARP}, lane {error.lane % WARP}"
        where += f", thread ({thread % x}, {thread // x % y}, {thread // (x * y)})"
    named, line = (file, None) if source is None else source
    explained = KernelFaultError([Problem(named, line, where, error.found, error.right)])
    explained.cause = error
    return explained
