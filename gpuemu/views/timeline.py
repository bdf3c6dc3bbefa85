"""The life of each issued instruction: its warp's wait before it, its issue, and its stages after it.

The log has the cycles before an issue by reason, but not their order. The timeline puts them in the order of
`stall_reasons.NAMES`: the stall count first, and reasons that other warps cause last. Only the drain, the last reason,
comes after the issue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.engine.log import Cycles, Log
from gpuemu.program.program import Program
from gpuemu.program.stall_reasons import DRAIN, NAMES
from gpuemu.views.source import stall_columns

NONE = -1
"""The value in a column of cycles for a stage that an instruction does not have."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """Columns [issues], in the program's order.

    `warp`, `instruction`: numbers in the program. `since`: the cycle after the warp's previous issue, or its start.
    `issue`: the cycle of the issue. `waited` [issues, reasons]: the cycles between; DRAIN comes after the issue.
    `sent`, `first_pass`, `last_pass`: the cycles in which a request left its queue, and in which its first and its last
    wavefront passed the data stage; NONE for other instructions. Wavefronts of other warps may pass in between. `done`:
    the cycle of the result, or of the issue for an instruction without a result.
    """

    warp: Cycles
    instruction: Cycles
    since: Cycles
    issue: Cycles
    waited: NDArray[np.int32]
    sent: Cycles
    first_pass: Cycles
    last_pass: Cycles
    done: Cycles


def timeline(program: Program, log: Log, arch: Architecture) -> Timeline:
    """The timeline of a run."""
    issue = log.issue
    columns = {name: np.full(len(issue), NONE, dtype=np.int64) for name in ("sent", "first_pass", "last_pass")}
    columns["sent"][program.request_issue] = log.dispatch
    held = program.accesses.data_stage_cycles[program.access]
    passing = program.request_issue[held > 0]
    columns["first_pass"][passing] = log.start[held > 0]
    later = (held[held > 0] - 1) * arch.shared_memory.cycles_per_wavefront_per_warp
    columns["last_pass"][passing] = log.start[held > 0] + later
    latency = program.of_ops("latency_cycles")[program.path]
    done = issue + np.where(latency > 0, latency + log.operands_late, 0)
    done = np.maximum(done, log.result)
    done[program.request_issue] = log.done
    return Timeline(
        warp=np.repeat(np.arange(program.warps), np.diff(program.first_issue)),
        instruction=program.of_ops("index")[program.path],
        since=issue - log.waited[:, :DRAIN].sum(axis=1, dtype=np.int64),
        issue=issue,
        waited=log.waited,
        done=np.maximum(done, issue),
        **columns,
    )


def records(
    program: Program, log: Log, arch: Architecture, issues: NDArray[np.int64] | None = None
) -> list[dict[str, int | str]]:
    """A flat record for each issue, or for the given ones: its warp, its instruction, and the cycles of its stages.

    `Dispatch`, and the first and last cycle on the data stage, are NONE for instructions without these stages.
    """
    lines = timeline(program, log, arch)
    chosen = np.arange(len(lines.issue)) if issues is None else issues
    found: list[dict[str, int | str]] = []
    columns = stall_columns()
    for i in chosen.tolist():
        warp, instruction = int(lines.warp[i]), program.code[int(lines.instruction[i])]
        found.append(
            {
                "CTA": int(program.warp_cta[warp]),
                "Warp": int(program.warp_number[warp]),
                "Sub-core": int(log.warp_sub_core[warp]),
                "Place": f"{instruction.offset:04x}",
                "Source": str(instruction),
                "Waiting Since": int(lines.since[i]),
                "Issue": int(lines.issue[i]),
                "Dispatch": int(lines.sent[i]),
                "First Wavefront": int(lines.first_pass[i]),
                "Last Wavefront": int(lines.last_pass[i]),
                "Done": int(lines.done[i]),
                **{columns[name]: int(cycles) for name, cycles in zip(NAMES, lines.waited[i], strict=True)},
            }
        )
    return found


def over_time(program: Program, log: Log, edges: NDArray[np.int64]) -> Mapping[str, NDArray[np.int64]]:
    """The cycles of all warps by reason, also "selected", between each edge and the next, [edges - 1].

    `edges` are cycles in ascending order. From 0 to the end of the run they include every cycle of every warp.
    """
    waited = np.cumsum(log.waited[:, :DRAIN], axis=1, dtype=np.int64)
    ends = log.issue[:, None] - waited[:, -1:] + waited
    spans = {"selected": (log.issue, log.issue + 1)}
    spans |= {name: (ends[:, n] - log.waited[:, n], ends[:, n]) for n, name in enumerate(NAMES[:DRAIN])}
    spans["drain"] = (log.issue + 1, log.issue + 1 + log.waited[:, DRAIN])
    return {name: np.diff(_spent(starts, edges) - _spent(stops, edges)) for name, (starts, stops) in spans.items()}


def _spent(starts: Cycles, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sum, at each edge, of the cycles since each earlier start."""
    ordered = np.sort(starts)
    before = np.searchsorted(ordered, edges)
    total = np.concatenate(([0], np.cumsum(ordered)))[before]
    spent: NDArray[np.int64] = before * edges - total
    return spent
