"""The report in a real Chromium: opened, clicked, walked by keys, its numbers held against the JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import floor
from pathlib import Path

import numpy as np
import pytest
from views.browser import Browser, chromium
from views.test_report_page import RANKED, with_lines

import gpuemu
from gpuemu.views.definitions import definition
from gpuemu.views.json_result import as_data
from gpuemu.views.report.page import as_html
from gpuemu.views.source import instructions
from gpuemu.views.timeline import timeline

pytestmark = pytest.mark.slow

TEXT = ["__global__ void k() {", *(f"  step({n});" for n in range(2, 12)), "}"]


@pytest.fixture(scope="module")
def result() -> gpuemu.Result:
    return with_lines(gpuemu.run("v2_shared_memory", "sm_89"))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def page(browser: Browser, result: gpuemu.Result, tmp_path: Path) -> Browser:
    file = tmp_path / "report.html"
    file.write_text(as_html(result, {"k.cu": TEXT}, [RANKED]), encoding="utf-8")
    browser.dress(1280, 900, "light")
    browser.open(file)
    return browser


def texts(page: Browser, selector: str) -> list[str]:
    return page.js(f"[...document.querySelectorAll({selector!r})].map(e => e.textContent.trim())")


def test_it_opens_without_an_error_and_fetches_nothing(page):
    assert [e for e in page.events if e["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")] == []
    asked = [e["params"]["request"]["url"] for e in page.events if e["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith("data:")] == [page.js("location.href")]


def test_the_numbers_it_shows_are_those_of_the_json(page, result):
    data = json.loads(json.dumps(as_data(result)))
    assert page.js("document.getElementById('cycles').textContent") == str(result.cycles)
    bounds = [b["cycles"] for b in data["bounds"] if not b["resource"].startswith("latency of one warp, ")]
    much = [f"{cycles:,}" for cycles in bounds if cycles >= 0.03 * result.cycles]
    assert texts(page, "#bounds tbody td:nth-child(2)") == much
    assert len(much) + len(texts(page, "#bounds + details td:nth-child(2)")) == len(bounds)
    total = sum(data["stalls"].values())
    shown = sorted((cycles for cycles in data["stalls"].values() if cycles >= 0.03 * total), reverse=True)
    assert texts(page, "#stalls tbody td:nth-child(2)") == [str(cycles) for cycles in shown]
    rows = [row for row in data["shared_memory"] if row["instructions"]]
    wanted = [str(row[f]) for row in rows for f in ("instructions", "wavefronts", "ideal_wavefronts", "bank_conflicts")]
    assert texts(page, "#shared tbody td") == wanted
    assert texts(page, "#counters td") == [f"{count:,}" for count in data["counters"].values()]
    wide = page.js("[...document.querySelectorAll('#bounds .bar i')].map(e => e.getBoundingClientRect().width)")
    assert wide == sorted(wide, reverse=True)
    assert wide[1] / wide[0] == pytest.approx(bounds[1] / bounds[0], abs=0.02)
    cycles = [row.cycles for row in instructions(result.program, result.log)]
    assert texts(page, "#sass td.heat") == [str(cycles) for cycles in cycles]
    (said,) = texts(page, "#summed")
    assert f"the only warp: {total:,} in total" in said
    assert sum(cycles) == total


def test_an_instruction_shows_its_lines_and_its_accesses(page, result):
    page.click("#sass tr[data-row='22'] td")
    assert texts(page, "#sass tr.chosen td:nth-child(1)") == ["0160"]
    assert texts(page, "#lines tr.linked td:nth-child(1)") == ["5"]
    assert page.js("document.getElementById('access').selectedOptions[0].textContent").startswith("0160 LDSM.16.M88.4")
    assert texts(page, "#which") == ["all 8"]
    assert len(texts(page, "#wavefronts tbody tr")) == 8
    assert len(texts(page, "#wavefronts tr.excess")) == 4
    assert texts(page, "#wavefronts tbody tr:nth-child(2) td.word") == ["4"] * 4 + ["5"] * 4 + ["6"] * 4 + ["7"] * 4
    tile = texts(page, "#tile tbody tr:nth-child(5) td")
    assert tile == ["4"] * 4 + ["20"] * 4
    assert page.js("document.getElementById('pitch').value") == "32"


def test_a_line_shows_its_instructions(page):
    page.click("#lines tr[data-row='1'] td")
    assert texts(page, "#sass tr.linked td:nth-child(1)") == ["0050", "0060", "0070", "0080", "0090"]
    assert texts(page, "#lines tr.chosen td.source") == ["step(2);"]


def test_wavefronts_are_stepped_through_and_the_pitch_is_one_s_own(page):
    page.click("#sass tr[data-row='22'] td")
    page.click("#after")
    assert texts(page, "#which") == ["1 of 8"]
    assert texts(page, "#wavefronts tr.now th[scope=row]") == ["1"]
    assert sorted(set(texts(page, "#tile td.word:not(.away)"))) == ["0", "1", "2", "3"]
    page.click("#before")
    page.click("#before")
    assert texts(page, "#which") == ["8 of 8"]
    page.click("#pitch")
    page.js("document.getElementById('pitch').value = ''")
    for digit in "128":
        page.key(digit, digit)
    assert len(texts(page, "#tile tbody tr")) == 4
    assert len(texts(page, "#tile tbody tr:first-child td")) == 32


def test_a_column_s_head_sorts_and_sorts_back(page, result):
    head = "#sass thead th:nth-child(2) button"
    cycles = [row.cycles for row in instructions(result.program, result.log)]
    page.click(head)
    assert [int(text) for text in texts(page, "#sass td:nth-child(2)")] == sorted(cycles, reverse=True)
    assert page.js("document.querySelector('#sass th:nth-child(2)').getAttribute('aria-sort')") == "descending"
    page.click(head)
    assert [int(text) for text in texts(page, "#sass td:nth-child(2)")] == sorted(cycles)
    page.click("#sass thead th:nth-child(1) button")
    assert texts(page, "#sass td:nth-child(1)") == [f"{16 * n:04x}" for n in range(37)]


def rounded(cycle: float) -> int:
    """As the page rounds: halves upwards."""
    return floor(cycle + 0.5)


def shown(start: float, stop: float) -> list[str]:
    """What the page says of a window."""
    return [f"cycles {rounded(start)} to {rounded(stop)}"]


def test_keys_reach_everything(page, result):
    cycles = result.cycles
    lines = timeline(result.program, result.log, result.arch)
    page.js("document.querySelector('#sass tr[tabindex=\"0\"]').focus()")
    for _ in range(22):
        page.key("ArrowDown")
    page.key("Enter")
    assert texts(page, "#sass tr.chosen td:nth-child(1)") == ["0160"]
    page.js("document.getElementById('chart').focus()")
    assert texts(page, "#window") == shown(0, cycles)
    page.key("+", "+")
    assert texts(page, "#window") == shown(cycles / 4, cycles * 3 / 4)
    page.key("ArrowRight")
    assert texts(page, "#window") == shown(cycles * 5 / 16, cycles * 13 / 16)
    first = int(np.searchsorted(lines.issue, cycles * 5 / 16))
    assert lines.issue[17] - lines.issue[first] < 25 < lines.waited[18].sum()
    page.key("ArrowUp")  # the warp, and no instruction of it
    for _ in range(first, 18 + 1):
        page.key(".", ".")
    (picked,) = texts(page, "#picked")
    assert picked.startswith(f"warp 0 of CTA 0, cycle {lines.issue[18]}: 0120  STS.128 [R2.X16], R4")
    assert f"waited {lines.waited[18].sum()} cycles, mostly Long Scoreboard" in picked
    assert texts(page, "#sass tr.chosen td:nth-child(1)") == ["0120"]
    for _ in range(18):
        page.key(".", ".")
    (picked,) = texts(page, "#picked")
    assert "0240  EXIT" in picked
    assert f"then drained for {result.warps[0].stalls['drain']}" in picked
    page.key("0", "0")
    assert texts(page, "#window") == shown(0, cycles)
    stops = page.js(
        "[...document.querySelectorAll('a, button, select, input, canvas[role=application], tr[tabindex=\"0\"]')]"
        ".filter(e => e.offsetParent && e.tabIndex < 0).length"
    )
    assert stops == 0


def test_the_wheel_zooms_where_it_is_and_a_click_picks(page, result):
    page.js("document.getElementById('chart').scrollIntoView({block: 'center'})")
    left, top, width = page.js(
        "(() => { const r = document.getElementById('chart').getBoundingClientRect(); return [r.left, r.top, r.width]; })()"
    )
    middle = left + 97 + (width - 98) / 2
    page.js("document.getElementById('chart').focus({preventScroll: true})")
    page.call("Input.dispatchMouseEvent", type="mouseWheel", x=middle, y=top + 30, deltaX=0, deltaY=-100)
    assert texts(page, "#window") == shown(result.cycles / 10, result.cycles * 9 / 10)
    for kind in ("mousePressed", "mouseReleased"):
        page.call("Input.dispatchMouseEvent", type=kind, x=middle, y=top + 30, button="left", clickCount=1)
    assert re.match(r"warp 0 of CTA 0, cycle \d+: 0120", texts(page, "#picked")[0])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_it_is_readable_at_three_widths_in_both_schemes(page, width, scheme):
    page.dress(width, 900, scheme)
    assert page.js("document.documentElement.scrollWidth") == width
    smallest = page.js(
        "Math.min(...[...document.querySelectorAll('td, th, p, button, a')].filter(e => e.offsetParent)"
        ".map(e => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert smallest >= 10
    longest = "Math.max(...[...document.querySelectorAll('#bounds .bar i')].map(e => e.getBoundingClientRect().width))"
    assert page.js(longest) >= 20, "bars are bars on a telephone, too"
    tallest = "Math.max(...[...document.querySelectorAll('#causes th[scope=row]')].map(e => e.getBoundingClientRect().height))"
    assert page.js(tallest) < 80, "a cause's name does not run down the page"
    light = "(c => { const [r, g, b] = c.match(/[0-9.]+/g).map(Number).map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; })"
    ink, faint, paper = (
        page.js(f"{light}(getComputedStyle({element})[{name!r}])")
        for element, name in (
            ("document.body", "color"), ("document.querySelector('.hint')", "color"), ("document.body", "backgroundColor"),
        )
    )  # fmt: skip
    assert (paper > 0.9) if scheme == "light" else (paper < 0.05)
    for text in (ink, faint):
        assert (max(text, paper) + 0.05) / (min(text, paper) + 0.05) >= 4.5
    cells = page.js(
        f"[...document.querySelectorAll('#tile td.word')].map(e => [{light}(getComputedStyle(e).color), {light}(getComputedStyle(e).backgroundColor)])"
    )
    assert min((max(pair) + 0.05) / (min(pair) + 0.05) for pair in cells) >= 4.5


def test_an_instruction_is_found_in_the_timeline_and_a_range_is_measured(page, result):
    page.click("#costs a")
    (picked,) = texts(page, "#picked")
    chosen = texts(page, "#sass tr.chosen td:nth-child(1)")[0]
    assert picked.startswith("warp 0 of CTA 0, cycle ")
    assert f": {chosen} " in picked
    page.js("document.getElementById('chart').scrollIntoView({block: 'center'})")
    left, top = page.js(
        "(() => { const r = document.getElementById('chart').getBoundingClientRect(); return [r.left, r.top]; })()"
    )
    for kind, x in (("mousePressed", 200), ("mouseMoved", 500), ("mouseMoved", 500)):
        page.call(
            "Input.dispatchMouseEvent", type=kind, x=left + x, y=top + 30, button="left", buttons=1, modifiers=8,
            clickCount=1,
        )  # fmt: skip
    low, high, length = map(
        int, re.fullmatch(r"cycles (\d+) to (\d+): (\d+) cycles", texts(page, "#window")[0]).groups()
    )
    assert high - low == length == pytest.approx(300 / (1232 - 96) * result.cycles, abs=3)
    assert page.js("document.getElementById('chart').title") == ""
    page.call("Input.dispatchMouseEvent", type="mouseReleased", x=left + 500, y=top + 30, button="left", clickCount=1)
    left, top = page.js(
        "(() => { const r = document.getElementById('chart').getBoundingClientRect(); return [r.left, r.top]; })()"
    )
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=left + 300, y=top + 30)
    assert re.match(r"cycle \d+: 0[0-9a-f]{3} [A-Z]", page.js("document.getElementById('chart').title"))


def test_the_wheel_zooms_a_chosen_timeline_and_scrolls_the_page_otherwise(page, result):
    page.js("document.getElementById('chart').scrollIntoView({block: 'center'})")
    left, top = page.js(
        "(() => { const r = document.getElementById('chart').getBoundingClientRect(); return [r.left, r.top]; })()"
    )
    windows = [shown(0, result.cycles)]
    for way in ("focus", "blur"):  # scrolling comes last: it moves the chart, and nobody knows when
        page.js(f"document.getElementById('chart').{way}()")
        page.call("Input.dispatchMouseEvent", type="mouseWheel", x=left + 400, y=top + 30, deltaX=0, deltaY=-100)
        windows.append(texts(page, "#window"))
    whole, chosen, left_alone = windows
    assert whole != chosen == left_alone


def test_the_theme_is_one_s_own(page):
    page.click("#theme")
    page.click("#theme")
    assert texts(page, "#theme") == ["theme: dark"]
    assert page.js("document.documentElement.dataset.theme") == "dark"


def test_what_comes_from_outside_is_text(browser, result, tmp_path):
    file = tmp_path / "strange.html"
    say = "<img src=x onerror='document.title=1'>"
    file.write_text(
        as_html(
            with_lines(result, say),
            {say: [say] * 9},
            [{**RANKED, "title": say, "fixes": [{"tiles": say, "gained": 1, "code": say}]}],
        ),
        encoding="utf-8",
    )
    browser.open(file)
    browser.click("#sass tr[data-row='22'] td")
    assert browser.js("document.images.length") == 0
    assert browser.js("document.title").startswith("v2_shared_memory on sm_89")
    assert texts(browser, "#lines tr[data-row='0'] td.source") == [say]


def test_a_value_is_found_by_a_part_of_its_name(page):
    page.click("#find")
    for letter in "queue_e":
        page.key(letter, letter)
    shown = page.js(
        "[...document.querySelectorAll('#values tbody tr')].filter(e => !e.hidden).map(e => e.cells[0].textContent)"
    )
    assert shown == [name for name in shown if "queue_e" in name] != []


def test_the_chart_is_dragged_along_and_up(browser, tmp_path):
    file = tmp_path / "many.html"
    file.write_text(as_html(gpuemu.run("transpose_plain", "sm_89")), encoding="utf-8")
    browser.dress(1280, 900, "light")
    browser.open(file)
    browser.click("[data-zoom=in]")
    before = texts(browser, "#window")[0]
    assert before.endswith("warps 1 to 26 of 32")
    left, top = browser.js(
        "(() => { const r = document.getElementById('chart').getBoundingClientRect(); return [r.left, r.top]; })()"
    )
    for kind, x, y in (("mousePressed", 600, 200), ("mouseMoved", 500, 140), ("mouseReleased", 500, 140)):
        buttons = 0 if kind == "mouseReleased" else 1
        browser.call(
            "Input.dispatchMouseEvent", type=kind, x=left + x, y=top + y, button="left", buttons=buttons, clickCount=1
        )
    after = texts(browser, "#window")[0]
    assert after.endswith("warps 4 to 29 of 32")
    assert after.split(",")[0] != before.split(",")[0]


@pytest.mark.parametrize(("demanded", "outcome"), [("", pytest.skip.Exception), ("required", pytest.fail.Exception)])
def test_without_a_browser_tests_skip_unless_one_is_demanded(monkeypatch, demanded, outcome):
    monkeypatch.setattr("views.browser.DEMANDED", demanded)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(outcome, match="chromium"):
        chromium()


def long_source(result: gpuemu.Result) -> tuple[gpuemu.Result, list[str]]:
    """The result as if its code came from the end of a long file."""
    code = tuple(replace(i, source=(("long.cu", 400 + n),)) for n, i in enumerate(result.program.code))
    return replace(result, program=replace(result.program, code=code)), [f"line {n};" for n in range(1, 600)]


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_the_source_opens_at_the_hottest_line_with_its_text(browser, result, tmp_path, width):
    moved, text = long_source(result)
    rows = instructions(moved.program, moved.log)
    hottest = max(range(len(rows)), key=lambda n: rows[n].cycles)
    file = tmp_path / "long.html"
    file.write_text(as_html(moved, {"long.cu": text}), encoding="utf-8")
    browser.dress(width, 900, "light")
    browser.open(file)
    assert texts(browser, "#lines tr.chosen td.source") == [f"line {400 + hottest};"]
    assert texts(browser, "#sass tr.linked td:nth-child(1)") == [rows[hottest].place]
    inside = """(selector => { const e = document.querySelector(selector), box = e.closest('.scroll').getBoundingClientRect(),
        own = e.getBoundingClientRect(); return own.top >= box.top && own.bottom <= box.bottom && own.left < box.right; })"""
    assert browser.js(f"{inside}('#lines tr.chosen td.source')")
    assert browser.js(f"{inside}('#sass tr.linked td.source')")
    characters = browser.js(
        "(e => e.getBoundingClientRect().width / 7.3)(document.querySelector('#lines tr.chosen td.source'))"
    )
    assert characters >= 48
    # The digits of the cycles and their bar are side by side.
    apart = """(() => { const cell = document.querySelector('#lines tr.chosen td.heat'), range = document.createRange();
        range.selectNodeContents(cell.firstChild);
        return cell.querySelector('i').getBoundingClientRect().left - range.getBoundingClientRect().right; })()"""
    assert browser.js(apart) >= 0
    browser.js("document.activeElement.blur()")
    second = sorted(range(len(rows)), key=lambda n: (-rows[n].cycles, n))[1]
    browser.key("h", "h")
    assert texts(browser, "#lines tr.chosen td.source") == [f"line {400 + second};"]
    browser.click("#hottest")
    assert texts(browser, "#lines tr.chosen td.source") != [f"line {400 + second};"]


def test_inlined_code_is_hottest_where_it_is_written(browser, result, tmp_path):
    """All code is called from line 3, and a call is not where the cycles go."""
    code = tuple(replace(i, source=(("k.cu", 10 + n % 2), ("k.cu", 3))) for n, i in enumerate(result.program.code))
    inlined = replace(result, program=replace(result.program, code=code))
    file = tmp_path / "inlined.html"
    file.write_text(as_html(inlined, {"k.cu": [f"line {n};" for n in range(1, 20)]}), encoding="utf-8")
    browser.open(file)
    (chosen,) = texts(browser, "#lines tr.chosen td.source")
    assert chosen in ("line 10;", "line 11;")


def test_a_metric_shows_its_definition(page):
    page.js("document.querySelector('#schedulers .term').scrollIntoView({block: 'center'})")
    assert page.js("document.getElementById('tip').hidden")
    left, top = page.js(
        "(r => [r.left + 5, r.top + 5])(document.querySelector('#schedulers .term').getBoundingClientRect())"
    )
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=left, y=top)
    assert texts(page, "#tip") == [definition("Active Warps Per Scheduler")]
    assert page.js(
        "(r => r.right <= innerWidth && r.bottom <= innerHeight)(document.getElementById('tip').getBoundingClientRect())"
    )
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    assert page.js("document.getElementById('tip').hidden")
    page.js("document.querySelector('#sass thead th:nth-child(2) button').focus()")
    assert texts(page, "#tip") == [definition("Warp Stall Cycles")]


def test_the_help_is_behind_a_question_mark(page):
    assert not page.js("document.getElementById('help').open")
    page.key("?", "?")
    assert page.js("document.getElementById('help').open")
    assert "Measure cycles." in page.js("document.getElementById('help').textContent")
    page.click("#close")
    assert not page.js("document.getElementById('help').open")
    page.click("#helped")
    assert page.js("document.getElementById('help').open")
    page.js("document.getElementById('help').close()")
    page.js("document.getElementById('find').focus()")
    page.key("?", "?")
    assert not page.js("document.getElementById('help').open")


def test_the_command_of_a_cause_is_shown_on_request(page):
    assert page.js("document.getElementById('command-1').hidden")
    page.click("[data-shows='command-1']")
    assert not page.js("document.getElementById('command-1').hidden")
    assert texts(page, "#command-1 code") == RANKED["commands"]


@pytest.mark.parametrize(("width", "columns"), [(390, 1), (1280, 2), (1920, 3)])
def test_cards_leave_no_holes(page, width, columns):
    page.dress(width, 900, "light")
    boxes = page.js(
        "[...document.querySelectorAll('.cards > .card')].map(e => { const r = e.getBoundingClientRect();"
        " return [Math.round(r.left), r.top, r.bottom]; })"
    )
    found: dict[int, list[tuple[float, float]]] = {}
    for left, top, bottom in boxes:
        found.setdefault(left, []).append((top, bottom))
    assert len(found) == columns
    for column in found.values():
        assert all(top - above <= 30 for (_, above), (top, _) in pairwise(column))
    ends = [column[-1][1] for column in found.values()]
    assert max(ends) - min(ends) < 0.45 * (max(ends) - boxes[0][1])


def test_nothing_of_the_pictures_is_cut(browser, tmp_path):
    file = tmp_path / "gemm.html"
    file.write_text(as_html(gpuemu.run("gemm_tile_plain", "sm_89")), encoding="utf-8")
    for width in (390, 1280, 1920):
        browser.dress(width, 900, "light")
        browser.open(file)
        outside = """(() => { const box = document.querySelector('.roofline svg').getBoundingClientRect();
            return [...document.querySelectorAll('.roofline text')].filter(e => { const r = e.getBoundingClientRect();
            return r.left < box.left - 0.5 || r.right > box.right + 0.5 || r.top < box.top - 0.5 || r.bottom > box.bottom + 0.5; })
            .map(e => e.textContent); })()"""
        assert browser.js(outside) == []
        size = browser.js(
            "(e => parseFloat(getComputedStyle(e).fontSize) * e.ownerSVGElement.getBoundingClientRect().width / 480)"
            "(document.querySelector('.roofline text'))"
        )
        assert 9.5 <= size <= 14
        warps = "(e => [e.scrollWidth, e.clientWidth])(document.getElementById('warps').parentElement)"
        if width > 390:
            wide, room = browser.js(warps)
            assert wide <= room
        # Each tick of the timeline is drawn within its canvas.
        browser.js("""(() => { window.drawn = []; const own = CanvasRenderingContext2D.prototype.fillText;
            CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
              if (this.canvas.id === 'chart' && y === 9) drawn.push(x + this.measureText(text).width <= this.canvas.clientWidth);
              own.apply(this, arguments); }; })()""")
        for _ in range(6):
            browser.click("[data-zoom=in]")
        browser.click("[data-zoom=all]")
        ticks = browser.js("drawn")
        assert len(ticks) > 6
        assert all(ticks)


def test_texts_of_copies_do_not_cover_each_other(browser, tmp_path):
    file = tmp_path / "tma.html"
    file.write_text(as_html(gpuemu.run("product_tma", "sm_90")), encoding="utf-8")
    browser.dress(1280, 900, "dark")
    browser.open(file)
    assert [e for e in browser.events if e["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")] == []
    browser.js("""(() => { window.drawn = []; const own = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
          if (this.canvas.id === 'tracks' && x > 90) drawn.push([y, x, x + this.measureText(text).width, this.globalAlpha]);
          own.apply(this, arguments); }; })()""")
    browser.click("[data-zoom=all]")
    texts_drawn = browser.js("drawn")
    assert len(texts_drawn) >= 3
    assert {alpha for *_, alpha in texts_drawn} == {1}
    for (row, _, end, _), (next_row, begin, _, _) in pairwise(texts_drawn):
        assert next_row != row or begin >= end
