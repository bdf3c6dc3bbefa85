"""How much data a launch touches, and whether the L2 that its SMs share can hold it.

The CTAs that were timed tell which sectors they touch. What the others touch is not known: at the most each brings as
many new ones as the later half of those that were timed did, and the launch no more than its buffers have.
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
    """Bytes of global memory: what a launch touches `at_least` and `at_most`, and `l2`, None where nobody said."""

    at_least: int
    at_most: int
    l2: int | None

    @property
    def fits(self) -> bool:
        """Whether L2 holds all of it, as far as its size is known."""
        return self.l2 is None or self.at_most <= self.l2


def footprint(trace: Trace, program: Program, arch: Architecture) -> Footprint:
    """What the launch of a trace touches of the L2 of the architecture's chip."""
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
    """The numbers of the sectors that accesses touch, each once."""
    of = program.accesses
    begins, ends = (of.first_sector[of.first_line[accesses + k]] for k in (0, 1))
    counts = ends - begins
    if not counts.sum():
        return np.zeros(0, np.int64)
    # Where each one's run of sectors begins, less how many stand before it: one index into all of them.
    offsets = np.repeat(begins - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    return np.unique(of.sector[offsets + np.arange(int(counts.sum()))])
