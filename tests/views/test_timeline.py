"""The timeline: every cycle of every warp once, drawn where it was, and the same in Perfetto's form."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from engine.probes import completions, dispatches, issues, kernels, machine, machines, run, starts
from hypothesis import HealthCheck, given, settings

import gpuemu
from gpuemu.cli.main import cli
from gpuemu.program.stall_reasons import DRAIN
from gpuemu.views import timeline_text
from gpuemu.views.perfetto import as_perfetto
from gpuemu.views.timeline import NONE, over_time, records, timeline
from gpuemu.views.timeline_text import Window


def parts(result: gpuemu.Result):
    return result.program, result.log, result.arch


def drawn(result: gpuemu.Result, columns: int = 200, **window) -> list[str]:
    """The rows of the chart, without their labels."""
    text = [line for _, line in timeline_text.page(result, Window(**window), columns)]
    return [line[33:] for line in text if line[:4].isalnum() and line[4:5] == " " and "warp" not in line[:5]]


@pytest.mark.slow
@settings(
    max_examples=25, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(kernels(), machines())
def test_issues_and_waits_fill_each_warp_s_life_without_gap_or_overlap(trace, arch):
    result = gpuemu.run(trace, arch)
    lines = timeline(*parts(result))
    for number, warp in enumerate(result.warps):
        of_warp = result.program.issues_of(number)
        since, issue = lines.since[of_warp].tolist(), lines.issue[of_warp].tolist()
        assert since == [warp.start_cycle, *(cycle + 1 for cycle in issue[:-1])]
        assert issue[-1] + 1 + int(lines.waited[of_warp][-1, DRAIN]) == warp.end_cycle
    edges = np.array([0, result.cycles // 3, result.cycles // 2, result.cycles])
    cycles = over_time(result.program, result.log, edges)
    assert {reason: int(column.sum()) for reason, column in cycles.items()} == dict(result.stalls)
    living = [
        sum(max(0, min(w.end_cycle, stop) - max(w.start_cycle, start)) for w in result.warps)
        for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]
    assert sum(cycles.values()).tolist() == living


def test_a_row_shows_what_a_warp_waits_for_and_what_becomes_of_the_instruction():
    result = run(["LDS R4, [R0] | W0 S2", "FFMA R5, R4, R4, R4 | B0 S4", "EXIT | S5"], lanes="128*lane")
    load, add, _ = drawn(result)
    (issued, waited_until, _), (sent,), (passed,), (done,) = (
        issues(result),
        dispatches(result),
        starts(result),
        completions(result),
    )
    assert load[: issued + 1] == "w" * issued + "I"
    assert load[issued + 1 : sent] == "." * (sent - issued - 1)
    last = passed + 31 * machine().shared_memory.cycles_per_wavefront_per_warp
    assert load[passed:] == "D" * (last + 1 - passed) + "-" * (done - last - 1) + "R"
    assert add == " " * (issued + 1) + "w" + "s" * (waited_until - issued - 2) + "I---R"


def test_a_window_begins_where_it_is_told_and_a_longer_one_is_drawn_smaller():
    result = gpuemu.run("v2_shared_memory", "sm_89")
    whole = drawn(result, columns=80)
    assert len(whole) == 37
    assert all(row.count("I") == 1 and len(row) <= 47 for row in whole)
    start = issues(result)[22] - 5
    part = drawn(result, columns=80, start=start, cycles=47)
    assert [row.strip()[:1] for row in part] == ["-", "D", "b", "w", "w"]
    assert part[2].startswith("bbbbbI")


def test_the_drain_is_drawn_behind_the_last_instruction():
    result = run(["STG.E [R2.64], R4 | S2", "EXIT | S1"])
    left = result.warps[0].stalls["drain"]
    last = issues(result)[-1]
    assert left > 10
    assert drawn(result)[-1] == " wI" + "e" * left
    assert drawn(result, start=last + left, cycles=4) == ["-R", "e"]
    assert drawn(result, start=last + left) == ["-", "e"]
    assert drawn(result, start=last + left + 1, cycles=4) == ["R"]


@pytest.mark.slow
def test_the_page_is_as_wide_as_told_and_reads_as_its_module_says():
    shown = page("--from", "519", "--cycles", "47")
    sample = timeline_text.__doc__.partition("among others,\n\n")[2].partition("\n\nHow to read it")[0]
    for line in sample.splitlines():
        assert line.removeprefix("    ") in shown
    for columns in (80, 120):
        text = timeline_text.page(gpuemu.run("gemm_tile_plain", "sm_89"), Window(("0:3", "5")), columns)
        assert max(len(line) for _, line in text) <= columns


@pytest.mark.slow
def test_a_window_of_many_rows_says_how_many_it_leaves_out():
    result = gpuemu.run("gemm_tile_plain", "sm_89")
    text = [line for _, line in timeline_text.page(result, Window(start=0, cycles=result.cycles))]
    executed = result.warps[0].instructions
    assert executed < timeline_text.MOST_ROWS or f"and {executed - timeline_text.MOST_ROWS} more" in "\n".join(text)
    long = run(["FFMA R1, R0, R0, R0 | S1"] * (timeline_text.MOST_ROWS + 5) + ["EXIT | S5"])
    shown = [line for _, line in timeline_text.page(long, Window(start=0, cycles=2000))]
    assert any(line.startswith("and 6 more; a shorter window has fewer") for line in shown)


def page(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["run", "v2_shared_memory", "--arch", "sm_89", "--page", "timeline", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_page_reads_as_it_did(golden):
    golden("run_v2_timeline.txt", page())


def test_csv_and_json_have_every_issue_with_its_stages():
    data = json.loads(page("--format", "json"))
    result = gpuemu.run("v2_shared_memory", "sm_89")
    assert data == records(*parts(result)) == result_rows(page("--format", "csv"), data[0])
    assert [row["Issue"] for row in data] == issues(result)
    assert [row["Dispatch"] for row in data if row["Dispatch"] != NONE] == dispatches(result)
    assert sum(row["stall_long_sb"] for row in data) == result.stalls["long_scoreboard"]
    some = json.loads(page("--format", "json", "--from", "519", "--cycles", "47"))
    assert [row["Place"] for row in some] == ["0120", "0130", "0160", "0170", "0180"]


def result_rows(text: str, like: dict[str, object]) -> list[dict[str, object]]:
    return [{name: type(like[name])(value) for name, value in row.items()} for row in csv.DictReader(io.StringIO(text))]


@pytest.mark.parametrize("warp", ["1", "0:1", "first", "-1"])
def test_a_warp_that_is_not_there_is_refused_with_those_that_are(warp):
    result = CliRunner().invoke(cli, ["run", "v2_shared_memory", "--page", "timeline", f"--warp={warp}"])
    assert isinstance(result.exception, gpuemu.GpuemuError)
    assert str(result.exception).startswith(f"--warp: found '{warp}'")


def test_warps_are_named_by_their_cta():
    result = run(["FFMA R1, R0, R0, R0 | S2", "EXIT | S5"], warps=2, grid=(2, 1, 1))
    text = "\n".join(line for _, line in timeline_text.page(result, Window(("1", "1:0"))))
    assert "warp 1 of CTA 0" in text
    assert "warp 0 of CTA 1" in text
    assert "warp 0 of CTA 0" not in text
    assert len(timeline_text.as_records(result, Window(("all",)))) == 8


def test_a_page_has_the_forms_it_comes_in():
    result = CliRunner().invoke(cli, ["run", "v2_shared_memory", "--page", "source", "--format", "perfetto"])
    assert isinstance(result.exception, gpuemu.GpuemuError)
    assert str(result.exception).startswith("--format: found perfetto")


# --- Perfetto -------------------------------------------------------------------------------------------


def events(result: gpuemu.Result) -> list[dict]:
    return json.loads(as_perfetto(result))["traceEvents"]


@pytest.mark.slow
@settings(
    max_examples=15, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(kernels(), machines())
def test_no_slice_of_a_track_covers_another_and_warps_have_all_their_cycles(trace, arch):
    result = gpuemu.run(trace, arch)
    tracks = defaultdict(list)
    for event in events(result):
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append(event)
    for slices in tracks.values():
        slices.sort(key=lambda event: event["ts"])
        assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in pairwise(slices))
    of_warps = [event for (process, _), slices in tracks.items() if process for event in slices]
    assert sum(event["dur"] for event in of_warps) == sum(result.stalls.values())
    waited = Counter()
    for event in of_warps:
        waited[event["name"] if "args" not in event else "selected"] += event["dur"]
    assert waited == Counter({reason: cycles for reason, cycles in result.stalls.items() if cycles})


def test_an_instruction_s_text_is_there_once_an_issue(tmp_path):
    result = gpuemu.run("v2_shared_memory", "sm_89")
    texts = [event for event in events(result) if "SASS" in event.get("args", {})]
    assert len(texts) == result.counters["smsp__inst_executed.sum"]
    assert {event["args"]["line"].partition(":")[0] for event in texts} == {"v2_shared_memory.cu"}
    file = tmp_path / "v2.json.gz"
    again = CliRunner().invoke(cli, ["run", "v2_shared_memory", "--format", "perfetto", "-o", str(file)])
    assert again.exit_code == 0
    assert gzip.decompress(file.read_bytes()).decode() == as_perfetto(gpuemu.run("v2_shared_memory"))


@pytest.mark.slow
def test_units_are_tracks_and_every_track_has_a_name():
    result = gpuemu.run("gemm_tile_plain", "sm_89")
    found = events(result)
    names = {
        (e["pid"], e.get("tid")): e["args"]["name"] for e in found if e["ph"] == "M" and e["name"].endswith("_name")
    }
    assert {(e["pid"], e["tid"]) for e in found if e["ph"] == "X"} <= set(names)
    assert names[0, None] == "sm_89"
    assert {"sub-core 0, issue", "sub-core 3, tensor/f32", "data stage"} <= set(names.values())
    slots = [e for e in found if e["ph"] == "X" and names[e["pid"], e["tid"]].endswith("issue")]
    assert len(slots) == result.counters["smsp__inst_executed.sum"]
    held = sum(e["args"]["data_stage_cycles"] for e in found if e["ph"] == "X" and e["tid"] >= 10_000)
    assert held == result.program.accesses.data_stage_cycles[result.program.access].sum()
    opened, closed = (Counter((e["id"], e["name"], e["cat"]) for e in found if e["ph"] == kind) for kind in "be")
    assert opened == closed
    assert max(e["args"]["warps"] for e in found if e["ph"] == "C") == 8


def test_the_same_run_gives_the_same_bytes(tmp_path: Path):
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for file in files:
        arguments = ["run", "v2_shared_memory", "--format", "perfetto", "-o", str(file)]
        assert CliRunner().invoke(cli, arguments).exit_code == 0
    again = [file.read_bytes() for file in files]
    assert again[0] == again[1] == as_perfetto(gpuemu.run("v2_shared_memory")).encode()
    assert json.loads(again[0])["otherData"]["kernel"] == "v2_shared_memory"
