"""Where each warp's cycles went, under the profiler's names; they add up to the warp's lifetime.

The engine logs for each issue what it waited for; the issue itself is a cycle, too (selected).
"""

from __future__ import annotations

import numpy as np

from gpuemu.engine.log import Log
from gpuemu.program.program import Program
from gpuemu.program.stall_reasons import MIO_THROTTLE, NAMES, NOT_SELECTED

CONTENTION = NAMES[MIO_THROTTLE : NOT_SELECTED + 1]
"""Those in which a warp could have gone, had nothing else been in the way."""


def reasons() -> list[str]:
    """The profiler's stall reasons (smsp__average_warps_issue_stalled_<reason>) that the model has."""
    return ["selected", *NAMES]


def warp_stalls(program: Program, log: Log) -> list[dict[str, int]]:
    """For each warp, in launch order, the cycles by reason (every reason, 0 where there were none)."""
    selected = np.diff(program.first_issue)
    waited = np.add.reduceat(log.waited, program.first_issue[:-1], axis=0, dtype=np.int64)
    return [
        dict(zip(reasons(), (issued, *by_reason), strict=True))
        for issued, by_reason in zip(selected.tolist(), waited.tolist(), strict=True)
    ]
