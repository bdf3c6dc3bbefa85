"""The profiler's counters of asynchronous copies (LDGSTS), through L1 (cache_access) and past it (cache_bypass).

The hardware counts the names without sass. The profiler derives the names with sass from the addresses of each executed
instruction. The two differ (`gpuemu.banks.copies`). The hardware also counts copies among the loads of global memory.
Copies past L1 have wavefronts of shared memory only if lanes get zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuemu.engine.log import Log
from gpuemu.isa.opcodes import Row
from gpuemu.program.program import Program

_LSU = "pipe_lsu_mem_global_op_ldgsts"
_BY_INSTRUCTION = "sm__sass_l1tex"


@dataclass(frozen=True)
class CopyCounts:
    """Sums over all executions of one form of copy.

    `executed`: copies with a lane that is on; `requests`: copies that read global memory. `hits`: sectors that L1 had.
    `wavefronts` and `conflicts` are the hardware's counts.
    """

    executed: int
    requests: int
    wavefronts: int
    conflicts: int
    wavefronts_by_instruction: int
    conflicts_by_instruction: int
    sectors: int
    sectors_by_instruction: int
    beyond: int

    @property
    def hits(self) -> int:
        """Sectors that L1 had."""
        return self.sectors - self.beyond


def copy_counts(program: Program, log: Log) -> tuple[CopyCounts, CopyCounts]:
    """The copies through L1, and the copies past it."""
    accesses, index = program.accesses, program.path[program.request_issue]
    found = []
    for cached in (True, False):
        which = np.array([op.row is Row.COPY and op.is_cached == cached for op in program.ops], np.bool_)[index]
        which &= accesses.has_lanes[program.access] > 0
        mine = program.access[which].astype(np.int64)

        def total(column: NDArray[np.int64], of: NDArray[np.int64] = mine) -> int:
            return int(column[of].sum())

        found.append(
            CopyCounts(
                executed=len(mine),
                requests=int(np.count_nonzero(accesses.sectors[mine])),
                wavefronts=total(accesses.counted_wavefronts),
                conflicts=total(accesses.counted_conflicts),
                wavefronts_by_instruction=total(accesses.wavefronts),
                conflicts_by_instruction=total(accesses.conflicts),
                sectors=total(accesses.sectors),
                sectors_by_instruction=total(accesses.sectors_by_instruction),
                beyond=int(log.beyond[which].sum()),
            )
        )
    return found[0], found[1]


def copy_counters(cached: CopyCounts, bypassing: CopyCounts) -> dict[str, int]:
    """Counter name → value."""
    found = {
        f"l1tex__t_requests_{_LSU}_cache_access.sum": cached.executed,
        f"l1tex__t_sectors_{_LSU}_cache_access.sum": cached.sectors,
        f"l1tex__t_sectors_{_LSU}_cache_access_lookup_hit.sum": cached.hits,
        f"l1tex__t_sectors_{_LSU}_cache_access_lookup_miss.sum": cached.beyond,
        "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_ldgsts_cache_access.sum": cached.beyond,
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum": cached.conflicts + bypassing.conflicts,
    }
    forms = {"": (cached, bypassing), "_cache_access": (cached,), "_cache_bypass": (bypassing,)}
    for form, counts in forms.items():
        of = {
            f"{_BY_INSTRUCTION}_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts": "wavefronts_by_instruction",
            f"{_BY_INSTRUCTION}_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts": "conflicts_by_instruction",
            f"{_BY_INSTRUCTION}_t_requests_{_LSU}": "requests",
            f"{_BY_INSTRUCTION}_t_sectors_{_LSU}": "sectors_by_instruction",
            "sm__sass_inst_executed_op_ldgsts": "executed",
        }
        for name, field in of.items():
            found[f"{name}{form}.sum"] = sum(getattr(count, field) for count in counts)
    return found
