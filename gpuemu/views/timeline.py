"""The life of each instruction that was issued: since when its warp waited for it, and what became of it.

A warp's cycles before an issue are known by reason and not one by one. They are laid behind each other in the order of
`stall_reasons.NAMES`: a stall count runs first, what holds up a warp that could go comes last. Only the drain, the last
reason of all, stands behind the issue.
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
"""Stands in a column of cycles for what an instruction does not do."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """Columns [issues], in the program's order.

    `warp`, `instruction`: numbers in the program. `since`: the first cycle behind the warp's issue before, or its
    start; `issue`; `waited` [issues, reasons] fills what lies between, but for DRAIN, which follows it. `sent`,
    `first_pass`, `last_pass`: of a request, when it left its queue, and when its first and last wavefront passed the
    data stage; those of another warp may pass between them. NONE for others. `done`: when its result was there; that of
    an instruction without one is its issue.
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
    """A flat record for each issue, or for those named: whose, what, since when, and the cycles of its stages.

    `Dispatch`, and the first and last cycle on the data stage, are NONE for instructions that do not go there.
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
    """Cycles of all warps by reason ("selected" among them) between each edge and the next, [edges - 1].

    `edges` are cycles in ascending order; from 0 to the end of the run they give every cycle of every warp.
    """
    waited = np.cumsum(log.waited[:, :DRAIN], axis=1, dtype=np.int64)
    ends = log.issue[:, None] - waited[:, -1:] + waited
    spans = {"selected": (log.issue, log.issue + 1)}
    spans |= {name: (ends[:, n] - log.waited[:, n], ends[:, n]) for n, name in enumerate(NAMES[:DRAIN])}
    spans["drain"] = (log.issue + 1, log.issue + 1 + log.waited[:, DRAIN])
    return {name: np.diff(_spent(starts, edges) - _spent(stops, edges)) for name, (starts, stops) in spans.items()}


def _spent(starts: Cycles, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many cycles had gone by at each edge since each start before it, summed."""
    ordered = np.sort(starts)
    before = np.searchsorted(ordered, edges)
    total = np.concatenate(([0], np.cumsum(ordered)))[before]
    spent: NDArray[np.int64] = before * edges - total
    return spent
