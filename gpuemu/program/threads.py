"""Thread instructions: how many threads executed each instruction of a trace, in all its executions together.

A trace says where fewer than all threads of the warps did (`Instruction.threads`). A guard that is off does not remove
a thread, as in the profiler's counter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuemu.trace.lines import of_whole_warps
from gpuemu.trace.model import Trace


def thread_instructions(trace: Trace) -> NDArray[np.int64]:
    """Thread instructions [code]."""
    whole = of_whole_warps(trace)
    told = [(k, i.threads) for k, i in enumerate(trace.code) if i.threads is not None]
    for k, threads in told:
        whole[k] = threads
    return whole
