"""The site's page of layouts: its own rules count what Python counts, its layouts put elements where Python's do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from views.browser import Browser

from gpuemu.banks.operations import AccessKind
from gpuemu.banks.wavefronts import BankGeometry, count
from gpuemu.studies.layout.spelling import parse_layout
from gpuemu.studies.layout.tile import Tile

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[2] / "docs" / "site" / "layout.html"
KINDS = {"load": AccessKind.LOAD, "store": AccessKind.STORE, "ldmatrix": AccessKind.LOAD_MATRIX}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        opened.dress(1280, 900, "light")
        opened.open(PAGE)
        yield opened


@pytest.mark.parametrize(("kind", "width"), [(k, w) for k in ("load", "store") for w in (8, 32, 64, 128)] + [("ldmatrix", n) for n in (1, 2, 4)])  # fmt: skip
def test_wavefronts_are_counted_as_python_counts_them(page: Browser, kind: str, width: int) -> None:
    size = 16 if kind == "ldmatrix" else width // 8
    draw = np.random.default_rng(width)
    rows = [size * draw.integers(0, most, 32) for most in (2, 40, 400, 4000) for _ in range(25)]
    rows += [size * (np.arange(32) // 2), size * 8 * (np.arange(32) % 16), 512 * np.arange(32)]
    active = draw.random((len(rows), 32)) < np.array([[1.0], [0.5], [0.9]] * len(rows))[: len(rows)]
    found = page.js(
        f"{json.dumps([[r.tolist(), a.tolist()] for r, a in zip(rows, active, strict=True)])}"
        f".map(([a, on]) => wavefronts('{kind}', {width}, a, on)).map(one => [one.wavefronts, one.ideal])"
    )
    wanted = count(BankGeometry(), KINDS[kind], width, np.array(rows), active)
    assert found == np.stack([wanted.wavefronts, wanted.ideal], axis=1).tolist()


@pytest.mark.parametrize("name", ["plain", "pad:8", "Swizzle<2,3,3>", "Swizzle<3,3,3>", "Swizzle<1,2,4>"])
def test_layouts_put_elements_where_pythons_do(page: Browser, name: str) -> None:
    tile = Tile.parse("16x64:f16", where=("test", None, ""))
    wanted = parse_layout(name, tile, 32)
    found = page.js(
        f"(l => Array.from({{length: 16 * 64}}, (_, i) => l.at(Math.floor(i / 64), i % 64)))(parseLayout('{name}', 16, 64))"
    )
    assert found == wanted.places(tile).reshape(-1).tolist()


def test_layouts_of_cute_go_in_and_come_out(page: Browser) -> None:
    at = page.js(
        "(l => [l.at(1, 0), l.at(0, 1), l.at(3, 5), l.cute])(parseLayout('((2,2),(4,2)):((1,64),(2,16))', 4, 8))"
    )
    assert at == [1, 2, 1 + 64 + 2 + 16, "((2,2),(4,2)):((1,64),(2,16))"]
    assert page.js("parseLayout('Swizzle<2,3,3>', 16, 32).cute") == "Swizzle<2,3,3> o (16,32):(32,1)"
    # The accumulator of mma.m16n8: lane 5 holds the rows 1 and 9 of columns 2 and 3, in a tile of 16 by 8.
    tv = "((4,8),(2,2)):((32,1),(16,8))"
    places = page.js(f"accesses('tv', 16, 8, 1, '{tv}').map(lanes => lanes[5])")
    assert places == [[1, 2], [1, 3], [9, 2], [9, 3]]


def test_a_link_keeps_the_choice_and_the_page_says_what_is_wrong(page: Browser) -> None:
    page.js("document.getElementById('layout').value = 'Swizzle<2,3,3>'")
    page.js("document.getElementById('form').dispatchEvent(new Event('input'))")
    assert page.js("document.getElementById('verdict').textContent") == "No bank conflicts: 8 wavefronts"
    link = page.js("document.getElementById('link').href")
    page.js("document.getElementById('layout').value = 'plain'; draw()")
    assert "are bank conflicts" in page.js("document.getElementById('verdict').textContent")
    page.js(f"location.hash = new URL('{link}').hash; new Promise(done => setTimeout(done, 100))")
    assert page.js("document.getElementById('layout').value") == "Swizzle<2,3,3>"
    page.js("document.getElementById('layout').value = 'padd:8'; draw()")
    assert page.js("document.getElementById('verdict').textContent").startswith("padd:8: expected plain, pad:8, ")
    page.js("document.getElementById('layout').value = 'pad:4'; draw()")
    assert "needs a multiple" in page.js("document.getElementById('verdict').textContent")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_it_fits_the_window(page: Browser, width: int, scheme: str) -> None:
    page.dress(width, 900, scheme)
    assert page.js("document.documentElement.scrollWidth") == width
    assert [e for e in page.events if e["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")] == []
    page.dress(1280, 900, "light")


def test_presets_show_their_wavefronts_and_choose_a_layout(page: Browser) -> None:
    page.open(PAGE)
    shown = "[...document.querySelectorAll('[data-preset] span')].map(e => e.textContent)"
    assert page.js(shown) == ["plain: 32 wavefronts", "pad:8: 8 wavefronts", "Swizzle<2,3,3>: 8 wavefronts"]
    for preset, layout in (("swizzled", "Swizzle<2,3,3>"), ("padded", "pad:8"), ("plain", "plain")):
        page.click(f"[data-preset={preset}]")
        assert page.js("document.getElementById('layout').value") == layout
        assert page.js(f"document.querySelector('[data-preset={preset}]').getAttribute('aria-pressed')") == "true"
    assert page.js("document.getElementById('told').textContent").endswith(
        "Access 1 takes 16 wavefronts; the minimum is 4."
    )
    # The presets are those of the tile: floats down a column need another swizzle.
    page.js(
        "for (const [k, v] of Object.entries({rows: 32, columns: 32, bytes: 4, access: 'column', width: 32}))"
        " document.getElementById(k).value = v; draw()"
    )
    plain, padded, swizzled = page.js(shown)
    assert plain == "plain: 1024 wavefronts"
    assert padded == "pad:1: 32 wavefronts"
    assert swizzled == "Swizzle<5,0,5>: 32 wavefronts"


def test_the_banks_have_a_row_for_each_wavefront(page: Browser) -> None:
    page.open(PAGE)
    rows = "document.querySelectorAll('#banks tr').length - 1"
    assert page.js(rows) == 16
    assert page.js("document.querySelectorAll('#banks tr.excess').length") == 12
    page.click("[data-preset=swizzled]")
    assert page.js(rows) == 4
    assert page.js("document.querySelectorAll('#banks td.asked').length") == 128
    assert page.js("document.querySelectorAll('#banks tr.excess').length") == 0


def test_the_page_leads_back_and_says_what_a_wavefront_is(page: Browser) -> None:
    page.open(PAGE)
    links = page.js("[...document.querySelectorAll('nav a')].map(a => a.getAttribute('href'))")
    assert {"index.html", "README.html", "docs/layouts.html", "docs/glossary.html"} <= set(links)
    assert "A wavefront is one pass through shared memory" in page.js("document.body.textContent")


def test_labels_and_controls_are_on_lines(page: Browser) -> None:
    """The controls of a row of the form are as high as each other, and no label breaks."""
    page.dress(1280, 900, "light")
    page.open(PAGE)
    page.js("document.getElementById('access').value = 'tv'; draw()")
    boxes = page.js(
        "[...document.querySelectorAll('form label')].filter(e => e.offsetParent).map(e => {"
        " const c = e.querySelector('input, select').getBoundingClientRect(), l = e.getBoundingClientRect();"
        " return [Math.round(l.top), Math.round(c.top), c.top - l.top]; })"
    )
    tops = {top: {control for t, control, _ in boxes if t == top} for top, _, _ in boxes}
    assert all(len(controls) == 1 for controls in tops.values())
    assert max(above for _, _, above in boxes) < 26
