"""The clock of a second execution: reads find the cycles of a replay, each warp its own in program order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.sass.machine.lanes import WARP
from gpuemu.trace.clocks import ClockValues

Times = Callable[[NDArray[np.bool_]], NDArray[np.int64]]


@dataclass
class _Cta:
    """`times`: Recorder.times of the CTA; None where the replay has no values for it. `instructions` tells how many it
    has executed.

    `table`: [warps, reads], the last value repeated. `known`: [warps], the reads that have values. `beyond`: [warps],
    the CTA's instructions at the warp's first read without one; -1 before.
    """

    times: Times | None
    instructions: Callable[[], int]
    limit: int
    table: NDArray[np.int64]
    known: NDArray[np.int64]
    beyond: NDArray[np.int64]


class ReplayedClock:
    """Gives each read of a warp the value of the same read in the replay.

    `reads`: bool [instructions], which of them read the clock. `instructions`: how many warp instructions each CTA took
    in the first execution.

    A CTA that was not replayed finds 0. If it then takes more instructions than the first time, it waits for the clock,
    which therefore advances by 1 with each further instruction, so that the wait ends. So does the clock of a warp that
    reads it more often than in the replay.
    """

    def __init__(self, values: ClockValues, reads: NDArray[np.bool_], instructions: Mapping[int, int]):
        self.without: set[int] = set()
        """CTAs that have read the clock and have no values."""
        self._values = values
        self._reads = reads
        self._instructions = instructions
        self._replayed = {cta for cta, _ in values.cycles}
        self._ctas: dict[int, _Cta] = {}
        self._number = -1

    def attach(self, number: int, times: Times, warps: int, instructions: Callable[[], int]) -> None:
        """This CTA executes from now on."""
        self._number = number
        if number in self._ctas:
            return
        mine = [self._values.cycles.get((number, warp), np.zeros(0, np.int64)) for warp in range(warps)]
        known = np.array([len(values) for values in mine])
        table = np.zeros((warps, max(1, known.max())), np.int64)
        for row, values in zip(table, mine, strict=True):
            if len(values):
                row[: len(values)], row[len(values) :] = values, values[-1]
        limit = self._instructions.get(number, max(self._instructions.values(), default=0))
        kept = times if number in self._replayed else None
        self._ctas[number] = _Cta(kept, instructions, limit, table, known, np.full(warps, -1, np.int64))

    def now(self, nanoseconds: bool) -> Any:
        """The clock of the read that executes, uint64 [lanes]; those that do not take part have any value."""
        cycles = np.repeat(self._cycles(self._ctas[self._number]), WARP).astype(np.uint64)
        return self._values.nanoseconds(cycles) if nanoseconds else cycles

    def _cycles(self, cta: _Cta) -> NDArray[np.int64]:
        if cta.times is None:
            self.without.add(self._number)
            return np.full(len(cta.known), max(0, cta.instructions() - cta.limit), np.int64)
        read = np.maximum(0, cta.times(self._reads) - 1)
        values: NDArray[np.int64] = cta.table[np.arange(len(read)), np.minimum(read, cta.table.shape[1] - 1)]
        further = read >= cta.known
        if further.any():
            done = cta.instructions()
            cta.beyond[further & (cta.beyond < 0)] = done - 1
            values[further] += done - cta.beyond[further]
        return values
