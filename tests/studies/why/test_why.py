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
from gpuemu.studies.why.api import MOST_PLACES, Answer, causes_of, of_launch
from gpuemu.studies.why.causes import Cause
from gpuemu.studies.why.text import WIDTH, as_csv, as_data, lines
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
    assert a.cause.advice.startswith("Swizzle<1,3,3> for the 16x16:f16 at shared byte 0")
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
    assert row(answer, "conflicts@k.cu:7").cause.advice.startswith("2 instructions, 8 excess wavefronts")
    by = gpuemu.why(replace(trace, code=code), "sm_89", by="instruction", only=["conflicts@0160"])
    assert [row.cause.name for row in by.rows] == ["conflicts@0160"]
    inlined = tuple(replace(i, source=(("mma.hpp", 91), ("k.cu", 5), *i.source)) for i in code)
    by = gpuemu.why(replace(trace, code=inlined), "sm_89", only=["conflicts@k.cu:5"])
    assert [row.cause.name for row in by.rows] == ["conflicts@k.cu:5"], "a line of its own, not the library's"
    with pytest.raises(gpuemu.GpuemuError, match="no source lines for --by line"):
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
    tile, excess = "for the 32x32:f32 at shared byte 0", {0x14: 1}

    def cause(shared_bytes: int) -> Cause:
        launch = replace(trace.launch, static_shared_bytes=shared_bytes)
        (found,) = tile_causes(replace(trace, launch=launch), gpuemu.load_arch("sm_89"), excess)
        return found

    free, tight = cause(4096), cause(99 * 1024)
    padding, swizzle = free.code.split("// or, in the bytes that it has\n")
    assert free.advice == f"rows of 32 + 1 {tile}; or Swizzle<5,0,5>, less what 2 more operations an address take"
    assert padding.startswith("float tile[32][32 + 1];")
    assert free.edit.relaid[0].layout == Padding(1, 32)
    assert tight.advice.startswith(
        f"Swizzle<5,0,5> {tile}, less what 2 more operations an address take; rows of 32 + 1"
    )
    assert tight.advice.endswith("would leave room for 0 CTAs on the SM, not 1")
    assert tight.code == swizzle


def test_the_two_operands_of_a_tile_kernel_get_their_layouts() -> None:
    causes = {cause.name: cause for cause in causes_of(gpuemu.run("gemm_tile_plain", "sm_89"), False)}
    assert causes["tile@0x0"].advice.startswith("Swizzle<2,3,3>")
    assert "128x32:f16 at shared byte 0" in causes["tile@0x0"].advice
    assert "256x32:f16 at shared byte 8192" in causes["tile@0x2000"].advice


def test_text_is_at_most_100_columns_and_csv_and_json_say_the_same(v2: Answer) -> None:
    text = [line for _, line in lines(v2, everything=True)]
    assert max(map(len, text)) <= WIDTH == 100
    data = as_data(v2)
    table = list(csv.DictReader(io.StringIO(as_csv(v2))))
    assert [int(r["gained"]) for r in table] == [c["gained"] for c in (*data["causes"], *data["pairs"])]
    assert [r["cause"] for r in table if not r["second"]] == [c["cause"] for c in data["causes"]]
    assert dict(zip(table[0], table[0].values(), strict=True))["repeat"] == data["causes"][0]["repeat"]


@pytest.mark.parametrize("columns", [60, 100, 200])
def test_rows_that_gain_a_hundredth_are_shown_the_others_counted_or_shown_with_all(v2: Answer, columns: int) -> None:
    slower = replace(v2.rows[0], gained=-100, cause=replace(v2.rows[0].cause, name="slower", advice="never-so"))
    v2 = replace(v2, rows=(*v2.rows, slower))
    short, whole = (list(lines(v2, everything, columns)) for everything in (False, True))
    assert max(len(line) for _, line in [*short, *whole]) <= columns
    text = " ".join(" ".join(line for _, line in short).split())
    few = [row for row in v2.rows if row.gained < 0.01 * v2.cycles]
    assert f"and {len(few)} more that gain under 1% or lose; --all shows them" in text
    assert "slower" not in text
    assert "never-so" not in text
    assert {row.cause.name for row in v2.rows} <= set(" ".join(line for _, line in whole).split())
    assert f"The first again: {v2.rows[0].repeat}" in text


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
    assert text.startswith(f"v2_shared_memory on sm_89, shared_memory.banks=16: {cycles} cycles;")
    again = "The first again: gpuemu why v2_shared_memory --set shared_memory.banks=16 --only conflicts"
    assert again in " ".join(text.split())
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
    assert [*lines(answer)][-1] == ("faint", "--pairs takes the largest away two by two")
    assert asked == [len(answer.rows) * gpuemu.load_trace("v5_swizzle").executed_instructions]


HELD = "; DRAM alone takes 3,700, which no cause here makes less"
MOST = "alone, the 40 CTAs of the SM with the most take 3,600, 90% of them; the 1,000 of which the causes gain are of the 6"


@pytest.mark.parametrize(
    ("elapsed", "limited_by", "most", "told"),
    [
        (1000, ALONE, 6, []),
        (1000, "too few CTAs", 6, []),
        (1000, "DRAM", 6, [f"the launch is limited by DRAM; the causes gain cycles of one SM{HELD}"]),
        (4000, ALONE, 6, ["the launch takes 4,000 cycles: the 1,000 of one SM, of which the causes gain, are 25% of them"]),
        (4000, "DRAM", 6, ["the launch takes 4,000 cycles, limited by DRAM: the 1,000 of one SM, of which the causes gain, "
                           f"are 25% of them{HELD}"]),
        (4000, ALONE, 40, [f"the launch takes 4,000 cycles: {MOST} timed, and the others gain alike"]),
        (4000, "DRAM", 40, [f"the launch takes 4,000 cycles, limited by DRAM: {MOST} timed, and the others gain alike{HELD}"]),
    ],
)  # fmt: skip
def test_the_head_says_what_the_cycles_of_one_sm_are_of_the_launch(
    elapsed: int, limited_by: str, most: int, told: list[str]
) -> None:
    whole = SimpleNamespace(elapsed=elapsed, limited_by=limited_by, limits={ALONE: 3600, "DRAM": 3700})
    assert [*of_launch(1000, SimpleNamespace(whole=whole, timed_ctas=6, most_ctas=most))] == told
