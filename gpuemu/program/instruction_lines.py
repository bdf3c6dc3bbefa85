"""Which instructions may wait for their code: the lines in which it is fetched.

Code comes in lines (`issue.instruction_line_bytes`). A warp that runs on has the next line in time; one that
branches gets its target's line first and the next some cycles later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpuemu.trace.listing import INSTRUCTION_BYTES

if TYPE_CHECKING:
    from gpuemu.program.lowering import Op
    from gpuemu.trace.model import Trace


def mark_lines(ops: Sequence[Op], trace: Trace, line_bytes: int) -> None:
    """For each instruction set its `slot` in its line and, if a warp came to it by a branch, `next_line`.

    That is the first instruction of the line behind its own.
    It, and all that wait for something, are what the scheduler has to look at before it lets them issue:
    `settles`.
    """
    for op in ops:
        op.settles = bool(op.waits)
        op.slot = trace.code[op.index].offset % line_bytes // INSTRUCTION_BYTES
    targets: set[int] = set()
    for warp in trace.warps:
        targets.update(warp.path[1:][np.diff(warp.path) != 1].tolist())
    for target in targets:
        end = (trace.code[target].offset // line_bytes + 1) * line_bytes
        beyond = next((i for i in range(target + 1, len(ops)) if trace.code[i].offset >= end), -1)
        ops[target].next_line = beyond
        if beyond >= 0:
            ops[beyond].settles = True
