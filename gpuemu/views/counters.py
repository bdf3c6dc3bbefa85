"""The profiler's counters and its shared-memory table, counted from the instructions executed.

Bank conflicts are the wavefronts beyond the minimum that the instruction's width needs. On hardware, the counter
l1tex__data_bank_conflicts... also includes wavefronts lost to arbitration. gpuemu counts those only in
l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum, which has them on hardware, too. `data_stage_wait_cycles` is the
time that requests waited for the data stage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpuemu.arch import Architecture
from gpuemu.engine.log import Log
from gpuemu.isa.opcodes import Row
from gpuemu.program.program import Program
from gpuemu.views.copies import copy_counters, copy_counts
from gpuemu.views.global_memory import GlobalCounts, GlobalRow, L1Counts


@dataclass
class RowCounts:
    """A line of the shared-memory table. `instructions` are warp instructions with a lane that is on (H200).

    `unmerged_wavefronts`: additional wavefronts of loads by generic addresses, whose groups do not merge.
    """

    instructions: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    data_stage_wait_cycles: int = 0
    unmerged_wavefronts: int = 0

    @property
    def bank_conflicts(self) -> int:
        """The wavefronts beyond the ideal."""
        return self.wavefronts - self.ideal_wavefronts

    def add(self, other: RowCounts) -> None:
        """Add another line to this one."""
        self.instructions += other.instructions
        self.wavefronts += other.wavefronts
        self.ideal_wavefronts += other.ideal_wavefronts
        self.data_stage_wait_cycles += other.data_stage_wait_cycles
        self.unmerged_wavefronts += other.unmerged_wavefronts


def shared_table(program: Program, log: Log, arch: Architecture) -> dict[str, RowCounts]:
    """The shared-memory table: every row, also rows without instructions."""
    index = program.path[program.request_issue]
    # the cycles of a request that never waits
    words, loads = program.of_ops("source_words")[index], program.of_ops("is_load")[index]
    sent = arch.mio.cycles_per_source_register * (words - 1) + np.where(loads, 0, arch.mio.data_read_cycles)
    columns = (
        program.accesses.wavefronts[program.access],
        program.accesses.ideal_wavefronts[program.access],
        log.start - log.dispatch - sent,
        program.accesses.unmerged_wavefronts[program.access],
    )
    has_lanes = program.accesses.has_lanes[program.access] > 0
    rows = list(Row)
    counted_in = [op.row or op.shared_row for op in program.ops]
    row = np.array([-1 if row is None else rows.index(row) for row in counted_in])[index]
    return {
        name: RowCounts(
            int(np.count_nonzero(has_lanes & (row == i))), *(int(column[row == i].sum()) for column in columns)
        )
        for i, name in enumerate(rows)
    }


PRODUCT_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum"
_WARPS = 4
"""The warps of a warpgroup."""


def profiler_counters(program: Program, log: Log, table: Mapping[str, RowCounts]) -> dict[str, int]:
    """The counters by their names in Nsight Compute; `memory_counters` has those of global memory."""
    load, matrix = table[Row.LOAD], table[Row.LOAD_MATRIX]
    store, store_matrix = table[Row.STORE], table[Row.STORE_MATRIX]
    atomic, copies = table[Row.ATOMIC], copy_counts(program, log)
    executed = np.bincount(program.path, minlength=len(program.ops)).tolist()
    tensor: Counter[str] = Counter()
    for op, times in zip(program.ops, executed, strict=True):
        if op.is_tensor:
            tensor[program.code[op.index].mnemonic] += times
    wavefronts = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
    conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
    by_instruction = "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared"
    by_table = (load, matrix, store, store_matrix, atomic)
    return {
        "sm__cycles_active.max": log.cycles,
        "smsp__inst_executed.sum": len(program.path),
        "smsp__thread_inst_executed.sum": int(program.thread_instructions.sum()),
        "sm__inst_executed_pipe_tensor_op_hmma.sum": tensor["HMMA"],
        "sm__inst_executed_pipe_tensor_op_imma.sum": tensor["IMMA"],
        f"{wavefronts}_op_ld.sum": load.wavefronts + matrix.wavefronts + int(log.lost.sum()),
        f"{wavefronts}_op_st.sum": store.wavefronts + store_matrix.wavefronts,
        f"{wavefronts}_op_atom.sum": atomic.wavefronts,
        f"{conflicts}.sum": sum(row.bank_conflicts for row in by_table) + sum(copy.conflicts for copy in copies),
        f"{conflicts}_op_ld.sum": load.bank_conflicts + matrix.bank_conflicts,
        f"{conflicts}_op_st.sum": store.bank_conflicts + store_matrix.bank_conflicts,
        f"{conflicts}_op_atom.sum": atomic.bank_conflicts,
        "sm__sass_inst_executed_op_shared_ld.sum": load.instructions,
        "sm__sass_inst_executed_op_shared_st.sum": store.instructions + store_matrix.instructions,
        "sm__sass_inst_executed_op_ldsm.sum": matrix.instructions,
        f"{by_instruction}_op_ld.sum": load.wavefronts - load.unmerged_wavefronts,
        f"{by_instruction}_op_ldsm.sum": matrix.wavefronts,
        f"{by_instruction}_op_st.sum": store.wavefronts + store_matrix.wavefronts,
        "sm__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum": matrix.bank_conflicts,
        **copy_counters(*copies),
        **_products(program, executed),
    }


def _products(program: Program, executed: list[int]) -> dict[str, int]:
    """The counters of warpgroups' products, if there are any. No layout of operands has conflicts (H100)."""
    of_warps = [(op.product_wavefronts, times) for op, times in zip(program.ops, executed, strict=True)]
    count = sum(times for each, times in of_warps if each)
    if not count:
        return {}
    return {
        "sm__inst_executed_pipe_tensor_op_gmma.sum": count,
        PRODUCT_WAVEFRONTS: sum(each * n for each, n in of_warps) // _WARPS,
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_gmma.sum": 0,
    }


def memory_counters(
    table: Mapping[str, GlobalCounts], l1: L1Counts, missed: Mapping[str, int], from_dram: int, of_data: int,
    reduced_in_bulk: int,
) -> dict[str, int]:  # fmt: skip
    """The counters of global and local memory at L1, at L2 and at DRAM. L2 counts only the requests of this SM.

    `missed`: sectors that L1 did not have. `from_dram`: sectors read from DRAM, of which `of_data` are data.
    `reduced_in_bulk`: sectors that bulk copies added to.
    """
    names = {
        GlobalRow.LOAD: "global_op_ld",
        GlobalRow.STORE: "global_op_st",
        GlobalRow.REDUCTION: "global_op_red",
        GlobalRow.ATOMIC: "global_op_atom",
        GlobalRow.LOCAL_LOAD: "local_op_ld",
        GlobalRow.LOCAL_STORE: "local_op_st",
    }
    found = {}
    for row, name in names.items():
        found[f"l1tex__t_requests_pipe_lsu_mem_{name}.sum"] = table[row].requests
        found[f"l1tex__t_sectors_pipe_lsu_mem_{name}.sum"] = table[row].sectors
        if row in (GlobalRow.LOAD, GlobalRow.LOCAL_LOAD):
            found[f"l1tex__t_sectors_pipe_lsu_mem_{name}_lookup_hit.sum"] = table[row].sectors - missed[row]
            found[f"l1tex__t_sectors_pipe_lsu_mem_{name}_lookup_miss.sum"] = missed[row]
    # The hardware counts asynchronous copies among the loads, also copies past L1.
    copies, loads = table[GlobalRow.COPY], "pipe_lsu_mem_global_op_ld"
    found[f"l1tex__t_requests_{loads}.sum"] += copies.requests
    found[f"l1tex__t_sectors_{loads}.sum"] += copies.sectors
    found[f"l1tex__t_sectors_{loads}_lookup_hit.sum"] += copies.sectors - missed[GlobalRow.COPY]
    found[f"l1tex__t_sectors_{loads}_lookup_miss.sum"] += missed[GlobalRow.COPY]
    reduced = table[GlobalRow.REDUCTION].sectors + reduced_in_bulk
    return found | {
        "l1tex__m_xbar2l1tex_read_sectors.sum": l1.loaded_sectors,
        "dram__sectors_read.sum": from_dram,
        "lts__t_sectors_srcunit_tex_lookup_hit.sum": l1.loaded_sectors + l1.stored_sectors - of_data,
        "lts__t_sectors_srcunit_tex_lookup_miss.sum": of_data,
        "lts__t_sectors_srcunit_tex_op_read.sum": l1.loaded_sectors - table[GlobalRow.ATOMIC].sectors,
        "lts__t_sectors_srcunit_tex_op_write.sum": l1.stored_sectors - reduced,
        "lts__t_sectors_srcunit_tex_op_atom.sum": table[GlobalRow.ATOMIC].sectors,
        "lts__t_sectors_srcunit_tex_op_red.sum": reduced,
    }
