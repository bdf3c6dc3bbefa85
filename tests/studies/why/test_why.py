"""`gpuemu why`: what each cause costs, ranked, in pairs, and how to run it again."""

from __future__ import annotations

import csv
import io
import json
import shlex
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

import gpuemu
from gpuemu.chip.launch import ALONE
from gpuemu.cli.launching import LaunchOptions
from gpuemu.cli.main import cli
from gpuemu.cli.why import command_words
from gpuemu.studies.layout.layouts import Padding
from gpuemu.studies.why import api
from gpuemu.studies.why.api import MOST_PLACES, Answer, RunWithout, causes_of, limit_of_launch, share_of_launch
from gpuemu.studies.why.causes import Cause
from gpuemu.studies.why.edits import NOTHING
from gpuemu.studies.why.text import WIDTH, as_csv, as_data, findings, lines
from gpuemu.studies.why.tiles import tile_causes

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]


def invoked(*arguments: str) -> str:
    ran = CliRunner().invoke(cli, list(arguments), catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return ran.stdout


@pytest.fixture(scope="module")
def v2() -> Answer:
    return gpuemu.why("v2_shared_memory", "sm_89", by="instruction", pairs=10)


def row(answer: Answer, name: str) -> Any:
    return next(row for row in answer.rows if row.cause.name == name)


def test_on_v2_padding_or_swizzle_are_named_with_the_cycles_that_they_gain(v2: Answer) -> None:
    tiles, a = row(v2, "tiles"), row(v2, "tile@0x0")
    assert v2.cycles == gpuemu.run("v2_shared_memory", "sm_89").cycles
    assert (tiles.gained, a.gained, row(v2, "tile@0x200").gained) == (16, 8, 8)
    assert tiles.gained == row(v2, "conflicts").gained  # the layouts are as good as no conflicts at all
    assert a.cause.simulated == "Swizzle<1,3,3> for the 16x16 f16 tile at shared byte 0"
    assert a.cause.advice == "use this layout; 3 more operations per address are not included"
    assert "i ^ ((i >> 3) & 0x8)" in a.cause.code
    assert a.cause.rule == "Uncoalesced Shared Accesses"
    assert row(v2, "conflicts@0160").cause.rule == "Shared Load Bank Conflicts"
    assert row(v2, "conflicts@01d0").cause.rule == "Shared Store Bank Conflicts"


def test_rows_are_ranked_by_cycles_gained_and_add_up_to_the_run(v2: Answer) -> None:
    gained = [row.gained for row in v2.rows]
    assert gained == sorted(gained, reverse=True)
    assert all(row.cycles + row.gained == v2.cycles for row in v2.rows)
    assert v2.rows[0].cause.name == "stall.long_scoreboard"


def test_every_row_and_pair_is_repeated_by_its_command(v2: Answer) -> None:
    commands = {row.repeat: row.cycles for row in v2.rows} | {pair.repeat: pair.cycles for pair in v2.pairs}
    assert len(commands) == len(v2.rows) + len(v2.pairs)
    tried = [
        *[row.repeat for row in v2.rows],
        *[pair.repeat for pair in v2.pairs[::5]],
    ]  # those of pairs are made alike
    for command, cycles in ((command, commands[command]) for command in tried):
        program, *words = shlex.split(command)
        assert program == "gpuemu"
        found = json.loads(invoked(*words, "--format", "json"))
        assert (found["causes"][0] if words[0] == "why" else found)["cycles"] == cycles, command


def test_pairs_are_of_the_ten_largest_which_are_two_things_and_say_what_is_beyond_each(v2: Answer) -> None:
    gained = {row.cause.name: row.gained for row in v2.rows}
    largest = [row.cause.name for row in v2.rows[:10]]
    for pair in v2.pairs:
        assert {pair.first, pair.second} <= set(largest)
        assert pair.beyond == pair.gained - gained[pair.first] - gained[pair.second]
    assert [pair.gained for pair in v2.pairs] == sorted((pair.gained for pair in v2.pairs), reverse=True)
    beyond = {(pair.first, pair.second): pair.beyond for pair in v2.pairs}
    # Who waits at a barrier waits for the barrier unit: they share what they gain.
    assert beyond["stall.barrier", "barrier_unit"] == -gained["barrier_unit"] < 0
    assert ("conflicts", "tiles") not in beyond


def test_what_cannot_gain_is_left_out_with_the_reason_and_run_on_request(v2: Answer) -> None:
    reasons = dict(v2.left_out)
    assert reasons["stall.mio_throttle"] == "no warp waited for it (mio_throttle)"
    assert reasons["global_stores"] == "the buffer before L2 takes all that is stored"
    assert reasons["occupancy"] == "all timed CTAs are on the SM at once"
    assert not reasons.keys() & {row.cause.name for row in v2.rows}
    everything = gpuemu.why("v2_shared_memory", "sm_89", by="instruction", everything=True)
    assert {row.cause.name for row in everything.rows} == reasons.keys() | {row.cause.name for row in v2.rows}
    idle = [row for row in everything.rows if row.cause.light.startswith("no warp")]
    assert len(idle) >= 3
    assert all(row.gained == 0 for row in idle)


def test_losses_are_shown() -> None:
    answer = gpuemu.why("gemm_tile_plain", "sm_89", only=["global_stores"])
    assert answer.rows[0].gained < 0
    assert any(line.split()[:1] == [str(answer.rows[0].gained)] for _, line in lines(answer))


def test_several_causes_go_together_and_an_unknown_one_is_refused(v2: Answer) -> None:
    pair = v2.pairs[0]
    both = gpuemu.why("v2_shared_memory", "sm_89", only=[pair.first, pair.second])
    assert [row.cause.name for row in both.rows] == [f"{pair.first} + {pair.second}"]
    assert (both.rows[0].gained, both.rows[0].cycles) == (pair.gained, pair.cycles)
    with pytest.raises(gpuemu.GpuemuError, match=r"--only: unknown cause 'conflict'"):
        gpuemu.why("v2_shared_memory", "sm_89", only=["conflict"])


def test_by_line_the_instructions_of_a_line_are_one_cause() -> None:
    trace = gpuemu.load_trace("v2_shared_memory")
    lines_of = {22: 7, 23: 7, 29: 9, 30: 9, 31: 10, 32: 10}
    code = tuple(
        replace(instruction, source=(("k.cu", lines_of.get(index, 1)),)) for index, instruction in enumerate(trace.code)
    )
    answer = gpuemu.why(replace(trace, code=code), "sm_89")
    names = {row.cause.name for row in answer.rows}
    assert {"conflicts@k.cu:7", "conflicts@k.cu:9", "conflicts@k.cu:10", "conflicts"} <= names
    assert not any(name.startswith("conflicts@0") for name in names)
    assert row(answer, "conflicts@k.cu:7").gained == 16
    assert row(answer, "conflicts@k.cu:7").cause.simulated == "8 fewer wavefronts"
    by = gpuemu.why(replace(trace, code=code), "sm_89", by="instruction", only=["conflicts@0160"])
    assert [row.cause.name for row in by.rows] == ["conflicts@0160"]
    inlined = tuple(replace(i, source=(("mma.hpp", 91), ("k.cu", 5), *i.source)) for i in code)
    by = gpuemu.why(replace(trace, code=inlined), "sm_89", only=["conflicts@k.cu:5"])
    assert [row.cause.name for row in by.rows] == ["conflicts@k.cu:5"], "a line of its own, not the library's"
    with pytest.raises(gpuemu.GpuemuError, match="the code has no source lines for --by line"):
        gpuemu.why(replace(trace, code=tuple(replace(i, source=()) for i in code)), "sm_89", by="line")
    with pytest.raises(gpuemu.GpuemuError, match='expected "instruction" or "line"'):
        gpuemu.why(trace, "sm_89", by="warp")


def test_worker_processes_give_the_same_answer_and_report_their_progress(v2: Answer) -> None:
    seen: list[tuple[int, int]] = []
    answer = gpuemu.why(
        "v2_shared_memory", "sm_89", by="instruction", pairs=10, jobs=2,
        progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert as_data(answer) == as_data(v2)
    assert seen[-1][0] == seen[-1][1] == len(v2.rows) + len(v2.pairs)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_uncoalesced_accesses_are_found_under_the_profilers_rule_and_their_gain_timed() -> None:
    answer = gpuemu.why("transpose_v16", "sm_89")
    found = [r for r in answer.rows if r.cause.name.startswith("sectors")]
    assert found[0].gained > 0
    assert all(r.cause.rule == "Uncoalesced Global Accesses" for r in found)


def test_a_long_unrolled_kernel_has_no_more_runs_than_a_minute_allows() -> None:
    causes = causes_of(gpuemu.run("gemm_tile_plain", "sm_89"), False)
    places = [cause for cause in causes if cause.name.startswith("conflicts@")]
    assert len(places) > MOST_PLACES
    assert sum(not cause.light for cause in places) == MOST_PLACES
    heaviest = min(cause.weight for cause in places if not cause.light)
    assert all(cause.weight <= heaviest for cause in places if cause.light)
    assert sum(not cause.light for cause in causes) <= 45


def test_where_padding_does_as_well_it_comes_first_unless_fewer_ctas_fit() -> None:
    trace = gpuemu.load_trace("transpose_plain")
    tile, excess = "for the 32x32 f32 tile at shared byte 0", {0x14: 1}

    def cause(shared_bytes: int) -> Cause:
        launch = replace(trace.launch, static_shared_bytes=shared_bytes)
        (found,) = tile_causes(replace(trace, launch=launch), gpuemu.load_arch("sm_89"), excess)
        return found

    free, tight = cause(4096), cause(99 * 1024)
    padding, swizzle = free.code.split("// or ")
    assert free.simulated == f"rows of 32 + 1 {tile}"
    assert free.advice == "use this layout, or Swizzle<5,0,5> with 2 more operations per address"
    assert padding == "float tile[32][32 + 1];  // 128 more bytes per block\n"
    assert swizzle.startswith("Swizzle<5,0,5>: 2 more operations per address\n__device__ int at(")
    assert free.edit.relaid[0].layout == Padding(1, 32)
    assert tight.simulated == f"Swizzle<5,0,5> {tile}"
    assert tight.advice.endswith("; rows of 32 + 1 would leave room for 0 CTAs per SM instead of 1")
    assert tight.code == f"// {swizzle}"


def test_the_two_operands_of_a_tile_kernel_get_their_layouts() -> None:
    causes = {cause.name: cause for cause in causes_of(gpuemu.run("gemm_tile_plain", "sm_89"), False)}
    assert causes["tile@0x0"].simulated == "Swizzle<2,3,3> for the 128x32 f16 tile at shared byte 0"
    assert causes["tile@0x2000"].simulated.endswith("for the 256x32 f16 tile at shared byte 8192")


def test_text_is_at_most_100_columns_and_csv_and_json_say_the_same(v2: Answer) -> None:
    text = [line for _, line in lines(v2, everything=True)]
    assert max(map(len, text)) <= WIDTH == 100
    data = as_data(v2)
    table = list(csv.DictReader(io.StringIO(as_csv(v2))))
    assert [int(r["gained"]) for r in table] == [c["gained"] for c in (*data["causes"], *data["pairs"])]
    assert [r["cause"] for r in table if not r["second"]] == [c["cause"] for c in data["causes"]]
    assert dict(zip(table[0], table[0].values(), strict=True))["repeat"] == data["causes"][0]["repeat"]


def test_one_finding_is_one_row_and_what_was_simulated_is_apart_from_the_advice(v2: Answer) -> None:
    text = [line for _, line in lines(v2, columns=200)]
    head = next(line for line in text if line.startswith("Saved"))
    assert head.endswith("  What to try")
    assert "Simulated change" in head
    (found,) = [line for line in text if "Bank conflicts" in line and not line.startswith("Fix")]
    told = "16 2.2% Bank conflicts, 0160, 0170 12 fewer wavefronts the layouts below"
    assert " ".join(found.split()) == told
    assert not any("Layout of" in line for line in text)
    assert sum(line.count("Savings overlap") for line in text) == 1
    (unit,) = [line for line in text if "Barrier unit" in line]
    assert unit.endswith("no latency, warps still wait")
    (fix,) = [line for line in text if line.startswith("Fix")]
    assert fix == ("Fix for the bank conflicts (16x16 f16 tiles at shared bytes 0 and 512, each saves up to 8 cycles):")
    assert len({row.cause.name for row in findings(v2.rows)[0].rows}) == 1
    merged = [f for f in findings(v2.rows) if len(f.rows) > 1]
    assert [{row.cause.name.partition("@")[0] for row in f.rows} for f in merged] == [{"conflicts", "tile", "tiles"}]
    assert sum(len(f.rows) for f in findings(v2.rows)) == len(v2.rows)


def test_many_places_of_one_file_are_cut_short() -> None:
    cause = Cause("conflicts", "", "9 fewer wavefronts", "pad", NOTHING, title="Bank conflicts")
    rows = [RunWithout(cause, 90, 10, "")]
    rows += [
        RunWithout(replace(cause, name=f"conflicts@k.cu:{n}", title=f"Bank conflicts, k.cu:{n}"), 98, 2, "")
        for n in range(5)
    ]
    (found,) = findings(rows)
    assert found.title == "Bank conflicts, k.cu:0, 1, 2 and 2 more"
    assert found.advice == "pad"


@pytest.mark.parametrize("columns", [60, 100, 200])
def test_rows_that_gain_a_hundredth_are_shown_the_others_counted_or_shown_with_all(v2: Answer, columns: int) -> None:
    slower = replace(v2.rows[0], gained=-100, cause=replace(v2.rows[0].cause, name="slower", advice="never-so"))
    v2 = replace(v2, rows=(*v2.rows, slower))
    short, whole = (list(lines(v2, everything, columns)) for everything in (False, True))
    assert max(len(line) for _, line in [*short, *whole]) <= columns
    text = " ".join(" ".join(line for _, line in short).split())
    few = [f for f in findings(v2.rows) if f.gained < 0.01 * v2.cycles]
    told = f"{len(few)} rows save less than 1%, {len(v2.left_out)} causes cannot matter here: --all"
    assert told in text
    assert told not in " ".join(line for _, line in whole)
    assert "slower" not in text
    assert "never-so" not in text
    names = {row.cause.name for row in v2.rows}
    assert columns < 100 or names <= set(" ".join(line for _, line in whole).split())
    assert "Repeat one row: --only stall.long_scoreboard." in text
    assert "Combine the largest in pairs: --pairs" not in text


def test_settings_of_ones_own_and_the_launch_are_in_the_commands() -> None:
    options = LaunchOptions(kernel="k", grid=(2, 1, 1), args=("zeros:f32:4", "7"), zero_shared=True, save=("0=x",))
    words = command_words("k.cu", "sm_80", ("mio.queue_entries=9",), options)
    assert words == [
        "k.cu", "--arch", "sm_80", "--set", "mio.queue_entries=9", "--kernel", "k", "--grid", "2,1,1",
        "--arg", "zeros:f32:4", "--arg", "7", "--zero-shared",
    ]  # fmt: skip
    text = invoked("why", "v2_shared_memory", "--set", "shared_memory.banks=16", "--only", "conflicts")
    banks = gpuemu.load_arch("sm_89").with_overrides({"shared_memory.banks": 16})
    cycles = gpuemu.run("v2_shared_memory", banks).cycles
    assert text.startswith(f"v2_shared_memory on sm_89, RTX 4060 Ti, shared_memory.banks=16: {cycles} SM cycles, which")
    assert "Each row" not in text
    assert "Repeat" not in text
    answer = gpuemu.why("v2_shared_memory", banks)
    assert all("--set shared_memory.banks=16" in r.repeat for r in answer.rows)
    laid_out = replace(gpuemu.load_trace("v2_shared_memory"), layout={"pitch": 48})
    assert "--set layout.pitch=48" in gpuemu.why(laid_out, "sm_89", only=["conflicts"]).rows[0].repeat


def test_stall_reasons_have_the_headings_of_the_profilers_messages() -> None:
    """Its rule on warp stalls makes them of the reasons' names, by capitals alone: "Mio", and "Stall Stalls"."""
    result = gpuemu.run("v2_shared_memory", "sm_89")
    rules = {c.name: c.rule for c in causes_of(result, False) if c.name.startswith("stall.")}
    assert rules["stall.long_scoreboard"] == "Long Scoreboard Stalls"
    assert rules["stall.mio_throttle"] == "Mio Throttle Stalls"
    assert rules["stall.dispatch_stall"] == "Dispatch Stall Stalls"
    table = (ROOT / "docs" / "why.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` | {rule} |" in table for name, rule in rules.items())


def test_many_runs_compile_the_engine_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(api, "compiling", lambda instructions: asked.append(instructions) or nullcontext())
    answer = gpuemu.why("v5_swizzle", "sm_89")
    assert answer.pairs == ()
    assert [*lines(answer)][-1][1].endswith("Combine the largest in pairs: --pairs.")
    assert asked == [len(answer.rows) * gpuemu.load_trace("v5_swizzle").executed_instructions]


HELD = ["The launch is limited by DRAM, which alone takes 3,700 cycles. No cause here reduces that."]
QUARTER = ", which are 25% of the 4,000-cycle launch"
MOST = " for 6 of the 40 CTAs on the SM. All 40 take 3,600 cycles, 90% of the 4,000-cycle launch, and save alike"


@pytest.mark.parametrize(
    ("elapsed", "limited_by", "most", "share", "notes"),
    [
        (1000, ALONE, 6, "", []),
        (1000, "too few CTAs", 6, "", []),
        (1000, "DRAM", 6, "", HELD),
        (4000, ALONE, 6, QUARTER, []),
        (4000, "DRAM", 6, QUARTER, HELD),
        (4000, ALONE, 40, MOST, []),
        (4000, "the last wave", 40, MOST, ["The launch is limited by the last wave. The causes save cycles of one SM."]),
    ],
)  # fmt: skip
def test_the_head_says_which_share_of_the_launch_the_cycles_of_one_sm_are(
    v2: Answer, elapsed: int, limited_by: str, most: int, share: str, notes: list[str]
) -> None:
    whole = SimpleNamespace(elapsed=elapsed, limited_by=limited_by, limits={ALONE: 3600, "DRAM": 3700})
    grid = SimpleNamespace(whole=whole, timed_ctas=6, most_ctas=most)
    assert share_of_launch(1000, grid) == share
    assert [*limit_of_launch(grid)] == notes
    answer = replace(v2, share=share, notes=tuple(notes))
    first = next(iter(lines(answer, columns=200)))[1]
    assert first == f"v2_shared_memory on sm_89, RTX 4060 Ti: {v2.cycles} SM cycles{share}"
    assert as_data(answer)["notes"] == [*([f"{v2.cycles} SM cycles{share}"] if share else []), *notes]
