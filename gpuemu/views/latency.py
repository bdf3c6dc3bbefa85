"""The cycles of one warp alone: its stalls without the parts that other warps or its other accesses cause.

The quickest access with the same opcode, the same side of L1 and as many wavefronts gives the latency. The additional
cycles of a slower access are a queue. The wait at a barrier is a wait for other warps, except for the barrier's own
latency.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.engine.log import Log
from gpuemu.isa.opcodes import Kind
from gpuemu.program.program import Column, Program
from gpuemu.program.stall_reasons import BARRIER, DRAIN, LONG_SCOREBOARD, NAMES, SHORT_SCOREBOARD
from gpuemu.views.stalls import CONTENTION


def alone(program: Program, log: Log, arch: Architecture) -> tuple[int, Mapping[str, int]]:
    """The cycles of the slowest warp of each CTA, added up over the CTAs that follow each other in a slot, and the
    cycles of these that it waits, by stall reason."""
    waited = log.waited.astype(np.int64)
    waited[:, [number for number, name in enumerate(NAMES) if name in CONTENTION]] = 0
    queued = _queued(program, log)
    for reason in (SHORT_SCOREBOARD, LONG_SCOREBOARD, DRAIN):
        waited[:, reason] -= np.minimum(waited[:, reason], queued)
    once = arch.barrier.latency_cycles + arch.barrier.arrival_interval_cycles + arch.barrier.drain_cycles
    waited[:, BARRIER] = np.minimum(waited[:, BARRIER], once)
    of_warp = np.add.reduceat(waited, program.first_issue[:-1], axis=0)
    whole = of_warp.sum(axis=1) + np.diff(program.first_issue)
    slowest = np.array([
        first + int(np.argmax(whole[first:end]))
        for first, end in zip(program.first_warp[:-1].tolist(), program.first_warp[1:].tolist(), strict=True)
    ])  # fmt: skip
    of_place = np.bincount(log.cta_slot, whole[slowest])
    place = int(np.argmax(of_place))
    by_reason = of_warp[slowest[log.cta_slot == place]].sum(axis=0)
    return int(of_place[place]), {name: int(n) for name, n in zip(NAMES, by_reason.tolist(), strict=True) if n}


def _queued(program: Program, log: Log) -> Column:
    """For each issue, the cycles that its warp's last completed access was in queues; [issues]."""
    found = np.zeros(len(program.path), dtype=np.int64)
    if not len(program.access):
        return found
    took = log.done - log.issue[program.request_issue]
    numbers = {name: number for number, name in enumerate(sorted({one.opcode for one in program.code}))}
    alike = np.array([numbers[program.code[op.index].opcode] for op in program.ops])
    alike = np.stack([
        alike[program.path[program.request_issue]], log.beyond > 0, program.accesses.data_stage_cycles[program.access],
    ])  # fmt: skip
    _, kind = np.unique(alike, axis=1, return_inverse=True)
    kind = kind.reshape(-1)
    least = np.full(int(kind.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, kind, took)
    late = took - least[kind]
    for commit in np.flatnonzero(_of_kind(program, Kind.COPY_COMMIT)).tolist():  # done with the copy before it
        late[commit] = late[commit - 1] if commit else 0
    for warp in range(program.warps):
        of_issues, of_requests = program.issues_of(warp), program.requests_of(warp)
        done = log.done[of_requests]
        if not len(done):
            continue
        order = np.argsort(done, kind="stable")
        last = np.searchsorted(done[order], log.issue[of_issues], side="right") - 1
        delays: NDArray[np.int64] = late[of_requests][order]
        found[of_issues] = np.where(last >= 0, delays[np.maximum(last, 0)], 0)
        found[of_issues.stop - 1] = delays[-1]  # the drain comes after the last issue
    return found


def _of_kind(program: Program, kind: Kind) -> NDArray[np.bool_]:
    """The requests of a kind, as booleans."""
    return np.array([op.kind is kind for op in program.ops])[program.path[program.request_issue]]
