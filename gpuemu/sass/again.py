"""A second execution of a kernel that reads the clock, with the clock values that a replay has found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpuemu.base.errors import GpuemuError
from gpuemu.sass.machine.clock import ReplayedClock
from gpuemu.sass.machine.cta import CtaExecutor
from gpuemu.sass.machine.memory import Buffer
from gpuemu.trace.clocks import ClockValues
from gpuemu.trace.model import Instruction, Trace


def clock_reads(code: Iterable[Instruction]) -> NDArray[np.bool_]:
    """Which instructions read the clock or %globaltimer."""
    return np.array([instruction.reads_time for instruction in code], np.bool_)


@dataclass(frozen=True)
class SecondExecution:
    """Executes a launch again: a trace's `again`.

    `launch` is `trace_kernel` with the arguments of the first execution. `before`: the bytes of each buffer, and what
    they held then. It puts these contents back, so that the arrays hold the results of the second execution afterwards.
    `reads` and `instructions`: see ReplayedClock. Raises GpuemuError for whatever the kernel must not do.
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
    """Takes down what a second execution needs of the first one; nothing for code that does not read the clock.

    `wanted`: whether there may be a second execution. `instructions` gets the warp instructions of each CTA.
    """

    def __init__(self, code: Iterable[Instruction], buffers: Iterable[Buffer], wanted: bool):
        self._reads = clock_reads(code)
        self.instructions: dict[int, int] | None = None
        if wanted and self._reads.any():
            self.instructions = {}
            self._before = [(buffer.views[1], buffer.views[1].copy()) for buffer in buffers]

    def again(self, executor: CtaExecutor, launch: Callable[..., Trace]) -> SecondExecution | None:
        """The second execution of what the executor has executed; None if nothing has read the clock."""
        if self.instructions is None or not any(map(executor.has_executed, np.flatnonzero(self._reads).tolist())):
            return None
        return SecondExecution(launch, self._before, self._reads, self.instructions)
