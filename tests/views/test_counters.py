"""The profiler's counters and its shared-memory table."""

from __future__ import annotations

import pytest
from engine.probes import builder, emit, machine, run

import gpuemu
from gpuemu.isa.opcodes import Row

WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"


def test_instructions_are_counted_as_executed():
    trace = builder(3, grid=(2, 1, 1))
    with trace.repeat(5):
        emit(trace, "FFMA R1, R0, R0, R0")
    with trace.only(warps=1):
        emit(trace, "NOP")
    emit(trace, "EXIT")
    result = gpuemu.run(trace.build(), machine())
    assert result.counters["smsp__inst_executed.sum"] == 2 * (3 * 6 + 1)
    assert sum(w.instructions for w in result.warps) == 2 * (3 * 6 + 1)


def test_tensor_instructions_are_counted_by_kind():
    lines = ["HMMA.16816.F32 R4, R0, R2, R4"] * 3 + ["HMMA.1688.F16 R8, R0, R2, R8"]
    lines += ["IMMA.16832.S8.S8 R12, R0, R2, R12"] * 2 + ["EXIT"]
    counters = run(lines, warps=2).counters
    assert counters["sm__inst_executed_pipe_tensor_op_hmma.sum"] == 8
    assert counters["sm__inst_executed_pipe_tensor_op_imma.sum"] == 4


def test_the_cycles_are_the_runs():
    result = run(["NOP | S7", "EXIT | S5"])
    assert result.counters["sm__cycles_active.max"] == result.cycles == 8


@pytest.mark.parametrize(
    ("line", "row", "kind", "wavefronts", "ideal"),
    [("LDS R4, [R0]", Row.LOAD, "ld", 32, 1), ("LDS.128 R4, [R0]", Row.LOAD, "ld", 32, 4),
     ("STS [R0], R4", Row.STORE, "st", 32, 1), ("STS.64 [R0], R4", Row.STORE, "st", 32, 2),
     ("LDSM.16.M88.4 R4, [R0]", Row.LOAD_MATRIX, "ld", 32, 4),
     ("STSM.16.M88.2 [R0], R4", Row.STORE_MATRIX, "st", 16, 2),
     ("ATOMS.ADD R4, [R0], R2", Row.ATOMIC, "atom", 32, 1)],
)  # fmt: skip
def test_each_row_of_the_table_counts_its_instructions(line, row, kind, wavefronts, ideal):
    result = run([line] * 2 + ["EXIT"], lanes="128*lane", warps=2)
    for other, counts in result.shared_memory.items():
        times = 4 if other is row else 0
        assert (counts.instructions, counts.wavefronts) == (times, times * wavefronts)
        assert (counts.ideal_wavefronts, counts.bank_conflicts) == (times * ideal, times * (wavefronts - ideal))
    for each in ("ld", "st", "atom"):
        assert result.counters[WAVEFRONTS.format(each)] == (4 * wavefronts if each == kind else 0)
        assert result.counters[CONFLICTS.format(each)] == (4 * (wavefronts - ideal) if each == kind else 0)
    assert result.counters["l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"] == 4 * (wavefronts - ideal)


def test_loads_take_in_matrix_loads_and_stores_matrix_stores():
    lines = ["LDS R4, [R0]", "LDSM.16.M88.4 R8, [R0]", "STS [R0], R4", "STSM.16.M88.4 [R0], R8", "EXIT"]
    counters = run(lines, lanes="16*lane").counters
    by_instruction = "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
    assert counters[WAVEFRONTS.format("ld")] == 4 + 4
    assert counters[WAVEFRONTS.format("st")] == 4 + 4
    assert [counters[by_instruction.format(k)] for k in ("ld", "ldsm", "st")] == [4, 4, 8]
    assert counters["sm__sass_inst_executed_op_shared_ld.sum"] == 1
    assert counters["sm__sass_inst_executed_op_ldsm.sum"] == 1
    assert counters["sm__sass_inst_executed_op_shared_st.sum"] == 2


def test_asynchronous_copies_have_a_row_of_their_own():
    result = run(["LDGSTS.E.BYPASS.128 [R2], [R4.64]", "EXIT"], lanes="16*lane")
    assert result.shared_memory[Row.COPY].instructions == 1
    assert result.counters[WAVEFRONTS.format("st")] == 0
    assert result.counters["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum"] == (
        result.shared_memory[Row.COPY].bank_conflicts
    )


def test_global_accesses_and_shuffles_are_in_no_row():
    result = run(["LDG.E R4, [R0.64]", "STG.E [R0.64], R4", "SHFL.IDX R5, R6, R7, 0x1f", "EXIT"])
    assert not any(row.instructions for row in result.shared_memory.values())


def test_time_lost_to_arbitration_is_reported_apart_from_conflicts():
    """Four sub-cores at once, conflict-free but for the port: no bank conflict, but requests that waited."""
    result = run(["LDS.128 R4, [R0]", "EXIT"], lanes="16*lane", warps=4)
    row = result.shared_memory[Row.LOAD]
    assert row.bank_conflicts == 0
    # Dispatched in cycles 7 to 10; two start at once, two when these are done after 8 cycles.
    assert row.data_stage_wait_cycles == (15 - 9) + (16 - 10)


@pytest.mark.parametrize("line", ["LDS R4, [R0]", "STS.128 [R0], R4", "ATOMS.ADD R4, [R0], R5"])
def test_the_time_to_send_registers_is_no_wait_for_the_data_stage(line):
    result = run([line, "EXIT"], lanes="16*lane")
    assert sum(row.data_stage_wait_cycles for row in result.shared_memory.values()) == 0


def test_clock_reads_are_the_cycles_of_issue_in_program_order():
    trace = builder(2)
    emit(trace, "CS2R R2, SR_CLOCKLO | S5")
    with trace.repeat(2):
        emit(trace, "NOP | S7")
        emit(trace, "S2R R4, SR_CLOCKLO | S2")
    emit(trace, "S2R R5, SR_TID.X | S2")
    emit(trace, "EXIT | S5")
    result = gpuemu.run(trace.build(), machine())
    assert [w.clock_reads for w in result.warps] == [(0, 12, 21), (0, 12, 21)]
