"""For what each instruction waited, found when a run is over from what warps, sub-cores and pipes noted on the way.

Between two issues of a warp come, in this order: the stall count (wait), the wait for what the next instruction
depends on (short or long scoreboard, barrier, branch resolving, no instruction), and cycles in which it could have
gone but for others: its pipe was taken (math pipe throttle) or its queue full (MIO throttle), an instruction issued
before, its own or another's, still waited for a port of the register file (dispatch stall), or the scheduler issued
another warp (not selected). They are the cycles between the two issues.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.program.program import Program
from gpuemu.program.stall_reasons import (
    DISPATCH_STALL,
    MATH_PIPE_THROTTLE,
    MIO_THROTTLE,
    NAMES,
    NOT_SELECTED,
    WAIT,
)

if TYPE_CHECKING:
    from gpuemu.engine.scheduler import SubCore
    from gpuemu.engine.warp import Warp

Cycles = NDArray[np.int64]


def waits(program: Program, warps: Sequence[Warp], issue: Cycles) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Cycles waited by reason [issues, reasons], and how late operands were read [issues]; `issue` is the log's."""
    waited = np.zeros((len(issue), len(NAMES)), dtype=np.int32)
    operands_late = np.zeros(len(issue), dtype=np.int32)
    pipe, interval, stall = (program.of_ops(n) for n in ("pipe", "issue_interval_cycles", "stall_cycles"))
    of_sub_core: dict[int, list[Warp]] = {}
    for warp in warps:
        of_sub_core.setdefault(warp.sub_core.index, []).append(warp)
    for members in of_sub_core.values():
        places = [program.issues_of(warp.age) for warp in members]
        own = np.concatenate([np.arange(place.start, place.stop) for place in places])
        order = own[np.argsort(issue[own])]
        held = _Held(members[0].sub_core, issue[order], pipe[program.path[order]], interval[program.path[order]])
        for warp in members:
            place = program.issues_of(warp.age)
            path = program.path[place]
            late, operands_late[place] = held.lateness(issue[place])
            waited[place] = _of_warp(warp, held, issue[place], pipe[path], stall[path], late)
    return waited, operands_late


def _of_warp(warp: Warp, held: _Held, issue: Cycles, pipe: Cycles, stall: Cycles, late: Cycles) -> NDArray[np.int32]:
    waited = np.zeros((len(issue), len(NAMES)), dtype=np.int32)
    waited[1:, WAIT] = stall[:-1] - 1
    # Stall counts stand while the sub-core does.
    waited[1:, DISPATCH_STALL] = late[:-1]
    stalled_until = np.concatenate([[warp.start_cycle], issue[:-1] + late[:-1] + stall[:-1]])
    position, ready_at, reason = np.frombuffer(warp.wait_log, dtype=np.int64).reshape(-1, 3).T
    ready = stalled_until.copy()
    ready[position] = ready_at
    waited[position, reason] += (ready_at - stalled_until[position]).astype(np.int32)
    for number in np.unique(pipe).tolist():
        mine = np.flatnonzero(pipe == number)
        stalled, either = (
            closed.before(issue[mine]) - closed.before(ready[mine]) for closed in (held.late, held.closed(number))
        )
        waited[mine, DISPATCH_STALL] += stalled.astype(np.int32)
        waited[mine, MIO_THROTTLE if number == 0 else MATH_PIPE_THROTTLE] += (either - stalled).astype(np.int32)
        waited[mine, NOT_SELECTED] = issue[mine] - ready[mine] - either
    return waited


@dataclass(frozen=True)
class _Closed:
    """The stretches of time in which something accepts nothing: sorted, disjoint, [start, end)."""

    starts: Cycles
    ends: Cycles

    @classmethod
    def union(cls, *stretches: tuple[Cycles, Cycles]) -> _Closed:
        """What any of these stretches covers; they may come in any order, overlap, or be empty."""
        starts = np.concatenate([s for s, _ in stretches])
        ends = np.concatenate([e for _, e in stretches])
        keep = np.flatnonzero(ends > starts)
        keep = keep[np.argsort(starts[keep], kind="stable")]
        starts, ends = starts[keep], ends[keep]
        if not len(starts):
            return cls(starts, ends)
        reach = np.maximum.accumulate(ends)
        first = np.concatenate([[True], starts[1:] > reach[:-1]])
        return cls(starts[first], reach[np.append(np.flatnonzero(first)[1:] - 1, len(reach) - 1)])

    @cached_property
    def _total(self) -> Cycles:
        """The closed cycles before each stretch, and all of them."""
        return np.concatenate([[0], np.cumsum(self.ends - self.starts)])

    def before(self, times: Cycles) -> Cycles:
        """For each time, how many closed cycles lie before it."""
        index = np.searchsorted(self.starts, times)
        inside = np.where(index > 0, np.maximum(self.ends[index - 1] - times, 0), 0) if len(self.ends) else 0
        return np.asarray(self._total[index] - inside, dtype=np.int64)


class _Held:
    """When a sub-core and its pipes accepted nothing; found for each pipe when asked first.

    `late`: when an instruction that had been issued held up the others, waiting for a port of the register file.
    """

    def __init__(self, sub_core: SubCore, issue: Cycles, pipe: Cycles, interval: Cycles):
        """Of its issues in order of time: when, to which pipe, and for how long that takes no other."""
        self._sub_core = sub_core
        self._found: dict[int, _Closed] = {}
        self._issue, self._pipe = issue, pipe
        # An instruction closes its pipe for its interval from when the sub-core no longer stands for it.
        self._late_at, self._reads_at, self._late = late_at, reads_at, late = _columns(self._sub_core.late_log, 3)
        self._until = self._issue + interval
        self._until[np.searchsorted(self._issue, late_at)] += np.maximum(reads_at - late_at, late)
        self.late = _Closed.union((late_at + 1, reads_at + 1), _columns(self._sub_core.stop_log, 2))

    def lateness(self, issue: Cycles) -> tuple[Cycles, Cycles]:
        """For each instruction, by its issue, for how long the sub-core stood before its stall count had run out.

        And how late its operands were read.
        """
        late, reads = np.zeros((2, len(issue)), dtype=np.int64)
        _, here, there = np.intersect1d(issue, self._late_at, assume_unique=True, return_indices=True)
        late[here], reads[here] = self._late[there], self._reads_at[there] - self._late_at[there]
        held, cycles = _columns(self._sub_core.stood_log, 2)
        mine = np.isin(held, issue)
        np.add.at(late, np.searchsorted(issue, held[mine]), cycles[mine])
        return late, reads

    def closed(self, pipe: int) -> _Closed:
        """When this pipe accepted nothing, or the sub-core dispatched nothing."""
        if pipe not in self._found:
            used = self._pipe == pipe
            unit = self._sub_core.pipes[pipe]
            stretches = [_columns(unit.closed_log, 2)]
            if pipe and unit.has_intervals and not unit.is_shared:
                stretches.append((self._issue[used] + 1, self._until[used]))
            self._found[pipe] = _Closed.union(*stretches, (self.late.starts, self.late.ends))
        return self._found[pipe]


def _columns(log: array[int], count: int) -> Any:
    """A log of so many numbers an entry, as columns."""
    return tuple(np.frombuffer(log, dtype=np.int64).reshape(-1, count).T)
