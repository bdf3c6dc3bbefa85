"""Where each warp's cycles went, under the profiler's names; they add up to the warp's lifetime.

Between two issues of a warp come, in this order: the stall count (wait), the wait for what the next
instruction depends on (short or long scoreboard, barrier, branch resolving, no instruction), and cycles in which
it could have gone but for others: its pipe was taken (math pipe throttle) or its queue full (MIO throttle), an
instruction issued before, its own or another's, still waited for a port of the register file (dispatch stall), or
the scheduler issued another warp (not selected). The issue itself is a cycle, too (selected).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpuemu.program.stall_reasons import NAMES

if TYPE_CHECKING:
    from gpuemu.engine.sm import Execution
    from gpuemu.engine.warp import Warp

Cycles = NDArray[np.int64]

REASONS = (
    "selected",
    "wait",
    "short_scoreboard",
    "long_scoreboard",
    "barrier",
    "branch_resolving",
    "no_instruction",
    "mio_throttle",
    "math_pipe_throttle",
    "dispatch_stall",
    "not_selected",
)
"""The profiler's stall reasons (smsp__average_warps_issue_stalled_<reason>) that the model has."""

CONTENTION = REASONS[REASONS.index("mio_throttle") :]
"""Those in which a warp could have gone, had nothing else been in the way."""


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

    def before(self, times: Cycles) -> Cycles:
        """For each time, how many closed cycles lie before it."""
        total = np.concatenate([[0], np.cumsum(self.ends - self.starts)])
        index = np.searchsorted(self.starts, times)
        inside = np.where(index > 0, np.maximum(self.ends[index - 1] - times, 0), 0) if len(self.ends) else 0
        return np.asarray(total[index] - inside, dtype=np.int64)


class _SubCore:
    """When a sub-core and its pipes accepted nothing; found for each pipe when asked first.

    `late`: when an instruction that had been issued held up the others, waiting for a port of the register file.
    """

    def __init__(self, execution: Execution, warps: list[Warp]):
        self._sub_core = warps[0].sub_core
        self._found: dict[int, _Closed] = {}
        ops = execution.program.ops
        issue = np.concatenate([np.frombuffer(w.issue_log, dtype=np.int64) for w in warps])
        index = np.concatenate(
            [np.fromiter((op.index for op in w.path), dtype=np.int64, count=len(w.path)) for w in warps]
        )
        order = np.argsort(issue)
        self._issue = issue[order]
        self._pipe = np.array([op.pipe for op in ops], dtype=np.int64)[index[order]]
        # An instruction closes its pipe for its interval from when the sub-core no longer stands for it.
        self._late_at, _, self._late = late_at, reads_at, late = _columns(self._sub_core.late_log, 3)
        interval = np.array([op.issue_interval_cycles for op in ops], dtype=np.int64)[index[order]]
        self._until = self._issue + interval
        self._until[np.searchsorted(self._issue, late_at)] += np.maximum(reads_at - late_at, late)
        self.late = _Closed.union((late_at + 1, reads_at + 1), _columns(self._sub_core.stop_log, 2))

    def lateness(self, issue: Cycles) -> Cycles:
        """For each instruction, by its issue, for how long the sub-core stood before its stall count had run out."""
        late = np.zeros(len(issue), dtype=np.int64)
        _, here, there = np.intersect1d(issue, self._late_at, assume_unique=True, return_indices=True)
        late[here] = self._late[there]
        held, cycles = _columns(self._sub_core.stood_log, 2)
        mine = np.isin(held, issue)
        np.add.at(late, np.searchsorted(issue, held[mine]), cycles[mine])
        return late

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


def warp_stalls(execution: Execution) -> list[dict[str, int]]:
    """For each warp, in launch order, the cycles by reason (every reason, 0 where there were none)."""
    warps_of: dict[int, list[Warp]] = {}
    for warp in execution.warps:
        warps_of.setdefault(warp.sub_core.index, []).append(warp)
    sub_cores = {index: _SubCore(execution, warps) for index, warps in warps_of.items()}
    return [_one_warp(warp, sub_cores[warp.sub_core.index]) for warp in execution.warps]


def _one_warp(warp: Warp, sub_core: _SubCore) -> dict[str, int]:
    issue = np.frombuffer(warp.issue_log, dtype=np.int64)
    stall = np.fromiter((op.stall_cycles for op in warp.path), dtype=np.int64, count=len(warp.path))
    pipe = np.fromiter((op.pipe for op in warp.path), dtype=np.int64, count=len(warp.path))
    result = dict.fromkeys(REASONS, 0)
    result["selected"] = len(issue)
    result["wait"] = int(np.sum(stall[:-1] - 1))
    # Stall counts stand while the sub-core does.
    late = sub_core.lateness(issue)
    result["dispatch_stall"] = int(np.sum(late[:-1]))
    stalled_until = np.concatenate([[warp.start_cycle], issue[:-1] + late[:-1] + stall[:-1]])
    position, ready_at, reason = np.frombuffer(warp.wait_log, dtype=np.int64).reshape(-1, 3).T
    ready = stalled_until.copy()
    ready[position] = ready_at
    for code, name in enumerate(NAMES):
        of_reason = position[reason == code]
        result[name] += int(np.sum(ready[of_reason] - stalled_until[of_reason]))
    held = 0
    for number in np.unique(pipe).tolist():
        of_pipe = pipe == number
        stalled, either = (
            int(np.sum(closed.before(issue[of_pipe]) - closed.before(ready[of_pipe])))
            for closed in (sub_core.late, sub_core.closed(number))
        )
        result["dispatch_stall"] += stalled
        result["mio_throttle" if number == 0 else "math_pipe_throttle"] += either - stalled
        held += either
    result["not_selected"] = int(np.sum(issue - ready)) - held
    return result


def _columns(log: array[int], count: int) -> Any:
    """A log of so many numbers an entry, as columns."""
    return tuple(np.frombuffer(log, dtype=np.int64).reshape(-1, count).T)
