"""The clock of a second execution: each warp's reads return the cycles of a replay, in program order."""

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
class _Reads:
    """The reads of a CTA that was replayed. `times`: Recorder.times of the CTA.

    `table`: [warps, reads], with the last value repeated. `known`: [warps], the number of reads with values. `beyond`:
    [warps], the CTA's instructions just before the warp's first read without a value, or -1 until then.
    """

    times: Times
    table: NDArray[np.int64]
    known: NDArray[np.int64]
    beyond: NDArray[np.int64]


class ReplayedClock:
    """Gives each read of a warp the value of the same read in the replay.

    `reads`: bool [instructions], which of them read the clock. `instructions`: the number of warp instructions of each
    CTA in the first execution.

    A CTA that was not replayed reads 0. If it then executes more instructions than the first time, it waits for the
    clock. Therefore the clock advances by 1 with each further instruction, so that the wait ends. This also applies to
    a warp that reads the clock more often than in the replay.
    """

    def __init__(self, values: ClockValues, reads: NDArray[np.bool_], instructions: Mapping[int, int]):
        self.without: set[int] = set()
        """CTAs that have read the clock and have no values."""
        self._values = values
        self._reads = reads
        self._instructions = instructions
        self._most = max(instructions.values(), default=0)
        self._replayed = {cta for cta, _ in values.cycles}
        self._begun: dict[int, _Reads] = {}
        self._cta, self._warps = -1, 0
        self._executed: Callable[[], int] = int

    def attach(self, cta: int, warps: int, times: Times, executed: Callable[[], int]) -> None:
        """Start or resume a CTA. `times` is as in Recorder, and `executed` returns its warp instructions so far."""
        self._cta, self._warps, self._executed = cta, warps, executed
        if cta in self._begun or cta not in self._replayed:
            return
        mine = [self._values.cycles.get((cta, warp), np.zeros(0, np.int64)) for warp in range(warps)]
        known = np.array([len(values) for values in mine])
        table = np.zeros((warps, max(1, known.max())), np.int64)
        for row, values in zip(table, mine, strict=True):
            if len(values):
                row[: len(values)], row[len(values) :] = values, values[-1]
        self._begun[cta] = _Reads(times, table, known, np.full(warps, -1, np.int64))

    def now(self, nanoseconds: bool) -> Any:
        """Return the clock for the current read, uint64 [lanes]; inactive lanes have any value."""
        reads = self._begun.get(self._cta)
        cycles = self._standing() if reads is None else self._replayed_cycles(reads)
        lanes = np.repeat(cycles, WARP).astype(np.uint64)
        return self._values.nanoseconds(lanes) if nanoseconds else lanes

    def _standing(self) -> NDArray[np.int64]:
        self.without.add(self._cta)
        first = self._instructions.get(self._cta, self._most)
        return np.full(self._warps, max(0, self._executed() - first), np.int64)

    def _replayed_cycles(self, reads: _Reads) -> NDArray[np.int64]:
        number = np.maximum(0, reads.times(self._reads) - 1)
        values: NDArray[np.int64] = reads.table[np.arange(len(number)), np.minimum(number, reads.table.shape[1] - 1)]
        further = number >= reads.known
        if further.any():
            executed = self._executed()
            reads.beyond[further & (reads.beyond < 0)] = executed - 1
            values[further] += executed - reads.beyond[further]
        return values
