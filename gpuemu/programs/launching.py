"""Decides which launches execute, repeat an earlier one or wait for a reader, and which gpuemu times.

gpuemu times the first launch of each kind (see `kinds`), and a later one if it executes a different number of
instructions. From the third on, launches of a kind wait until the program reads memory that they reach. A launch that
still waits when the program ends never executes, and counts as "sampled".
"""

from __future__ import annotations

import sys
import time as clock
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch.hardware import without_profiler
from gpuemu.programs import executing, protocol
from gpuemu.programs.executing import Heard, Job
from gpuemu.programs.journal import Journal, LaunchRecord
from gpuemu.programs.kinds import Family, Kind
from gpuemu.programs.memory import Allocation, ProgramMemory, words_without_pointers
from gpuemu.programs.protocol import DeviceError
from gpuemu.programs.repeats import Repeats
from gpuemu.programs.settings import SAMPLING_SECONDS, Settings
from gpuemu.sass.launch import KernelFaultError
from gpuemu.trace.model import Trace

_EXECUTED_BEFORE_WAITING = 2
_TRIED = 1 / 8
_UNSURE = 3.0
"""After the first part of the remaining time, gpuemu gives up a launch that needs so many times the rest of it."""
_LIKELY_PACE = 2e7
"""Warp instructions per second, until a launch was faster."""


class OutOfTimeError(Exception):
    """The user's time limit has passed during a launch."""


@dataclass(eq=False)
class Pending:
    """A launch with the memory that it reaches, and with all memory at the time of the launch."""

    job: Job
    record: LaunchRecord
    kind: Kind
    wanted: bool
    reached: list[Allocation]
    everything: list[Allocation]

    @property
    def arrays(self) -> dict[int, NDArray[np.uint8]]:
        return {one.start: one.data for one in self.everything}

    @property
    def identity(self) -> Hashable:
        """Equal for launches that differ only in the contents of memory."""
        job = self.job
        return id(job.cubin), job.kernel, job.grid, job.block, job.cluster, job.dynamic_shared_bytes, job.arguments


class Launches:
    """The launches of a process, in order."""

    def __init__(self, settings: Settings, journal: Journal, memory: ProgramMemory):
        self._settings = settings
        self._timed_arch = without_profiler(settings.arch)
        self._memory = memory
        self._journal = journal
        self._kinds: dict[Hashable, Kind] = {}
        self._families: dict[Hashable, Family] = {}
        self._pace = _LIKELY_PACE
        self._repeats = Repeats()
        self._wide: set[Hashable] = set()
        """Kernels that have read memory to which no address leads."""
        self._waiting: list[Pending] = []
        self.printed: list[str] = []

    def kind(self, job: Job) -> Kind:
        """The kind of a launch."""
        arguments = tuple(words_without_pointers(argument) for argument in job.arguments)
        configuration = id(job.cubin), job.kernel, job.grid, job.block, job.cluster, job.dynamic_shared_bytes
        family = self._families.setdefault(configuration, Family())
        return self._kinds.setdefault((configuration, arguments), Kind(family))

    def reached(self, job: Job, variables: Iterable[int]) -> list[Allocation]:
        """The memory that a launch may access. `variables`: the addresses of its module's variables."""
        if (id(job.cubin), job.kernel) in self._wide:
            return self._memory.everything
        return self._memory.reached(job.arguments, variables)

    def take(self, launch: Pending) -> None:
        """Execute a launch now, or keep it until the program reads its results. Raises GpuemuError."""
        kind = launch.kind
        executed = kind.executed >= _EXECUTED_BEFORE_WAITING and not kind.varies
        if executed and not launch.job.prints and self._settings.inspect is None:
            if not self._repeated(launch):
                launch.record.timing = kind.about() if launch.wanted else None
                launch.record.values = "sampled"
                self._waiting.append(launch)
            return
        self.settle(None)
        self._run(launch)

    def settle(self, touched: Sequence[Allocation] | None, read: bool = False) -> None:
        """Execute waiting launches, up to the last one that reaches some of this memory. None means all of them."""
        last = 0
        for number, one in enumerate(self._waiting):
            if touched is None or any(mine is other for mine in one.reached for other in touched):
                last = number + 1
        todo, self._waiting = self._waiting[:last], self._waiting[last:]
        for one in todo:
            self._run(one)
        lacks = next((one.lacks for one in touched or () if one.lacks), "") if read else ""
        if lacks and not self._journal.lacks_values:
            self._journal.lacks_values = True
            why = f"the program reads results of {lacks}, which gpuemu sampled because time was short (--seconds)"
            print(f"gpuemu: {why}. Values from here on may be wrong.", file=sys.stderr, flush=True)

    def reads_of_the_host(self) -> None:
        """Execute waiting launches that reach memory shared with the host, which may read it now."""
        self.settle([one for one in self._memory.everything if one.is_shared], read=True)

    def frees(self, gone: Allocation) -> None:
        """The host frees memory. Waiting launches get a copy of its contents."""
        if any(one is gone for launch in self._waiting for one in launch.reached):
            gone.data, gone.offset = gone.data.copy(), None

    def _repeated(self, launch: Pending) -> bool:
        """Repeat the writes of an equal launch, unless a waiting launch reaches the same memory."""
        if any(mine is other for one in self._waiting for mine in one.reached for other in launch.reached):
            return False
        key = self._repeats.key(launch.identity, launch.reached)
        writes = None if key is None else self._repeats.find(key)
        if writes is None:
            return False
        self._repeats.repeat(writes, launch.reached)
        _spread_lacks(launch, writes.read)
        self.printed.append(writes.printed)
        launch.kind.executed += 1
        launch.record.values = "executed"
        if launch.wanted:
            launch.record.timing = launch.kind.like(writes.instructions) or launch.kind.about(writes.instructions)
        return True

    def _run(self, launch: Pending) -> None:
        if self._settings.inspect is not None:
            memory = self._memory.apart(launch.everything, as_requested=True)
            config = launch.job.config(self._settings.arch, memory, timed_only=False)
            launch.record.findings = tuple(self._settings.inspect(config))
        elif self._repeated(launch):
            return
        if self._fits(launch):
            try:
                self._execute(launch)
                return
            except OutOfTimeError:
                launch.kind.seconds = float("inf")
        self._sample(launch)
        launch.record.is_late = True
        for one in launch.reached:
            one.lacks = one.lacks or f"launch {launch.record.number} ({launch.record.kernel})"

    def _fits(self, launch: Pending) -> bool:
        """Whether gpuemu begins to execute a launch within the time limit."""
        return self._settings.left > (launch.kind.seconds or 0.0)

    def _sample(self, launch: Pending) -> None:
        """Time a launch by executing only the CTAs that timing needs, in a private copy of memory."""
        launch.record.values = "sampled"
        kind = launch.kind
        if not launch.wanted:
            return
        launch.record.timing = kind.about()
        if not kind.needs_time or kind.family.predicts:
            return
        heard = Heard()
        heard.progress = self._progress(launch, heard, "sampling")
        memory = self._memory.apart(launch.everything)
        try:
            trace = executing.execute(
                launch.job, self._settings.arch, memory, heard, record=True, timed_only=True
            )  # fmt: skip
        except OutOfTimeError:
            kind.is_too_long = True
            return
        self._time(launch, trace, None)

    def _execute(self, launch: Pending) -> None:
        kind, reached, settings = launch.kind, launch.reached, self._settings
        records = launch.wanted and (kind.varies or kind.needs_time) and not (kind.family.predicts or kind.is_too_long)
        key = self._repeats.key(launch.identity, reached) if settings.inspect is None else None
        before = None if key is None else self._repeats.before(key, reached)
        heard = Heard()
        heard.progress = self._progress(launch, heard, "executing")
        started = clock.monotonic()
        try:
            trace = executing.execute(
                launch.job, settings.arch, launch.arrays, heard, record=records, timed_only=False
            )  # fmt: skip
        except KernelFaultError as error:
            raise fault_of(error, launch.record) from None
        except OutOfTimeError:
            if before is not None:
                before.restore()
            raise
        finally:
            for one in reached:
                one.changed()
            self.printed += heard.printed
        instructions = heard.instructions()
        seconds = max(1e-6, clock.monotonic() - started)
        kind.count(instructions, seconds)
        self._pace = max(self._pace, instructions / seconds)
        launch.record.values = "executed"
        _spread_lacks(launch, heard.read)
        if self._reads_elsewhere(launch, heard.read):
            before = None
        if before is not None:
            self._repeats.keep(before, "".join(heard.printed), instructions, heard.read)
        if not launch.wanted:
            return
        launch.record.timing = kind.like(instructions) or kind.predict(instructions)
        work = executing.work_without_records(trace, settings.arch) if records else None
        unrecorded = work is not None or (not records and not kind.is_too_long)
        if launch.record.timing is None and unrecorded and before is not None:
            arrays = launch.arrays | {one.start: old for one, old in zip(reached, before.copies, strict=True)}
            trace = executing.execute(
                launch.job, settings.arch, arrays, Heard(), record=True, timed_only=True, work=work
            )  # fmt: skip
            records = True
        if launch.record.timing is None and records:
            self._time(launch, trace, instructions)
        elif launch.record.timing is None:
            launch.record.timing = kind.about(instructions)

    def _reads_elsewhere(self, launch: Pending, read: frozenset[int]) -> bool:
        """Whether a launch has read memory that its addresses do not lead to. Its kernel then reaches all memory."""
        reached = {one.start for one in launch.reached}
        if all(one.start in reached or one.start not in read for one in launch.everything):
            return False
        self._wide.add((id(launch.job.cubin), launch.job.kernel))
        for one in launch.everything:
            one.changed()
        return True

    def _time(self, launch: Pending, trace: Trace, instructions: int | None) -> None:
        if not trace.warps:
            launch.kind.is_too_long = True
            launch.record.timing = launch.kind.about(instructions)
            return
        timing = executing.time(trace, self._timed_arch)
        launch.record.timing, launch.record.timed = timing, True
        launch.kind.keep(timing, instructions)

    def _progress(self, launch: Pending, heard: Heard, doing: str) -> Callable[[int, int], None] | None:
        """A listener for the number of finished CTAs, which raises OutOfTimeError.

        An execution ends at the time limit, or if it cannot reach its end before. A sample has a time of grace.
        """
        settings, name, is_sample = self._settings, launch.record.kernel, doing == "sampling"
        began = settings.left
        if settings.progress is None and settings.seconds is None:
            return None

        def hear(done: int, total: int) -> None:
            left = settings.left
            if left < (-SAMPLING_SECONDS if is_sample else 0.0):
                raise OutOfTimeError
            if is_sample and not done and heard.instructions() > executing.MOST_SAMPLED:
                raise OutOfTimeError
            if done and not is_sample and left <= (1 - _TRIED) * began < float("inf"):
                missing = heard.instructions() * (total - done) / done
                if missing > _UNSURE * left * self._pace:
                    raise OutOfTimeError
            if settings.progress is not None:
                settings.progress(f"{doing} launch {launch.record.number:,}, {name}", done / max(1, total))

        return hear


def _spread_lacks(launch: Pending, read: frozenset[int]) -> None:
    """If a launch has read memory that lacks results, the memory that it reaches lacks right ones, too."""
    lacks = next((one.lacks for one in launch.everything if one.lacks and one.start in read), "")
    for one in launch.reached if lacks else ():
        one.lacks = one.lacks or lacks


_FAULTS = {"outside": protocol.ILLEGAL_ADDRESS, "misaligned": protocol.MISALIGNED}


def fault_of(error: KernelFaultError, record: LaunchRecord) -> DeviceError:
    """The error code of a kernel's fault. gpuemu prints the details for the user."""
    record.fault = str(error)
    print(f"gpuemu: launch {record.number} of {record.kernel}: {error}", file=sys.stderr, flush=True)
    cause = error.cause
    code = protocol.FAILED
    if cause is not None and cause.is_assertion:
        code = protocol.ASSERT
    elif cause is not None and (cause.stuck or cause.waits):
        code = protocol.TIMEOUT
    elif cause is not None and cause.fault is not None:
        code = _FAULTS.get(cause.fault.kind, protocol.FAILED)
    return DeviceError(code, str(error))
