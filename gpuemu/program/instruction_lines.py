"""Finds the instructions that may wait for their code, by the lines in which it is fetched.

Code comes in lines (`issue.instruction_line_bytes`). A warp that runs on has the next line in time. A warp that
branches gets its target's line first, and the next some cycles later.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuemu.trace.listing import INSTRUCTION_BYTES
from gpuemu.trace.model import Trace


def lines(trace: Trace, line_bytes: int) -> list[dict[str, Any]]:
    """For each instruction its line, its `slot` there and, if a warp reached it by a branch, `next_line`.

    `next_line` is the first instruction of the next line.
    """
    first = min((instruction.offset for instruction in trace.code), default=0) // line_bytes
    found: list[dict[str, Any]] = [
        {
            "slot": instruction.offset % line_bytes // INSTRUCTION_BYTES,
            "code_line": instruction.offset // line_bytes - first,
        }
        for instruction in trace.code
    ]
    targets: set[int] = set()
    for warp in trace.warps:
        targets.update(warp.path[1:][np.diff(warp.path) != 1].tolist())
    for target in targets:
        end = (trace.code[target].offset // line_bytes + 1) * line_bytes
        beyond = next((i for i in range(target + 1, len(found)) if trace.code[i].offset >= end), -1)
        found[target]["next_line"] = beyond
    return found
