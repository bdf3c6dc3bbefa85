"""Where each warp's cycles went, under the profiler's names; they add up to the warp's lifetime.

Between two issues of a warp come, in this order: the stall count (wait), the wait for what the next
instruction depends on (short or long scoreboard, barrier, branch resolving), and cycles in which it could have
gone but for others: its pipe was taken (math pipe throttle) or its queue full (MIO throttle), or the
scheduler issued another warp (not selected). The issue itself is a cycle, too (selected).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpuemu.stall_reasons import NAMES

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
    "mio_throttle",
    "math_pipe_throttle",
    "not_selected",
)
"""The profiler's stall reasons (smsp__average_warps_issue_stalled_<reason>) that the model has."""


@dataclass(frozen=True)
class _Closed:
    """The stretches of time in which a pipe accepts nothing: sorted, disjoint, [start, end)."""

    starts: Cycles
    ends: Cycles

    def before(self, times: Cycles) -> Cycles:
        """For each time, how many closed cycles lie before it."""
        total = np.concatenate([[0], np.cumsum(self.ends - self.starts)])
        index = np.searchsorted(self.starts, times)
        inside = np.where(index > 0, np.maximum(self.ends[index - 1] - times, 0), 0) if len(self.ends) else 0
        return np.asarray(total[index] - inside, dtype=np.int64)


def warp_stalls(execution: Execution) -> list[dict[str, int]]:
    """For each warp, in launch order, the cycles by reason (every reason, 0 where there were none)."""
    closed = _closed_stretches(execution)
    return [_one_warp(warp, closed) for warp in execution.warps]


def _one_warp(warp: Warp, closed: dict[tuple[int, int], _Closed]) -> dict[str, int]:
    issue = np.frombuffer(warp.issue_log, dtype=np.int64)
    stall = np.fromiter((op.stall_cycles for op in warp.path), dtype=np.int64, count=len(warp.path))
    pipe = np.fromiter((op.pipe for op in warp.path), dtype=np.int64, count=len(warp.path))
    result = dict.fromkeys(REASONS, 0)
    result["selected"] = len(issue)
    result["wait"] = int(np.sum(stall[:-1] - 1))
    stalled_until = np.concatenate([[warp.start_cycle], issue[:-1] + stall[:-1]])
    position, ready_at, reason = np.frombuffer(warp.wait_log, dtype=np.int64).reshape(-1, 3).T
    ready = stalled_until.copy()
    ready[position] = ready_at
    for code, name in enumerate(NAMES):
        of_reason = position[reason == code]
        result[name] += int(np.sum(ready[of_reason] - stalled_until[of_reason]))
    held = 0
    for number in np.unique(pipe).tolist():
        of_pipe = pipe == number
        stretches = closed.get((warp.sub_core.index, number))
        if stretches is None:
            continue
        cycles = int(np.sum(stretches.before(issue[of_pipe]) - stretches.before(ready[of_pipe])))
        result["mio_throttle" if number == 0 else "math_pipe_throttle"] += cycles
        held += cycles
    result["not_selected"] = int(np.sum(issue - ready)) - held
    return result


def _closed_stretches(execution: Execution) -> dict[tuple[int, int], _Closed]:
    """For each (sub-core, pipe) when it accepted nothing."""
    ops = execution.program.ops
    intervals = np.array([op.issue_interval_cycles for op in ops], dtype=np.int64)
    pipes = np.array([op.pipe for op in ops], dtype=np.int64)
    closed: dict[tuple[int, int], _Closed] = {}
    for sub_core in range(execution.machine.sub_cores):
        warps = [w for w in execution.warps if w.sub_core.index == sub_core]
        if not warps:
            continue
        issue = np.concatenate([np.frombuffer(w.issue_log, dtype=np.int64) for w in warps])
        index = np.concatenate(
            [np.fromiter((op.index for op in w.path), dtype=np.int64, count=len(w.path)) for w in warps]
        )
        order = np.argsort(issue)
        issue, index = issue[order], index[order]
        for number in range(1, len(execution.program.pipes)):
            used = pipes[index] == number
            lengths = intervals[index[used]]
            long = lengths > 1
            starts = issue[used][long] + 1
            closed[sub_core, number] = _Closed(starts, starts + lengths[long] - 1)
        requested = issue[pipes[index] == 0]
        dispatched = np.sort(np.concatenate([np.frombuffer(w.dispatch_log, dtype=np.int64) for w in warps]))
        closed[sub_core, 0] = _queue_full(requested, dispatched, execution.machine.queue_entries)
    return closed


def _queue_full(issued: Cycles, dispatched: Cycles, entries: int) -> _Closed:
    """The queue is full from the push that fills it to the dispatch that frees an entry."""
    starts = issued[entries - 1 :] + 1
    ends = dispatched[: len(starts)]
    full = ends > starts
    return _Closed(starts[full], ends[full])
