"""Which instructions may wait for their code: the lines in which it is fetched.

Code comes in lines (`issue.instruction_line_bytes`). A warp that runs on has the next line in time; one that
branches gets its target's line first and the next some cycles later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from gpuemu.program import Op
    from gpuemu.trace.model import Trace


def mark_lines(ops: Sequence[Op], trace: Trace, line_bytes: int) -> None:
    """For each instruction that a warp came to by a branch, set `next_line`: the first one of the line behind its own.

    That one, and all that wait for something, are what the scheduler has to look at before it lets them issue:
    `settles`.
    """
    for op in ops:
        op.settles = bool(op.waits)
    targets: set[int] = set()
    for warp in trace.warps:
        targets.update(warp.path[1:][np.diff(warp.path) != 1].tolist())
    for target in targets:
        end = (trace.code[target].offset // line_bytes + 1) * line_bytes
        beyond = next((i for i in range(target + 1, len(ops)) if trace.code[i].offset >= end), -1)
        ops[target].next_line = beyond
        if beyond >= 0:
            ops[beyond].settles = True
