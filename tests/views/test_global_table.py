"""The table of global memory: requests, sectors, what L1 had, and what went beyond it."""

from __future__ import annotations

import pytest
from engine.probes import builder, emit, kernels, machine, machines, run
from hypothesis import HealthCheck, given, settings

import gpuemu
from gpuemu.views.global_memory import GlobalCounts, GlobalRow
from gpuemu.views.json_result import as_data
from gpuemu.views.metrics import metrics
from gpuemu.views.source import instructions
from gpuemu.views.text import report

SECTORS = "l1tex__t_sectors_pipe_lsu_mem_{}.sum"
REQUESTS = "l1tex__t_requests_pipe_lsu_mem_{}.sum"


def text(result: gpuemu.Result) -> str:
    return "\n".join(line for _, line in report(result, 100, everything=True))


@pytest.mark.parametrize(
    ("line", "lanes", "row", "name", "sectors", "ideal"),
    [("LDG.E R4, [R0.64]", "128*lane", GlobalRow.LOAD, "global_op_ld", 32, 4),
     ("STG.E.64 [R0.64], R4", "32*lane", GlobalRow.STORE, "global_op_st", 32, 8),
     ("RED.E.ADD [R0.64], R4", "64*lane", GlobalRow.REDUCTION, "global_op_red", 32, 4),
     ("ATOMG.E.ADD R4, [R0.64], R5", "64*lane", GlobalRow.ATOMIC, "global_op_atom", 32, 4),
     ("LDL R4, [R0]", "0", GlobalRow.LOCAL_LOAD, "local_op_ld", 4, 4),
     ("STL [R0], R4", "0", GlobalRow.LOCAL_STORE, "local_op_st", 4, 4),
     ("LDGSTS.E.BYPASS.128 [R2], [R4.64]", "16*lane", GlobalRow.COPY, "global_op_ld", 16, 16)],
)  # fmt: skip
def test_each_row_counts_its_requests_and_sectors(line, lanes, row, name, sectors, ideal):
    trace = builder(2)
    for _ in range(3):
        trace.emit(line, lanes=lanes)
    trace.emit("EXIT")
    result = gpuemu.run(trace.build(), machine())
    for other, counts in result.global_memory.items():
        assert counts == (GlobalCounts(6, 6 * sectors, 6 * ideal) if other is row else GlobalCounts()), other
    assert (result.counters[REQUESTS.format(name)], result.counters[SECTORS.format(name)]) == (6, 6 * sectors)
    assert result.global_memory[row].sectors_per_request == sectors
    assert metrics(as_data(result))[f"{row.value.lower().replace(' ', '_')}.excess_sectors"] == 6 * (sectors - ideal)
    assert f"{row.value} 6 {6 * sectors} {6 * ideal} {sectors:.1f}" in " ".join(text(result).split())


def test_what_l1_had_is_what_its_loads_asked_for_and_did_not_come_from_beyond():
    trace = builder()
    for load in ("LDG.E R4, [R0.64] | W0 S02", "NOP | B0 S02", "LDG.E R4, [R0.64] | W0 S02", "NOP | B0 S02"):
        emit(trace, load, "4*lane")
    emit(trace, "LDG.E.STRONG.GPU R4, [R0.64] | W0 S02", "4*lane")
    emit(trace, "STG.E [R0.64], R4 | S02", "4*lane")
    emit(trace, "EXIT | S05")
    result = gpuemu.run(trace.build(), machine())
    l1 = result.l1
    assert (l1.cached_sectors, l1.hit_sectors, l1.loaded_sectors, l1.stored_sectors) == (8, 4, 8, 4)
    rows = instructions(result.program, result.log)
    assert [row.hit_sectors for row in rows] == [0, 0, 4, 0, 0, 0, 0]
    assert rows[2].as_record()["L1 Hit Sectors"] == 4
    assert result.log.beyond.tolist() == [4, 0, 4, 0]
    assert result.counters["lts__t_sectors_srcunit_tex_op_read.sum"] == 8
    assert result.counters["lts__t_sectors_srcunit_tex_op_write.sum"] == 4
    shown = text(result)
    assert "L1 hit rate 50.0% (4 of 8 sectors). L2 and DRAM: 8 sectors read, 4 written." in shown


@pytest.mark.slow
@settings(
    max_examples=40, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(kernels(), machines())
def test_the_tables_of_random_kernels_add_up(trace, arch):
    result = gpuemu.run(trace, arch)
    rows, l1 = result.global_memory.values(), result.l1
    source = instructions(result.program, result.log)
    assert sum(row.sectors for row in rows) == sum(line.sectors for line in source)
    assert sum(row.ideal_sectors for row in rows) == sum(line.ideal_sectors for line in source)
    assert 0 <= l1.hit_sectors <= l1.cached_sectors
    assert sum(line.hit_sectors for line in source) == l1.hit_sectors
    assert result.log.beyond.sum() == l1.loaded_sectors
    at_l2 = ("read", "write", "atom", "red")
    moved = sum(result.counters[f"lts__t_sectors_srcunit_tex_op_{name}.sum"] for name in at_l2)
    assert moved == l1.loaded_sectors + l1.stored_sectors
    stores = (GlobalRow.STORE, GlobalRow.REDUCTION, GlobalRow.LOCAL_STORE)
    stored = sum(result.global_memory[row].sectors for row in stores)
    assert l1.stored_sectors <= stored
    assert l1.stored_sectors == stored or arch.global_memory.store_merge_lines > 0


def test_a_kernel_without_shared_memory_is_told_nothing_of_it_by_tables_and_bounds():
    """Strided loads keep the queue full: that is the load/store unit's, and its data stage is L1's."""
    trace = gpuemu.TraceBuilder("strided", arch="sm_89", block=(1024, 1, 1))
    for i in range(20):
        trace.emit(f"LDG.E R{4 + i}, [R0.64]", lanes="4096*warp + 128*lane")
    trace.emit("EXIT")
    result = gpuemu.run(trace.build(), "sm_89")
    assert result.stalls["mio_throttle"] > 0
    shown = text(result)
    assert "Shared memory  " not in shown
    assert "room in the load/store unit's queue" in shown
    resources = {bound.resource for bound in result.bounds}
    assert {"L1 data stage", "one warp's accesses to L1"} <= resources
    assert not [name for name in resources if "shared" in name]
    arch = gpuemu.load_arch("sm_89").with_overrides({"shared_memory.ports.topology": "separate"})
    apart = {bound.resource for bound in gpuemu.run(trace.build(), arch).bounds}
    assert "L1 read ports" in apart
    assert not [name for name in apart if "shared" in name]


def test_a_kernel_without_global_memory_has_no_table_of_it():
    shown = text(run(["LDS R4, [R0]", "EXIT"]))
    assert "Global memory" not in shown
    assert "Shared memory  " in shown


def test_shuffles_are_counted_apart_from_shared_loads_with_a_word():
    result = run(["SHFL.IDX PT, R5, R6, R7, 0x1f"] * 3 + ["EXIT"], warps=2)
    assert as_data(result)["shuffles"] == 6
    assert not any(row.instructions for row in result.shared_memory.values())
    assert "Not in the table of shared memory: 6 shuffles, which use the data stage but no bank." in text(result)
    assert as_data(run(["LDS R4, [R0]", "EXIT"]))["shuffles"] == 0


def test_results_that_an_earlier_version_saved_can_still_be_compared():
    data = as_data(run(["LDG.E R4, [R0.64]", "EXIT"]))
    assert metrics(data)["global_load.sectors"] == metrics(data)["sectors"] == 4
    for name in ("global_memory", "l1", "shuffles", "scheduler", "occupancy"):
        del data[name]
    assert "sectors" not in metrics(data)
    assert metrics(data)["cycles"] == data["cycles"]
