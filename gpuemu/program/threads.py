"""Thread instructions: how many threads executed each instruction of a trace, all its executions together.

A trace tells where it was not every thread of the warps that did (`Instruction.threads`); a guard that is off does not
take a thread out, as the profiler's counter has it.
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
