"""The documentation stays short enough to finish: pages, words, long lines and wide tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def prose(text: str) -> str:
    """A page without fenced and indented code and without tables."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return "\n".join(line for line in text.split("\n") if not line.startswith(("|", "    ")))


def long_lines(text: str) -> int:
    return sum(len(line) > 120 for line in text.split("\n") if not line.startswith("|"))


def columns(text: str) -> int:
    """Columns of the widest table; a table in a shown output is not one of the page."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    rows = [len(re.findall(r"(?<!\\)\|", line)) - 1 for line in text.split("\n") if line.startswith("|")]
    return max(rows, default=0)


def test_the_pages_are_few_and_short() -> None:
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    assert len(texts) <= 31
    assert sum(len(prose(text).split()) for text in texts) <= 26_000
    assert sum(map(long_lines, texts)) <= 40


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_table_is_wider_than_five_columns(page: Path) -> None:
    assert columns(page.read_text(encoding="utf-8")) <= 5


def test_excess_is_noticed() -> None:
    page = "# Title\n\nTwo words.\n\n| a | b | c | d | e | f |\n\n```text\nno prose\n```\n" + "x" * 121
    assert len(prose(page).split()) == 5
    assert (long_lines(page), columns(page)) == (1, 6)
