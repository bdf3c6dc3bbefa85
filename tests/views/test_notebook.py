"""What notebooks and frames get of results, traces, accesses and searches."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pandas
import polars
import pytest
from click.testing import CliRunner
from views.test_report_page import with_lines

import gpuemu
from gpuemu.cli.main import cli
from gpuemu.studies.check.findings import Finding, Point, Severity
from gpuemu.studies.check.report import Report
from gpuemu.studies.rank.ranking import RankedRow, Ranking, RefusedRow
from gpuemu.views.source import COLUMNS, stall_columns

SVG = "{http://www.w3.org/2000/svg}"
SAY = "<i>&\"'"
CONFLICT = [32 * (lane % 16) + 16 * (lane // 16) for lane in range(32)]


@pytest.fixture(scope="module")
def result() -> gpuemu.Result:
    return gpuemu.run("v2_shared_memory", "sm_89")


@pytest.fixture(scope="module")
def search():
    return gpuemu.search("sm_89", "32x32:f32", ["copy-in:32", "column", "column"])


class Cells(HTMLParser):
    """The texts of table cells, and whether every element was closed in turn."""

    def __init__(self, page: str):
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag in ("td", "th"):
            self.texts.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.texts[-1] += data


def test_a_short_repr_says_what_it_is(result, search):
    access = gpuemu.shared_access("sm_89", "LDSM.4", CONFLICT)
    assert (
        repr(result)
        == f"<Result v2_shared_memory on sm_89: {result.cycles} cycles, 37 warp instructions, 12 bank conflicts>"
    )
    assert (
        repr(result.trace)
        == "<Trace v2_shared_memory for sm_89: 1 CTA, 1 warp, 37 warp instructions of 37 in the code>"
    )
    assert repr(access) == "<SharedAccess LDSM.4: 8 wavefronts, ideal 4, excess 4>"
    assert repr(search).startswith("<SearchResult 32x32:f32: best ")
    assert all(len(repr(thing)) < 140 for thing in (result, result.trace, access, search))


def test_a_result_is_shown_with_its_tables(result):
    texts, long = Cells(result._repr_html_()).texts, result.stalls["long_scoreboard"]
    for row in (
        ["Shared Load Matrix", "2", "16", "8", "8"],
        ["long_scoreboard", str(long), f" {long / sum(result.stalls.values()):.1%}"],
        ["tensor core", "32", f" {32 / result.cycles:.1%}"],
    ):
        assert any(texts[n : n + len(row)] == row for n in range(len(texts))), row
    assert f"{result.cycles} cycles, 37 warp instructions, {37 / result.cycles:.2f} per cycle" in result._repr_html_()
    none = gpuemu.run("v1_global", "sm_89")._repr_html_()
    assert "Shared memory" not in none


def test_a_trace_and_a_search_are_shown_as_tables(result, search):
    texts = Cells(gpuemu.load_trace("transpose_padded")._repr_html_()).texts
    assert {"compiled for", "block", "(1024, 1, 1)", "layout.pitch", "33"} <= set(texts)
    texts = Cells(search._repr_html_()).texts
    assert {"rank", "layout", "column", "column #2", search.best.label} <= set(texts)
    assert f"and {len(search.candidates) - 10} layouts more" in search._repr_html_()


def test_what_check_finds_and_how_configurations_rank_are_shown_as_tables():
    """Every answer has a form for notebooks: what was found, where, what is right; the order, and what is left out."""
    point = Point(gpuemu.load_trace("v5_swizzle").code[0], source=("k.cu", 7))
    finding = Finding("racecheck", Severity.ERROR, "Race", f"{SAY} both write", (point,), times=3, right="a barrier")
    found = Report("k", "sm_89", (1, 1, 1), (32, 1, 1), ("racecheck",), (finding,), ("a note",))
    texts = Cells(found._repr_html_()).texts
    assert ["error", "racecheck", f"{SAY} both write", "3", "a barrier"] == texts[texts.index("error") :][:5]
    assert any("k.cu:7" in text for text in texts)
    assert "<p>a note</p>" in found._repr_html_()
    assert "nothing found by racecheck" in replace(found, findings=())._repr_html_()
    row = RankedRow(1, "TILE=16", {"TILE": 16}, "L4", 1, {"nanoseconds": 2500.0, "limited_by": "DRAM"}, "fewer waves")
    order = Ranking(("L4",), (row,), (RefusedRow(2, "TILE=64", {"TILE": 64}, "L4", "too much shared memory"),))
    texts = Cells(order._repr_html_()).texts
    assert texts[texts.index("1") :][:3] == ["1", "TILE=16", "2.50"]
    assert {"DRAM", "fewer waves", "TILE=64", "too much shared memory"} <= set(texts)


def test_what_comes_from_outside_is_escaped(result):
    strange = replace(result, trace=replace(result.trace, name=SAY, about=SAY, layout={SAY: 1}))
    for page in (strange._repr_html_(), strange.trace._repr_html_()):
        assert "<i>&" not in page
        assert "&lt;i&gt;&amp;&quot;&#x27;" in page


@pytest.mark.parametrize("of", ["instructions", "lines", "warps", "issues", "accesses"])
def test_records_are_what_pandas_and_polars_take(result, of):
    rows = with_lines(result).records(of)
    assert rows
    assert all(type(value) in (int, float, str) for row in rows for value in row.values())
    assert polars.DataFrame(rows).to_dicts() == rows == pandas.DataFrame(rows).to_dict("records")


def test_records_add_up_to_the_result(result):
    frame = pandas.DataFrame(result.records())
    assert list(frame) == ["Place", "Control", "Source", *COLUMNS.values(), *stall_columns().values()]
    assert frame["L1 Wavefronts Shared Excessive"].sum() == 12
    for of in ("instructions", "warps"):
        stalls = {reason: sum(row[name] for row in result.records(of)) for reason, name in stall_columns().items()}
        assert stalls == result.stalls
    assert sum(row["Executed"] * row["Excess"] for row in result.records("accesses")) == 12
    assert len(result.records("issues")) == 37


def test_records_of_something_else_are_refused(result):
    with pytest.raises(gpuemu.GpuemuError) as caught:
        result.records("lanes")
    assert str(caught.value).startswith("records(): of: found 'lanes'")


def test_a_search_s_records_have_a_column_for_each_access(search):
    rows = search.records()
    assert len(rows) == len(search.candidates)
    assert all(row["wavefronts"] == row["copy-in:32"] + row["column"] + row["column #2"] for row in rows)
    assert polars.DataFrame(rows).shape[0] == len(rows)


@pytest.mark.parametrize(("op", "lanes", "banks"), [
    ("LDSM.4", CONFLICT, 32), ("LDS.32", [0] * 32, 32), ("LDS.64", [8 * n for n in range(32)], 64), ("ATOMS.ADD", [4] * 32, 32),
])  # fmt: skip
def test_a_picture_has_a_row_for_each_wavefront_and_the_lanes_in_its_cells(op, lanes, banks):
    arch = gpuemu.load_arch("sm_89").with_overrides({"shared_memory.banks": banks})
    access = gpuemu.shared_access(arch, op, lanes)
    picture = ET.fromstring(access._repr_html_())
    cells = picture.findall(f"{SVG}g")
    served = [wavefront for phase in access.phases for wavefront in phase.served]
    rows = sorted({float(cell.find(f"{SVG}rect").get("y")) for cell in cells})
    assert len(rows) == access.wavefronts
    for y, wavefront in zip(rows, served, strict=True):
        drawn = [cell for cell in cells if float(cell.find(f"{SVG}rect").get("y")) == y]
        assert len(drawn) == len({bank for _, _, bank in wavefront})
        for cell in drawn:
            said, label = cell.find(f"{SVG}title").text, cell.find(f"{SVG}text").text
            bank = int(said.split()[1].strip(","))
            of = [lane for lane, _, b in wavefront if b == bank]
            assert said.endswith(": " + ("lanes " if len(of) > 1 else "lane ") + ", ".join(map(str, of)))
            assert label == f"{of[0]}{'+' * (len(of) > 1)}"
    red = [t for t in picture.findall(f"{SVG}text") if t.get("fill")]
    assert len(red) == access.excess_wavefronts
    texts = [t.text for t in picture.findall(f"{SVG}text")]
    assert (
        f"{access.wavefronts} wavefronts, ideal {access.ideal_wavefronts}, excess {access.excess_wavefronts}" in texts
    )


def test_an_access_s_records_are_what_each_wavefront_serves():
    access = gpuemu.shared_access("sm_89", "LDSM.4", CONFLICT)
    rows = access.records()
    assert rows[0] == {"phase": 0, "wavefront": 1, "lane": 0, "word": 0, "bank": 0}
    assert max(row["wavefront"] for row in rows) == access.wavefronts
    assert sorted({row["lane"] for row in rows}) == list(range(32))


def test_the_command_draws_it():
    ran = CliRunner().invoke(cli, ["banks", "LDSM.4", "--lanes", "32*(lane%16) + 16*(lane//16)", "--format", "svg"])
    assert ran.exit_code == 0, ran.output
    assert ran.stdout == gpuemu.shared_access("sm_89", "LDSM.4", CONFLICT).svg()
