"""The source page: its columns add up to the counters, and each number stands at the instruction that made it."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner
from engine.probes import builder, emit, kernels, machine, machines, run
from hypothesis import HealthCheck, given, settings

import gpuemu
from gpuemu.cli.main import cli
from gpuemu.program.live_registers import live_registers
from gpuemu.views.source import COLUMNS, STALLS, instructions, lines

GOLDEN = Path(__file__).parents[1] / "golden"
ROOT = Path(__file__).resolve().parents[2]


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
    assert {reason: sum(row.stalls[reason] for row in rows) for reason in STALLS} == result.stalls
    assert sum(row.cycles for row in rows) == sum(result.stalls.values())
    assert sum(row.wavefronts for row in rows) == sum(counts.wavefronts for counts in table)
    assert sum(row.ideal_wavefronts for row in rows) == sum(counts.ideal_wavefronts for counts in table)
    assert all(row.ideal_sectors <= row.sectors for row in rows)


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
    found = {row.place: row for row in lines(rows, program)}
    assert list(found) == ["help.h:9", "k.cu:3", "k.cu:4"]
    assert found["help.h:9"].executed == found["k.cu:4"].executed == 2
    assert found["k.cu:4"].cycles == rows[1].cycles + rows[2].cycles
    assert found["k.cu:3"].stalls == rows[0].stalls


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


def test_the_page_reads_as_it_did():
    assert page() == (GOLDEN / "run_v2_source_page.txt").read_text(encoding="utf-8")
    assert max(map(len, page().splitlines())) <= 160


def test_the_hottest_come_first_if_asked():
    cycles = [int(line[74:83]) for line in page("--hottest").splitlines()[3:]]
    assert cycles == sorted(cycles, reverse=True)


def test_csv_and_json_have_every_column_under_the_profiler_s_name():
    rows = list(csv.DictReader(io.StringIO(page("--format", "csv"))))
    assert list(rows[0]) == ["Place", "Control", "Source", *COLUMNS.values(), *STALLS.values()]
    data = json.loads(page("--format", "json"))
    assert [{name: str(value) for name, value in record.items()} for record in data] == rows
    assert sum(int(row["L1 Wavefronts Shared Excessive"]) for row in rows) == 12


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
    assert str(result.exception) == "--format: found csv; the source page can be had so: --page source --format csv"
