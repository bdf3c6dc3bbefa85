"""The data that a launch touches, and whether the L2 that its SMs share can hold them.

The timed CTAs show which sectors they touch. For the other CTAs, gpuemu has only an upper limit: each adds as many new
sectors as the later half of the timed CTAs did on average, and all together at most the size of the buffers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuemu.arch import Architecture
from gpuemu.isa.opcodes import Kind
from gpuemu.program.program import Program
from gpuemu.trace.model import Trace

_KIB = 1024


@dataclass(frozen=True)
class Footprint:
    """Bytes of global memory that a launch touches, `at_least` and `at_most`, and of `l2`; None if that is unknown."""

    at_least: int
    at_most: int
    l2: int | None

    @property
    def fits(self) -> bool:
        """Whether L2 holds all of the data, or its size is unknown."""
        return self.l2 is None or self.at_most <= self.l2


def footprint(trace: Trace, program: Program, arch: Architecture) -> Footprint:
    """The footprint of a trace's launch in the L2 of the architecture's chip."""
    size = arch.global_memory.sector_bytes
    first = np.array([op.kind is Kind.GLOBAL and not op.is_local for op in program.ops])[program.path]
    wanted = first[program.request_issue]
    half = program.ctas // 2
    middle = int(program.first_request[program.first_warp[half]])
    before = _sectors(program, np.unique(program.access[:middle][wanted[:middle]]))
    both = np.union1d(before, _sectors(program, np.unique(program.access[middle:][wanted[middle:]])))
    touched, ctas = len(both) * size, program.ctas
    each = -(-(touched - len(before) * size) // (ctas - half))
    most = touched + each * max(0, trace.launch.ctas - ctas)
    if trace.buffer_bytes is not None:
        most = max(touched, min(most, trace.buffer_bytes))
    kibibytes = arch.chips[arch.chip].l2_kibibytes
    return Footprint(touched, most, None if kibibytes is None else kibibytes * _KIB)


def _sectors(program: Program, accesses: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers of the sectors that accesses touch, each of them once."""
    of = program.accesses
    begins, ends = (of.first_sector[of.first_line[accesses + k]] for k in (0, 1))
    counts = ends - begins
    if not counts.sum():
        return np.zeros(0, np.int64)
    # The begin of each run of sectors, minus the length of the runs before it: one index into all runs.
    offsets = np.repeat(begins - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    return np.unique(of.sector[offsets + np.arange(int(counts.sum()))])
