"""The site in a real Chromium, on a telephone, a laptop and a wide screen: no page is wider than its window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from views.browser import Browser

pytestmark = pytest.mark.slow

ALONE = ("example.html", "layout.html", "notebook.html")
"""They have tests of their own."""
WIDTHS = {"telephone": (390, 844), "laptop": (1280, 900), "wide screen": (1920, 1080)}
# What sticks out of the window on the right, but for what scrolls in a box of its own within the text, and the drawers
# beside it. On a narrow screen it is the theme's .content that would scroll, not the document.
STICKS_OUT = """(() => {
  const width = document.documentElement.clientWidth, found = [];
  for (const element of document.querySelectorAll("body *")) {
    const box = element.getBoundingClientRect();
    if (box.width === 0 || box.right <= width + 1 || element.closest(".sidebar-drawer, .toc-drawer")) continue;
    let around = element.parentElement;
    while (around && !["auto", "scroll"].includes(getComputedStyle(around).overflowX)) around = around.parentElement;
    if (!around?.closest("article")) found.push(`${element.tagName} ${element.className} ${element.textContent.slice(0, 40)}`);
  }
  const whole = [document.documentElement, document.querySelector(".content")];
  return whole.some(e => e && e.scrollWidth > e.clientWidth) ? ["the page itself", ...found] : found;
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize("screen", WIDTHS)
def test_no_page_is_wider_than_the_window(screen: str, browser: Browser, site: Path) -> None:
    browser.dress(*WIDTHS[screen], "light")
    wide = {}
    for page in sorted(site.rglob("*.html")):
        if page.name not in ALONE:
            browser.open(page)
            if found := browser.js(STICKS_OUT):
                wide[str(page.relative_to(site))] = found[:3]
    assert wide == {}


def test_code_that_is_wider_than_a_telephone_scrolls_in_its_box(browser: Browser, site: Path) -> None:
    browser.dress(*WIDTHS["telephone"], "light")
    browser.open(site / "README.html")
    wide = "[...document.querySelectorAll('pre')].find(pre => pre.textContent.includes('$ gpuemu'))"
    assert browser.js(f"(() => {{ const pre = {wide}; return pre.scrollWidth > pre.clientWidth; }})()")
    assert browser.js(f"(() => {{ const box = {wide}; box.scrollLeft = 50; return box.scrollLeft; }})()") == 50


def test_the_pages_follow_light_and_dark(browser: Browser, site: Path) -> None:
    colours = set()
    for scheme in ("light", "dark"):
        browser.dress(*WIDTHS["laptop"], scheme)
        browser.open(site / "README.html")
        colours.add(browser.js("getComputedStyle(document.body).backgroundColor"))
    assert len(colours) == 2


def test_a_page_opens_without_an_error_and_fetches_nothing_from_elsewhere(browser: Browser, site: Path) -> None:
    browser.dress(*WIDTHS["laptop"], "light")
    browser.open(site / "docs" / "api.html")
    assert [e for e in browser.events if e["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")] == []
    asked = [e["params"]["request"]["url"] for e in browser.events if e["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def test_what_is_too_wide_is_noticed(browser: Browser, site: Path) -> None:
    browser.dress(*WIDTHS["telephone"], "light")
    browser.open(site / "docs" / "speed.html")
    assert browser.js(STICKS_OUT) == []
    browser.js("document.querySelector('.table-wrapper').style.overflow = 'hidden'")
    assert browser.js(STICKS_OUT) != []
    browser.open(site / "README.html")
    browser.js("document.querySelectorAll('pre').forEach(pre => pre.style.overflow = 'visible')")
    assert browser.js(STICKS_OUT)[0] == "the page itself"


def test_code_is_copied_and_of_a_shown_command_the_command_alone(browser: Browser, site: Path) -> None:
    browser.dress(*WIDTHS["laptop"], "light")
    browser.open(site / "README.html")
    browser.js("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    browser.js(
        "[...document.querySelectorAll('button.copy')].find(b => b.parentElement.textContent.startsWith('$ ')).click()"
    )
    assert browser.js("window.copied") == "gpuemu why examples/kernels/transpose.cu --block 256"
    browser.open(site / "docs" / "howto" / "rank.html")  # a command that goes on in the next line
    browser.js("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    browser.js(
        "[...document.querySelectorAll('button.copy')].find(b => b.parentElement.textContent.startsWith('$ ')).click()"
    )
    copied = browser.js("window.copied")
    assert copied.startswith("gpuemu rank turned.cu ")
    assert copied.endswith("--arg 1024")
    assert copied.count(" \\\n") == copied.count("\n") > 0


def test_the_start_page_has_a_picture_a_report_and_the_page_of_layouts(browser: Browser, site: Path) -> None:
    browser.dress(*WIDTHS["telephone"], "light")
    browser.open(site / "README.html")
    assert browser.js("document.querySelector('article img').naturalWidth") == 1180
    links = browser.js("[...document.querySelectorAll('article a')].map(a => a.getAttribute('href'))")
    for page, shown in (("example.html", "#costs li"), ("layout.html", "#tile td"), ("notebook.html", ".shown")):
        assert page in links
        browser.open(site / page)
        assert browser.js(f"document.querySelectorAll('{shown}').length") >= 3
        assert browser.js("document.documentElement.scrollWidth <= innerWidth")
    browser.open(site / "docs" / "tutorial_zh.html")
    assert browser.js("document.documentElement.lang").startswith("zh")
