"""The source page: its columns add up to the counters, and each number stands at the instruction that made it."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from engine.probes import builder, emit, kernels, machine, machines, run
from hypothesis import HealthCheck, given, settings

import gpuemu
from gpuemu.cli.main import cli
from gpuemu.trace.flow import live_registers
from gpuemu.trace.recorded import write_trace
from gpuemu.views import source_text
from gpuemu.views.source import COLUMNS, instructions, lines, stall_columns

GOLDEN = Path(__file__).parents[1] / "golden"
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@settings(
    max_examples=40, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(kernels(), machines())
def test_every_column_adds_up_to_its_counter(trace, arch):
    result = gpuemu.run(trace, arch)
    rows = instructions(result.program, result.log)
    table = result.shared_memory.values()
    assert sum(row.executed for row in rows) == result.counters["smsp__inst_executed.sum"]
    assert sum(row.thread_executed for row in rows) == result.counters["smsp__thread_inst_executed.sum"]
    assert sum(row.excess_wavefronts for row in rows) == sum(counts.bank_conflicts for counts in table)
    # Copies past L1 have wavefronts by instruction, and no conflicts for the hardware's counter.
    past = sum(row.excess_wavefronts for row in rows if "BYPASS" in row.text)
    conflicts = result.counters["l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"]
    assert sum(row.excess_wavefronts for row in rows) - past == conflicts
    assert {reason: sum(row.stalls[reason] for row in rows) for reason in stall_columns()} == result.stalls
    assert sum(row.cycles for row in rows) == sum(result.stalls.values())
    assert sum(row.wavefronts for row in rows) == sum(counts.wavefronts for counts in table)
    assert sum(row.ideal_wavefronts for row in rows) == sum(counts.ideal_wavefronts for counts in table)
    assert all(row.ideal_sectors <= row.sectors for row in rows)
    assert sum(row.sectors for row in rows) == int(result.program.accesses.sectors[result.program.access].sum())


def test_the_conflicts_of_v2_stand_at_its_matrix_loads_and_its_narrow_stores():
    result = gpuemu.run(gpuemu.load_trace("v2_shared_memory"), gpuemu.load_arch("sm_89"))
    excess = {row.text.split()[0]: 0 for row in instructions(result.program, result.log)}
    for row in instructions(result.program, result.log):
        excess[row.text.split()[0]] += row.excess_wavefronts
    assert {name: count for name, count in excess.items() if count} == {
        "LDSM.16.M88.4": 4, "LDSM.16.MT88.4": 4, "STS": 4,
    }  # fmt: skip
    assert sum(excess.values()) == sum(counts.bank_conflicts for counts in result.shared_memory.values())


def test_what_an_access_is_and_how_many_ways_it_conflicts():
    trace = builder(1)
    emit(trace, "LDS.64 R4, [R0] | S2", "16*lane")
    emit(trace, "STG.E [R0.64], R4 | S2", "32*lane")
    emit(trace, "FFMA R1, R0, R0, R0 | S2")
    emit(trace, "EXIT | S5")
    load, store, add, _ = instructions(*parts(gpuemu.run(trace.build(), machine())))
    assert (load.address_space, load.operation, load.size_bits) == ("Shared", "Load", 64)
    assert (load.wavefronts, load.ideal_wavefronts, load.conflicts_n_way) == (4, 2, 2.0)
    assert (store.address_space, store.operation, store.sectors, store.ideal_sectors) == ("Global", "Store", 32, 4)
    assert (add.address_space, add.wavefronts, add.sectors, add.conflicts_n_way) == ("", 0, 0, 0.0)


def parts(result: gpuemu.Result):
    return result.program, result.log


def test_a_stall_stands_at_the_instruction_that_waited():
    rows = instructions(*parts(run(["LDS R4, [R0] | W0 S2", "FFMA R5, R4, R4, R4 | B0 S1", "EXIT | S5"])))
    assert rows[0].stalls["short_scoreboard"] == 0
    assert rows[1].stalls["short_scoreboard"] == machine().shared_memory.latency_cycles - 2
    assert rows[1].cycles == machine().shared_memory.latency_cycles


def test_a_line_has_the_sum_of_its_instructions_and_a_call_that_of_what_it_inlined():
    result = run(["FFMA R1, R0, R0, R0 | S4", "FFMA R2, R1, R1, R1 | S4", "FFMA R3, R2, R2, R2 | S4", "EXIT | S5"])
    places = [(("k.cu", 3),), (("help.h", 9), ("k.cu", 4)), (("help.h", 9), ("k.cu", 4)), ()]
    code = tuple(replace(i, source=place) for i, place in zip(result.program.code, places, strict=True))
    program = replace(result.program, code=code)
    rows = instructions(program, result.log)
    found = {row.place: row for row in lines(rows, program, {})}
    assert list(found) == ["help.h:9", "k.cu:3", "k.cu:4"]
    assert found["help.h:9"].executed == found["k.cu:4"].executed == 2
    assert found["k.cu:4"].cycles == rows[1].cycles + rows[2].cycles
    assert found["k.cu:3"].stalls == rows[0].stalls


def test_one_s_own_lines_come_before_those_of_libraries_that_they_inlined():
    result = run(["FFMA R1, R0, R0, R0 | S4", "FFMA R2, R1, R1, R1 | S4", "EXIT | S5"])
    places = [(("fp16.hpp", 9), ("k.cu", 3)), (("fp16.hpp", 9), ("k.cu", 4)), (("k.cu", 5),)]
    code = tuple(replace(i, source=place) for i, place in zip(result.program.code, places, strict=True))
    calls = replace(result, program=replace(result.program, code=code))

    def order(texts: dict[str, list[str]]) -> list[str]:
        return [
            line.split()[0] for _, line in source_text.page(calls, True, texts) if line.startswith(("fp16", "k.cu"))
        ]

    assert order({})[0] == "fp16.hpp:9"
    assert order({"k.cu": [""] * 5})[-1] == "fp16.hpp:9"


def test_registers_are_live_from_what_writes_them_to_the_last_that_reads_them():
    trace = builder(1)
    for line in (
        "MOV R1, RZ", "MOV R2, RZ", "IADD3 R3, R1, R2, RZ", "@P0 BRA 0x10", "STS.64 [R3], R4", "EXIT",
    ):  # fmt: skip
        emit(trace, line)
    # Behind the addition only R3, and the pair that is stored; R1 is needed by the next time round.
    assert live_registers(trace.build().code) == [3, 4, 5, 4, 3, 0]


def page(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["run", "v2_shared_memory", "--arch", "sm_89", "--page", "source", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_page_reads_as_it_did(golden):
    golden("run_v2_source_page.txt", page())
    assert max(map(len, page().splitlines())) <= 100


def test_the_hottest_come_first_if_asked():
    _, _, table = page("--hottest").partition("Instruction, by cycles")
    cycles = [int(line.split("%")[0].split()[-2].replace(",", "")) for line in table.splitlines()[1:]]
    assert cycles == sorted(cycles, reverse=True)
    assert len(cycles) == 37


@pytest.mark.parametrize("columns", [60, 80, 100, 137, 200])
def test_what_says_least_goes_first_where_there_is_no_room(columns):
    lines = [line for _, line in source_text.page(gpuemu.run("v2_shared_memory", "sm_89"), False, {}, columns)]
    assert max(map(len, lines)) <= columns
    (head,) = (line for line in lines if "Instruction, in" in line)
    assert "Cycles" in head
    assert ("Control" in head) is (columns > 137)


def test_csv_and_json_have_every_column_under_the_profiler_s_name():
    rows = list(csv.DictReader(io.StringIO(page("--format", "csv"))))
    assert list(rows[0]) == ["Place", "Control", "Source", *COLUMNS.values(), *stall_columns().values()]
    data = json.loads(page("--format", "json"))
    assert [{name: str(value) for name, value in record.items()} for record in data] == rows
    assert sum(int(row["L1 Wavefronts Shared Excessive"]) for row in rows) == 12


@pytest.mark.slow
def test_machine_code_has_its_source_lines():
    arguments = ["--block", "32", *(["--arg", "zeros:f16:256"] * 3), "--by", "line", "--format", "csv"]
    source = str(ROOT / "traces" / "src" / "v2_shared_memory.cu")
    result = CliRunner().invoke(cli, ["run", source, "--arch", "sm_89", "--page", "source", *arguments])
    assert result.exit_code == 0, result.output
    excess = {
        row["Place"]: int(row["L1 Wavefronts Shared Excessive"]) for row in csv.DictReader(io.StringIO(result.stdout))
    }
    text = Path(source).read_text(encoding="utf-8").splitlines()
    conflicts = [text[int(place.split(":")[1]) - 1] for place, n in excess.items() if n and place.startswith("v2_")]
    assert len(conflicts) == 3
    assert sum("load_matrix_sync" in line for line in conflicts) == 2
    assert sum("store_matrix_sync" in line for line in conflicts) == 1


def test_csv_is_of_the_source_page_alone():
    result = CliRunner().invoke(cli, ["run", "v2_shared_memory", "--format", "csv"])
    assert isinstance(result.exception, gpuemu.GpuemuError)
    assert str(result.exception).startswith("--format: csv")


def test_a_shipped_trace_has_its_conflicts_on_its_lines() -> None:
    result = gpuemu.run("v2_shared_memory", "sm_89")
    rows = lines(instructions(result.program, result.log), result.program, {})
    source = (ROOT / "traces" / "src" / "v2_shared_memory.cu").read_text(encoding="utf-8").splitlines()
    found = sorted(
        (source[int(row.place.partition(":")[2]) - 1].strip().split("(")[0], row.excess_wavefronts)
        for row in rows
        if row.excess_wavefronts and row.place.startswith("v2_shared_memory.cu:")
    )
    loads, stores = "wmma::load_matrix_sync", "wmma::store_matrix_sync"
    assert found == [(loads, 4), (loads, 4), (stores, 4)]
    conflicts = result.counters["l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"]
    assert sum(excess for _, excess in found) == conflicts == 12


DIVERGED = """
extern "C" __global__ void part(int *out) {
    __shared__ int s[40];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x % 3 == 0) { __nanosleep(1); out[threadIdx.x] = s[39 - threadIdx.x]; }
}
"""


@pytest.mark.slow
def test_threads_that_went_another_way_are_not_counted(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(DIVERGED, encoding="utf-8")
    recorded = gpuemu.trace_kernel(tmp_path / "k.cu", block=(40, 1, 1), args=[np.zeros(40, np.int32)], arch="sm_89")
    write_trace(recorded, tmp_path / "t.yaml")
    for trace in (recorded, gpuemu.load_trace(tmp_path / "t.yaml")):
        result = gpuemu.run(trace, "sm_89")
        rows = instructions(result.program, result.log)
        threads = {i.opcode.split(".")[0]: row.thread_executed for i, row in zip(trace.code, rows, strict=True)}
        assert (threads["STS"], threads["NANOSLEEP"], threads["STG"]) == (40, 14, 14)
        assert sum(row.thread_executed for row in rows) == result.counters["smsp__thread_inst_executed.sum"]


@pytest.mark.slow
def test_source_and_threads_of_a_trace_come_back(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(DIVERGED, encoding="utf-8")
    recorded = gpuemu.trace_kernel(tmp_path / "k.cu", block=(40, 1, 1), args=[np.zeros(40, np.int32)], arch="sm_89")
    write_trace(recorded, tmp_path / "t.yaml")
    read = gpuemu.load_trace(tmp_path / "t.yaml")
    assert [(i.source, i.threads) for i in read.code] == [(i.source, i.threads) for i in recorded.code]
    assert any(i.source == (("k.cu", 5),) for i in read.code)
    assert str(tmp_path) not in (tmp_path / "t.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("field", "found"),
    [
        ("source: {0x0000: v2.cu}", "'v2.cu' at 0"),
        ("source: {0x0000: []}", "the list [] at 0"),
        ("source: {first: k.cu:1}", "an offset such as 0x0040 or a range"),
        ("threads: {0x0000: -1}", "threads"),
    ],
)
def test_lines_and_threads_that_are_none_are_refused(field: str, found: str, tmp_path: Path) -> None:
    text = "gpuemu_trace: 1\nkernel: k\narch: sm_89\ncode: |\n  EXIT\n"
    (tmp_path / "t.yaml").write_text(text + field + "\n", encoding="utf-8")
    with pytest.raises(gpuemu.GpuemuError) as refused:
        gpuemu.load_trace(tmp_path / "t.yaml")
    assert found in str(refused.value)
    assert "t.yaml:6" in str(refused.value)
