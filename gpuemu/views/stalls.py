"""The cycles of each warp by stall reason, under the profiler's names. They add up to the warp's lifetime.

The engine logs the waits before each issue. The issue itself is one cycle of its own (selected). `STALLS` has the words
for each reason. The terminal, the report, the schema of the results and docs/result.md share them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gpuemu.engine.log import Log
from gpuemu.program.program import Program
from gpuemu.program.stall_reasons import MIO_THROTTLE, NAMES, NOT_SELECTED

ISSUED = "selected"


class StallReason(NamedTuple):
    """The profiler's title of a stall reason, the cause of the wait, and the column on the profiler's source page."""

    title: str
    waits_for: str
    column: str

    @property
    def sentence(self) -> str:
        """The activity of a warp in such a cycle."""
        return f"waits for {self.waits_for}" if self.waits_for else "issues an instruction"


STALLS: Mapping[str, StallReason] = {
    ISSUED: StallReason("Selected", "", "stall_selected"),
    "wait": StallReason("Wait", "a result of a fixed latency", "stall_wait"),
    "short_scoreboard": StallReason(
        "Short Scoreboard", "shared memory, a shuffle or a special function", "stall_short_sb"
    ),
    "long_scoreboard": StallReason("Long Scoreboard", "global or local memory", "stall_long_sb"),
    "barrier": StallReason("Barrier", "other warps at a barrier", "stall_barrier"),
    "branch_resolving": StallReason("Branch Resolving", "the target of a branch", "stall_branch_resolve"),
    "no_instruction": StallReason("No Instruction", "an instruction to be fetched", "stall_no_inst"),
    "mio_throttle": StallReason("MIO Throttle", "room in the load/store unit's queue", "stall_mio"),
    "math_pipe_throttle": StallReason("Math Pipe Throttle", "a busy pipe", "stall_math"),
    "dispatch_stall": StallReason("Dispatch Stall", "a register-file port", "stall_dispatch"),
    "not_selected": StallReason("Not Selected", "its turn: another warp was selected", "stall_not_selected"),
    "imc_miss": StallReason("IMC Miss", "the first read of a constant", "stall_imc"),
    "gmma": StallReason("GMMA", "other warps of its warpgroup", "stall_gmma"),
    "sleeping": StallReason("Sleeping", "the end of its sleep", "stall_sleep"),
    "drain": StallReason("Drain", "its last stores", "stall_drain"),
}
"""The reasons of the package's own units."""


def stall_reason(name: str) -> StallReason:
    """The words for a reason, which a unit from outside the package may have brought."""
    spaced = name.replace("_", " ")
    return STALLS.get(name) or StallReason(spaced.title(), spaced, f"stall_{name}")


CONTENTION = NAMES[MIO_THROTTLE : NOT_SELECTED + 1]
"""The reasons that other warps cause: the warp itself was ready."""


def reasons() -> list[str]:
    """The stall reasons of the model, by their names in the profiler (smsp__average_warps_issue_stalled_<reason>)."""
    return [ISSUED, *NAMES]


def warp_stalls(program: Program, log: Log) -> list[dict[str, int]]:
    """The cycles by reason for each warp, in launch order. Every reason is there."""
    selected = np.diff(program.first_issue)
    waited = np.add.reduceat(log.waited, program.first_issue[:-1], axis=0, dtype=np.int64)
    return [
        dict(zip(reasons(), (issued, *by_reason), strict=True))
        for issued, by_reason in zip(selected.tolist(), waited.tolist(), strict=True)
    ]
