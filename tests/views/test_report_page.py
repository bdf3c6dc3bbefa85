"""The report's page holds the numbers of the result and fetches nothing; a browser opens it in test_report_browser."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import gpuemu
from gpuemu.cli.main import cli
from gpuemu.views.definitions import definition, glossary_table
from gpuemu.views.json_result import as_data
from gpuemu.views.report import data as report_data
from gpuemu.views.report.answer import FIX_SHARE, FOLDED_SHARE, causes
from gpuemu.views.report.page import as_html, template
from gpuemu.views.report.roofline import roofline, roofs
from gpuemu.views.report.values import values
from gpuemu.views.source import instructions

ROOT = Path(__file__).resolve().parents[2]
RANKED = {
    "title": "Bank conflicts",
    "gained": 48,
    "simulated": "12 fewer wavefronts",
    "advice": "pad it",
    "causes": ["conflicts@0160"],
    "commands": ["gpuemu why"],
    "gained_by_fixes": 48,
    "fixes": [{"tiles": "16x16 f16 tile", "gained": 48, "code": "return i;"}],
}
SAY = "</script><script>alert(1)</script><b>&\"'"


@pytest.fixture(scope="module")
def v2() -> gpuemu.Result:
    return gpuemu.run("v2_shared_memory", "sm_89")


def with_lines(result: gpuemu.Result, file: str = "k.cu") -> gpuemu.Result:
    """The result as if its code came from lines of a file, five instructions a line, the last inlined from a header."""
    code = tuple(replace(i, source=((file, 1 + n // 5),)) for n, i in enumerate(result.program.code))
    code = (*code[:-1], replace(code[-1], source=(("help.h", 9), (file, 8))))
    return replace(result, program=replace(result.program, code=code))


def data_of(page: str) -> dict:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


class Tags(HTMLParser):
    """Tags with their attributes, in order."""

    def __init__(self, page: str):
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_its_data_are_those_of_the_result_and_of_the_source_page(v2):
    data = data_of(as_html(v2))
    assert data["result"] == json.loads(json.dumps(as_data(v2)))
    rows = instructions(v2.program, v2.log)
    assert [row["Warp Stall Cycles"] for row in data["instructions"]] == [row.cycles for row in rows]
    assert [row["L1 Wavefronts Shared Excessive"] for row in data["instructions"]] == [
        r.excess_wavefronts for r in rows
    ]
    assert {name: sum(bins) for name, bins in data["over_time"]["cycles"].items()} == dict(v2.stalls)


@pytest.mark.slow
def test_the_timeline_has_every_issue_and_leaves_whole_warps_out(v2, monkeypatch):
    result = gpuemu.run("toy_transpose_plain", "sm_89")
    (warp,) = data_of(as_html(result))["timeline"]["warps"]
    at, issues = warp["start"], []
    for waited in warp["waited"]:
        issues.append(at + waited)
        at += waited + 1
    assert issues == result.log.issue.tolist()
    many = gpuemu.run("transpose_plain", "sm_89")
    monkeypatch.setattr(report_data, "MOST_ISSUES", 5 * len(many.program.path) // many.program.warps)
    part = data_of(as_html(many))["timeline"]
    assert (part["whole"], len(part["warps"])) == (False, 5)


@pytest.mark.slow
def test_every_stall_reason_has_a_colour_of_its_own_in_both_schemes(v2):
    reasons = data_of(as_html(v2))["reasons"]
    for scheme in re.findall(r"(?:--r\d+: #[0-9a-f]{6};\s*)+", as_html(v2)):
        colours = dict(re.findall(r"--(r\d+): (#[0-9a-f]{6})", scheme))
        assert list(colours) == [f"r{number}" for number in range(len(reasons))]
        assert len(set(colours.values())) == len(reasons)


def test_each_access_is_there_with_its_wavefronts(v2):
    accesses = data_of(as_html(v2))["banks"]["accesses"]
    rows = instructions(v2.program, v2.log)
    for access in accesses:
        drawn = sum(p["times"] * sum(len(phase["served"]) for phase in p["phases"]) for p in access["patterns"])
        assert drawn == rows[access["instruction"]].wavefronts
    assert sum(rows[a["instruction"]].excess_wavefronts for a in accesses) == 12


def test_nothing_is_fetched(v2):
    page = as_html(with_lines(v2))
    tags = Tags(page).found
    assert [
        tag for tag, _ in tags if tag in ("img", "iframe", "object", "embed", "base", "form", "video", "audio")
    ] == []
    places = [a[name] for _, a in tags for name in ("src", "href", "action", "srcset", "data") if a.get(name)]
    assert all(place.startswith("#") or place == "data:," for place in places)
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(|WebSocket|sendBeacon", page)
    (policy,) = [a["content"] for tag, a in tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")


@pytest.mark.slow
def test_names_are_escaped_wherever_they_come_from(v2):
    trace = replace(v2.trace, name=SAY, about=SAY, file=SAY)
    strange = with_lines(replace(v2, trace=trace), file=SAY)
    page = as_html(
        strange,
        {SAY: [SAY, SAY]},
        [
            {
                **RANKED,
                **dict.fromkeys(("title", "simulated", "advice"), SAY),
                "commands": [SAY],
                "fixes": [{"tiles": SAY, "gained": 48, "code": SAY}],
            }
        ],
    )
    plain = as_html(with_lines(v2), {"k.cu": ["a", "b"]}, [RANKED])
    assert SAY not in page
    assert "alert(1)</script>" not in page
    elements = [tag for tag, _ in Tags(page).found]
    assert elements.count("script") == [tag for tag, _ in Tags(plain).found].count("script") == 2
    assert data_of(page)["result"]["kernel"] == SAY
    assert data_of(page)["lines"][0]["Source"] == SAY


@pytest.mark.slow
def test_a_tile_loop_of_17500_instructions_stays_below_five_megabytes():
    trace = gpuemu.load_trace("gemm_tile_plain")
    warps = tuple(
        replace(warp, cta=cta) for cta in range(6) for warp in trace.warps
    )  # fmt: skip
    trace = replace(trace, warps=warps, launch=replace(trace.launch, grid=(6, 1, 1)))
    result = gpuemu.run(trace, "sm_90")
    assert len(result.program.path) >= 17_500
    page = as_html(result)
    assert len(page.encode()) < 5_000_000
    assert data_of(page)["timeline"]["whole"]


@pytest.mark.slow
def test_source_text_is_that_of_files_which_are_given(v2, tmp_path):
    result = with_lines(v2)
    text = [f"line {n}" for n in range(1, 11)]
    rows = data_of(as_html(result, {"k.cu": text}))["lines"]
    assert [row["Place"] for row in rows] == [f"k.cu:{n}" for n in range(1, 11)] + ["help.h:9"]
    assert [row["Source"] for row in rows] == [*text, ""]
    assert sum(row.get("Instructions Executed", 0) for row in rows[:-1]) == len(result.program.path)
    without = data_of(as_html(result))["lines"]
    assert [row["Place"] for row in without] == ["help.h:9", *(f"k.cu:{n}" for n in range(1, 9))]
    code = tuple(replace(instruction, source=()) for instruction in v2.trace.code)
    bare = gpuemu.run(replace(v2.trace, code=code), v2.arch)
    assert "does not say which source lines" in as_html(bare)
    assert "does not say which source lines" not in as_html(result)


@pytest.mark.slow
def test_the_command_takes_the_text_of_a_kernel_and_of_folders_named(tmp_path):
    (tmp_path / "mma.hpp").write_text("// mine\n" * 600, encoding="utf-8")
    source, out = ROOT / "traces" / "src" / "v2_shared_memory.cu", tmp_path / "v2.html"
    arguments = ["run", str(source), *["--arg=zeros:f16:256"] * 3, "--format", "html", "-o", str(out)]
    ran = CliRunner().invoke(cli, [*arguments, "--sources", str(tmp_path)])
    assert ran.exit_code == 0, ran.output
    rows = {row["Place"]: row for row in data_of(out.read_text(encoding="utf-8"))["lines"]}
    assert "load_matrix_sync" in rows["v2_shared_memory.cu:28"]["Source"]
    assert rows["v2_shared_memory.cu:28"]["L1 Wavefronts Shared Excessive"] == 4
    assert rows["mma.hpp:600"]["Source"] == "// mine"


@pytest.mark.slow
def test_the_same_run_gives_the_same_bytes(v2, tmp_path):
    ran = CliRunner().invoke(cli, ["run", "v2_shared_memory", "--arch", "sm_89", "--format", "html"])
    assert ran.stdout == as_html(v2) == as_html(gpuemu.run("v2_shared_memory", "sm_89"))


@pytest.mark.slow
def test_the_values_are_those_that_the_run_depended_on():
    arch = gpuemu.load_arch("sm_89").with_overrides({"tensor_core.operands.pause_cycles": 0})
    found = values(gpuemu.run("transpose_plain", arch).program, arch)
    names = [value["name"] for value in found]
    assert names[0] == "tensor_core.operands.pause_cycles"
    assert [value["name"] for value in found if value["changed"]] == names[:1]
    assert {
        "launch.overhead_cycles",
        "shared_memory.banks",
        "mio.queue_entries",
        "global_memory.latency_cycles",
        "barrier.latency_cycles",
    } <= set(names)
    assert not [name for name in names[1:] if name.startswith(("tensor_core", "special_function", "operations.fp64"))]
    (banks,) = [value for value in found if value["name"] == "shared_memory.banks"]
    where = arch.provenance["shared_memory.banks"]
    assert (banks["value"], banks["unit"], banks["status"], banks["confidence"]) == (
        "32",
        "banks",
        where.status,
        where.confidence,
    )
    assert banks["sources"] == where.source.split("; ")
    tensor = gpuemu.run("gemm_tile_plain", arch)
    assert "tensor_core.operations.m16n8k8.f32.f16.latency_cycles" in [v["name"] for v in values(tensor.program, arch)]


def plain(html: str) -> str:
    """The text of a piece of a page."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def cells(page: str) -> list[list[str]]:
    """The text of each cell of the ranking, row by row, without the commands."""
    tables = re.findall(r'<table class="bars causes" id="(?:causes|little)">(.*?)</table>', page, re.DOTALL)
    rows = re.findall(r"<tr>(.*?)</tr>", "".join(tables), re.DOTALL)
    return [[plain(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)] for row in rows]


HEADS = ["Cause", "Saved", "% of cycles", "Simulated change", "What to try", ""]


@pytest.mark.slow
def test_on_request_the_report_has_what_each_cause_costs(tmp_path):
    file = tmp_path / "v2.html"
    words = ["run", "v2_shared_memory", "--arch", "sm_89", "--set", "shared_memory.banks=16"]
    ran = CliRunner().invoke(cli, [*words, "--format", "html", "--why", "-o", str(file)], catch_exceptions=False)
    assert (ran.exit_code, ran.stdout) == (0, "")
    page = file.read_text(encoding="utf-8")
    head, *rows = cells(page)
    assert head == HEADS
    rows = [row for row in rows if row != head]
    arch = gpuemu.load_arch("sm_89").with_overrides({"shared_memory.banks": 16})
    found = gpuemu.why("v2_shared_memory", arch).findings()
    assert [row[1] for row in rows] == [f"{one['gained']:,}" for one in found]
    assert all(row[0].startswith(one["title"]) for row, one in zip(rows, found, strict=True))
    assert [row[3:5] for row in rows] == [[one["simulated"], one["advice"]] for one in found]
    commands = re.findall(r'<tr class="command"[^>]*>(.*?)</tr>', page, re.DOTALL)
    assert [text.count("<code>") for text in commands] == [len(one["commands"]) for one in found]
    assert all("v2_shared_memory --arch sm_89 --set shared_memory.banks=16" in plain(text) for text in commands)
    first = page[page.index('id="costs"') : page.index("</ol>")]
    assert [unescape(name) for name in re.findall(r"<b>(.*?)</b>", first)] == [one["title"] for one in found[:3]]


def conflicts_of(answer) -> list[str]:
    """The causes that are about conflicts or the layouts without them."""
    return [row.cause.name for row in answer.rows if row.cause.name.partition("@")[0] in ("conflicts", "tile", "tiles")]


@pytest.mark.slow
def test_one_finding_is_one_row(v2):
    answer = gpuemu.why("v2_shared_memory", "sm_89", jobs=1)
    assert len(conflicts_of(answer)) > 2
    found = [one for one in answer.findings() if {"conflicts", "tiles"} & {c.partition("@")[0] for c in one["causes"]}]
    assert len(found) == 1
    assert set(found[0]["causes"]) == set(conflicts_of(answer))
    rows = cells(as_html(v2, ranking=answer.findings()))
    assert len([row for row in rows if "conflict" in row[0] or "ayout" in row[0]]) == 1
    assert "again" not in [word for row in rows for word in row]


@pytest.mark.parametrize(("gained", "shown"), [(0.049, False), (0.051, True)])
def test_the_first_box_is_a_fix_where_it_gains_a_twentieth(v2, gained, shown):
    assert FIX_SHARE == 0.05
    cycles = round(gained * v2.cycles)
    page = as_html(v2, ranking=[{**RANKED, "gained": cycles, "gained_by_fixes": cycles}])
    first = page[page.index('id="figures"') : page.index('id="costs"')]
    assert (f"Fix: saves {cycles} cycles" in first) == ("return i;" in first) == shown
    assert ("No single fix above 5%" in first) != shown
    # A cause that is worth more than its layouts is no fix.
    page = as_html(v2, ranking=[{**RANKED, "gained": 300, "gained_by_fixes": 8}])
    assert "No single fix above 5%" in page[: page.index('id="costs"')]


def test_rows_below_three_percent_are_folded(v2):
    page = as_html(v2, ranking=[RANKED, {**RANKED, "title": "Little", "gained": 21}])
    assert FOLDED_SHARE == 0.03
    for table, whole in (("bounds", v2.cycles), ("stalls", sum(v2.stalls.values()))):
        card = re.search(rf'id="{table}">(.*?)</table>(.*?)</div>', page, re.DOTALL)
        shares = [[float(s) for s in re.findall(r"<span>([\d.]+)%</span>", part)] for part in card.groups()]
        assert min(shares[0]) >= 3.0 > max(shares[1], default=0)
        assert f"<summary>{len(shares[1])} more below 3%" in card[2]
        assert whole
    assert 'id="little"' in page
    assert "Little" in page[page.index('id="little"') :]
    resources = [plain(cell) for cell in re.findall(r'<tr><th scope="row">(.*?)</th>', page, re.DOTALL)]
    assert [name for name in resources if name.startswith("latency of one warp,")] == []
    latency = next(name for name in resources if name.startswith("latency of one warp"))
    parts = [f"{b.cycles:,}" for b in v2.bounds if b.resource.startswith("latency of one warp, ")]
    assert re.findall(r"[\d,]*\d", latency) == parts != []


def test_causes_link_to_lines(v2):
    lined = with_lines(v2)
    page = as_html(lined, ranking=[{**RANKED, "causes": ["conflicts@k.cu:5"]}])
    links = re.findall(r'<a href="#source" data-instruction="(\d+)">(.*?)</a>', page)
    assert {label for _, label in links} == {"k.cu:5"}
    assert {lined.program.code[int(row)].own_line for row, _ in links} == {("k.cu", 5)}


@pytest.mark.slow
def test_every_metric_has_its_definition(v2):
    page = as_html(v2, ranking=[RANKED])
    for table in ("figures", "schedulers", "shared", "global", "counters", "bounds", "stalls", "warps"):
        of = page[page.index(f'id="{table}"') :].partition("</dl>" if table == "figures" else "</table>")[0]
        tips = re.findall(r'data-tip="([^"]*)"', of)
        assert len(tips) > 2, table
        assert [tip for tip in tips if not tip.endswith(".")] == [], table
    data = data_of(page)
    assert [name for name, text in data["definitions"].items() if not text.endswith(".")] == []
    for name in ("gemm_tile_plain", "transpose_plain"):
        result = gpuemu.run(name, "sm_90")
        names = [*result.counters, *result.stalls, *(bound.resource for bound in result.bounds)]
        assert [name for name in names if not definition(name).endswith(".")] == []
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    assert glossary_table().strip() in glossary
    assert definition("no such name of a metric") == definition("foo__bar.sum") == ""


def test_the_text_of_a_source_is_there_once(v2):
    arch = v2.arch
    page = as_html(v2)
    shown = {key for value in values(v2.program, arch) for key in value["sources"]}
    table = page[page.index('id="values"') :].partition("</table>")[0]
    assert all(unescape(arch.sources[key]) not in plain(table) for key in shown if arch.sources.get(key))
    listed = page[page.index('id="sources"') :].partition("</dl>")[0]
    assert [plain(key) for key in re.findall(r"<dt>(.*?)</dt>", listed)] == list(
        dict.fromkeys(key for value in values(v2.program, arch) for key in value["sources"])
    )


def test_the_ranking_goes_into_the_report_alone():
    with pytest.raises(
        gpuemu.GpuemuError, match=r"--why: it has no effect here \(--format text\)\. --format html has the ranking"
    ):
        CliRunner().invoke(cli, ["run", "v2_shared_memory", "--why"], catch_exceptions=False)


def test_a_ranking_has_a_section_if_there_is_one(v2):
    assert 'id="ranking"' not in as_html(v2)
    page = as_html(v2, ranking=[RANKED])
    assert 'id="ranking"' in page
    (head, row) = cells(page)
    assert head == HEADS
    assert row == ["Bank conflicts v2_shared_memory.cu:28", "48", "6.7%", "12 fewer wavefronts", "pad it", "command"]


@pytest.mark.slow
def test_a_cause_names_the_instruction_with_most_of_what_it_counts(v2):
    lined = with_lines(v2)
    rows = instructions(lined.program, lined.log)
    most = max(range(len(rows)), key=lambda n: rows[n].excess_wavefronts)
    file, line = lined.program.code[most].own_line
    assert lined.program.code[most - 1].own_line == (file, line)  # not the first of its line
    for name in (f"conflicts@{file}:{line}", f"conflicts@{rows[most].place}", "conflicts"):
        (cost,) = causes(lined, [{**RANKED, "causes": [name]}], data_of(as_html(lined))["instructions"])
        assert cost["links"] == [{"label": f"{file}:{line}", "row": most}]


def test_the_first_screen_has_the_verdict_and_the_top_stall_reasons(v2):
    page = as_html(v2)
    head = page[: page.index('id="bounds"')]
    assert f">{v2.verdict}.</h2>" in head
    costs = head[head.index('id="costs"') :]
    assert re.findall(r"<b>(.*?)</b>", costs) == ["Long Scoreboard", "IMC Miss", "Short Scoreboard"]
    rows = instructions(v2.program, v2.log)
    (row, *_) = re.findall(r'data-instruction="(\d+)"', head)
    assert rows[int(row)].stalls["long_scoreboard"] == max(r.stalls["long_scoreboard"] for r in rows)


def test_every_table_of_the_terminal_is_there(v2):
    page = as_html(v2)
    assert set(re.findall(r'<table class="[^"]*" id="(\w+)"', page)) >= {
        "bounds", "stalls", "shared", "global", "schedulers", "warps", "counters", "values",
    }  # fmt: skip


@pytest.mark.slow
def test_dots_of_the_roofline_lie_under_their_roofs(v2):
    for name in ("v2_shared_memory", "v5_swizzle", "gemm_tile_plain"):
        result = gpuemu.run(name, "sm_89")
        picture = roofline(result)
        for roof in roofs(result):
            assert roof.issued <= min(result.arch.sm.sub_cores, roof.per_unit * roof.rate)
            assert f">{roof.per_unit:.2f} per {roof.unit}, {roof.issued:.2f} per cycle</text>" in picture
        assert picture.count("<circle") == len(roofs(result)) == 2
        axis = float(re.search(r'class="axis" d="M44 22V(\d+)H', picture)[1])
        assert max(float(y) for y in re.findall(r'class="dot" x="[^"]*" y="([^"]*)"', picture)) < axis - 3


@pytest.mark.slow
def test_a_result_writes_its_report_with_what_each_cause_costs_and_its_text(v2, tmp_path):
    v2.to_html(tmp_path / "v2.html", why=gpuemu.why("v2_shared_memory", "sm_89", only=["conflicts"]))
    page = (tmp_path / "v2.html").read_text(encoding="utf-8")
    (row,) = cells(page)[1:]
    assert row[0].startswith("Bank conflicts v2_shared_memory.cu:")
    lines = [row["Source"] for row in data_of(page)["lines"] if row["Place"].startswith("v2_shared_memory.cu")]
    assert any("load_matrix_sync" in line for line in lines)  # which the trace does not keep


def light(colour: str) -> float:
    """Relative luminance."""
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def linear(colour: str) -> np.ndarray:
    rgb = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


SEEN = {  # Machado, Oliveira and Fernandes 2009: what those see who lack a kind of cones
    "all": np.eye(3),
    "no red": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "no green": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}


@pytest.mark.parametrize("seen", SEEN)
def test_colours_of_stall_reasons_are_told_apart_by_all(v2, seen):
    """By their distance in OKLab."""
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    lab = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    for scheme in re.findall(r"(?:--r\d+: #[0-9a-f]{6};\s*)+", as_html(v2)):
        colours = re.findall(r"#[0-9a-f]{6}", scheme)
        points = [lab @ np.cbrt(cones @ np.clip(SEEN[seen] @ linear(c), 0, 1)) for c in colours]
        assert min(np.linalg.norm(a - b) for a, b in combinations(points, 2)) > 0.1
        # What is written on them is black or white, as `readable` of the timeline chooses.
        assert min(max((light(c) + 0.05) / 0.05, 1.05 / (light(c) + 0.05)) for c in colours) >= 4.5


@pytest.mark.slow
def test_another_run_stands_beside_this_one_on_request(v2, tmp_path):
    other = gpuemu.run("v5_swizzle", "sm_89")
    v2.to_html(tmp_path / "both.html", beside=other)
    page = " ".join(unescape(re.sub(r"<[^>]*>", " ", (tmp_path / "both.html").read_text(encoding="utf-8"))).split())
    more = v2.cycles - other.cycles
    assert f"Compared with v5_swizzle on sm_89 +{more} SM Active Cycles ({other.cycles} there): all differences" in page
    assert f"cycles {other.cycles} {v2.cycles} +{more} +3.2%" in page
    assert "excess_wavefronts 0 12 +12 " in page  # no share of nothing
    assert 'id="beside"' not in as_html(v2)
    (tmp_path / "v5.json").write_text(json.dumps(as_data(other)), encoding="utf-8")
    words = ["run", "v2_shared_memory", "--arch", "sm_89", "--beside", str(tmp_path / "v5.json")]
    done = CliRunner().invoke(cli, [*words, "--format", "html", "-o", str(tmp_path / "again.html")])
    assert done.exit_code == 0
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "both.html").read_bytes()
    refused = CliRunner().invoke(cli, words)
    assert "gpuemu diff prints two runs side by side" in str(refused.exception)


def test_without_jinja2_it_says_what_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    template.cache_clear()
    ran = CliRunner().invoke(cli, ["run", "v2_shared_memory", "--format", "html"])
    assert isinstance(ran.exception, gpuemu.GpuemuError)
    assert str(ran.exception) == "jinja2: not installed. Install it with pip install . in a clone of gpuemu."
