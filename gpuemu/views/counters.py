"""The profiler's counters and its shared-memory table, counted from the instructions executed.

Bank conflicts are the excess wavefronts of the access patterns: wavefronts minus the fewest that the
instruction's width needs. On hardware the counter l1tex__data_bank_conflicts... also takes in wavefronts that were
lost to arbitration; those are not in it here, nor in the table and the counters by instruction. They are in
l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum, as on hardware (`data_stage_wait_cycles` has the time that
requests waited for the data stage).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuemu.isa.opcodes import Row

if TYPE_CHECKING:
    from gpuemu.engine.sm import Execution


@dataclass
class RowCounts:
    """A line of the shared-memory table; `instructions` are warp instructions."""

    instructions: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    data_stage_wait_cycles: int = 0

    @property
    def bank_conflicts(self) -> int:
        """Excess wavefronts."""
        return self.wavefronts - self.ideal_wavefronts

    def add(self, other: RowCounts) -> None:
        """Add another line to this one."""
        self.instructions += other.instructions
        self.wavefronts += other.wavefronts
        self.ideal_wavefronts += other.ideal_wavefronts
        self.data_stage_wait_cycles += other.data_stage_wait_cycles


def shared_table(execution: Execution) -> dict[Row, RowCounts]:
    """The shared-memory table: every row, also those without instructions."""
    table = {row: RowCounts() for row in Row}
    for warp in execution.warps:
        requests = zip(warp.dispatch_log, warp.start_log, strict=True)
        accesses = iter(warp.program.accesses)
        for op in warp.path:
            if op.pipe != 0:
                continue
            dispatched, started = next(requests)
            if not op.carries_addresses:
                continue
            access = next(accesses)
            if op.row is not None:
                sent = execution.machine.sending_cycles(op.source_words, op.is_load)
                line = table[op.row]
                line.instructions += 1
                line.wavefronts += access.wavefronts
                line.ideal_wavefronts += access.ideal_wavefronts
                line.data_stage_wait_cycles += started - dispatched - sent
    return table


def profiler_counters(execution: Execution, table: dict[Row, RowCounts]) -> dict[str, int]:
    """Counter name → value, as Nsight Compute calls them."""
    load, matrix = table[Row.LOAD], table[Row.LOAD_MATRIX]
    store, store_matrix = table[Row.STORE], table[Row.STORE_MATRIX]
    atomic, copy = table[Row.ATOMIC], table[Row.COPY]
    executed = [0] * len(execution.program.ops)
    for warp in execution.warps:
        for op in warp.path:
            executed[op.index] += 1
    tensor = {"HMMA": 0, "IMMA": 0}
    for op, times in zip(execution.program.ops, executed, strict=True):
        if op.is_tensor:
            tensor[execution.program.code[op.index].opcode[:4]] += times
    wavefronts = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
    conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
    by_instruction = "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared"
    everything = (load, matrix, store, store_matrix, atomic, copy)
    return {
        "sm__cycles_active.max": execution.cycles,
        "smsp__inst_executed.sum": sum(executed),
        "sm__inst_executed_pipe_tensor_op_hmma.sum": tensor["HMMA"],
        "sm__inst_executed_pipe_tensor_op_imma.sum": tensor["IMMA"],
        f"{wavefronts}_op_ld.sum": load.wavefronts + matrix.wavefronts + execution.lost_wavefronts,
        f"{wavefronts}_op_st.sum": store.wavefronts + store_matrix.wavefronts,
        f"{wavefronts}_op_atom.sum": atomic.wavefronts,
        f"{conflicts}.sum": sum(row.bank_conflicts for row in everything),
        f"{conflicts}_op_ld.sum": load.bank_conflicts + matrix.bank_conflicts,
        f"{conflicts}_op_st.sum": store.bank_conflicts + store_matrix.bank_conflicts,
        f"{conflicts}_op_atom.sum": atomic.bank_conflicts,
        f"{conflicts}_op_ldgsts.sum": copy.bank_conflicts,
        "sm__sass_inst_executed_op_shared_ld.sum": load.instructions,
        "sm__sass_inst_executed_op_shared_st.sum": store.instructions + store_matrix.instructions,
        "sm__sass_inst_executed_op_ldsm.sum": matrix.instructions,
        f"{by_instruction}_op_ld.sum": load.wavefronts,
        f"{by_instruction}_op_ldsm.sum": matrix.wavefronts,
        f"{by_instruction}_op_st.sum": store.wavefronts + store_matrix.wavefronts,
        "sm__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum": matrix.bank_conflicts,
    }
