"""Execute a kernel that reads the clock a second time, with the clock values that a replay has found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.errors import GpuemuError
from gpuemu.sass.machine.memory.storage import Buffer
from gpuemu.sass.machine.recording.clock import ReplayedClock
from gpuemu.sass.machine.scheduling.cta import CtaExecutor
from gpuemu.trace.clocks import ClockValues
from gpuemu.trace.model import Instruction, Trace


def clock_reads(code: Iterable[Instruction]) -> NDArray[np.bool_]:
    """Return which instructions read the clock or %globaltimer."""
    return np.array([instruction.reads_time for instruction in code], np.bool_)


@dataclass(frozen=True)
class SecondExecution:
    """Executes a launch again, as the `again` of a trace.

    `launch` is `trace_kernel` with the arguments of the first execution. `before` has each buffer's bytes and its
    original contents. The call restores these contents, so that the arrays contain the results of the second execution
    afterwards. `reads` and `instructions`: see ReplayedClock. Raises GpuemuError for any fault of the kernel.
    """

    launch: Callable[..., Trace]
    before: list[tuple[NDArray[np.uint8], NDArray[np.uint8]]]
    reads: NDArray[np.bool_]
    instructions: Mapping[int, int]

    def __call__(self, values: ClockValues, progress: Callable[[int, int], None] | None = None) -> Trace:
        for memory, contents in self.before:
            memory[:] = contents
        clock = ReplayedClock(values, self.reads, self.instructions)
        try:
            trace = self.launch(clock=clock, progress=progress)
        except GpuemuError as error:
            problems = [replace(one, found=f"{one.found}, with emulated clock values") for one in error.problems]
            raise GpuemuError(problems) from None
        return replace(trace, without_clock=tuple(sorted(clock.without)))


class Repeat:
    """Records the data of the first execution that a second one needs; nothing for code that does not read the clock.

    `wanted`: whether there may be a second execution. `instructions` receives the warp instructions of each CTA.
    """

    def __init__(self, code: Iterable[Instruction], buffers: Iterable[Buffer], wanted: bool):
        self._reads = clock_reads(code)
        self.instructions: dict[int, int] | None = None
        if wanted and self._reads.any():
            self.instructions = {}
            self._before = [(buffer.views[1], buffer.views[1].copy()) for buffer in buffers]

    def again(self, executor: CtaExecutor, launch: Callable[..., Trace]) -> SecondExecution | None:
        """Return the second execution of all that the executor has executed, or None if nothing read the clock."""
        if self.instructions is None or not any(map(executor.has_executed, np.flatnonzero(self._reads).tolist())):
            return None
        return SecondExecution(launch, self._before, self._reads, self.instructions)
