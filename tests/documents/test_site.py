"""The site of the documents: built without a warning, every page in it, and links that lead somewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import gpuemu

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


class Page(HTMLParser):
    """The anchors of a page, what it links to, and what it fetches."""

    def __init__(self, file: Path):
        super().__init__()
        self.anchors: set[str] = {""}
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id":
                self.anchors.add(value or "")
            elif name in ("href", "src") and value:
                (self.links if tag == "a" else self.fetched).append(value)


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: Page(file) for file in site.rglob("*.html")}


def test_every_document_is_a_page_and_the_start_is_found(site: Path) -> None:
    documents = ["README", "CHANGELOG", "CONTRIBUTING", "SECURITY", "validation/README", "validation/DEVIATIONS"]
    documents += [str(p.relative_to(ROOT).with_suffix("")) for p in (ROOT / "docs").rglob("*.md")]
    assert [name for name in documents if not (site / f"{name}.html").is_file()] == []


def test_the_landing_page_leads_to_each_kind_of_page(pages: dict[Path, Page], site: Path) -> None:
    links = pages[site / "index.html"].links
    assert {"README.html", "example.html", "layout.html", "notebook.html"} <= set(links)
    text = (site / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<h3>([A-Z][^<]*)</h3>", text) == ["Tutorials", "How-to guides", "Reference", "How it works"]


def test_the_sidebar_has_at_most_30_links(site: Path) -> None:
    text = (site / "README.html").read_text(encoding="utf-8")
    (tree,) = re.findall(r'<div class="sidebar-tree">.*?</div>', text, re.DOTALL)
    assert 20 < len(re.findall(r'<li class="toctree-l1', tree)) <= 30


def test_every_link_within_the_site_leads_to_a_page_and_a_place_in_it(pages: dict[Path, Page]) -> None:
    wrong = []
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            there = target.is_file() and (target.suffix != ".html" or unquote(parts.fragment) in pages[target].anchors)
            if not there:
                wrong.append(f"{file.name}: {link}")
    assert wrong == []


def test_the_page_of_layouts_opens_and_is_not_downloaded(site: Path, pages: dict[Path, Page]) -> None:
    assert "../layout.html" in pages[site / "docs" / "layouts.html"].links
    assert "_downloads" not in " ".join(
        link for link in pages[site / "docs" / "layouts.html"].links if "layout.html" in link
    )


def test_pages_fetch_nothing_from_elsewhere(pages: dict[Path, Page]) -> None:
    assert [fetched for page in pages.values() for fetched in page.fetched if urlsplit(fetched).netloc] == []


def test_each_page_says_its_language_and_what_a_link_to_it_shows(site: Path) -> None:
    for page in ("README.html", "docs/tutorial.html", "docs/tutorial_zh.html"):
        text = (site / page).read_text(encoding="utf-8")
        assert f'lang="{"zh" if "_zh" in page else "en"}"' in text
        shown = dict(re.findall(r'<meta property="(og:\w+)" content="([^"]+)"', text))
        assert set(shown) == {"og:type", "og:title", "og:description", "og:image"}
        assert (site / page).parent.joinpath(shown["og:image"]).resolve() == (site / "_static/report.png").resolve()
        assert "icon.svg" in text
    assert (site / "_static" / "report.png").is_file()


def test_no_text_is_left_in_the_marks_of_its_source(pages: dict[Path, Page], site: Path) -> None:
    for file in pages:
        text = file.read_text(encoding="utf-8")
        assert "```" not in text, file
        assert "problematic" not in text, file


def test_the_api_page_has_every_public_name_and_what_it_returns(site: Path, pages: dict[Path, Page]) -> None:
    page = site / "docs" / "api.html"
    assert {f"gpuemu.{name}" for name in gpuemu.__all__} <= pages[page].anchors
    text = page.read_text(encoding="utf-8")
    returned = re.findall(r'sig-return-typehint">.*?</dt>', text, re.DOTALL)
    types = {"Result", "Trace", "Architecture", "SharedAccess", "Answer", "Report", "SearchResult"}
    linked = {
        name for each in returned for name in re.findall(r'<a class="reference internal"[^>]*>.*?(\w+)</span>', each)
    }
    assert types <= linked
    assert "factory" not in text
    (example,) = re.findall(r'id="gpuemu.sweep".*?<pre>(.*?)</pre>', text, re.DOTALL)[:1]
    assert re.sub(r"<[^>]+>", "", example).startswith("records = gpuemu.sweep(")
