"""The README's picture shows the report as it is, and its tool takes it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from views.browser import chromium

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("renew_picture", ROOT / "tools" / "renew_picture.py")
assert spec is not None
assert spec.loader is not None
renew = importlib.util.module_from_spec(spec)
spec.loader.exec_module(renew)


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The top of the report as it is now."""
    page = tmp_path_factory.mktemp("report") / "report.html"
    renew.report(page)
    text: str = renew.summary(page)
    return text


@pytest.mark.slow
def test_the_picture_has_the_figures_of_the_report(summary: str) -> None:
    shown = renew.text_of(renew.PICTURE.read_bytes())
    assert renew.figures(shown) == renew.figures(summary), "python tools/renew_picture.py takes the picture"
    assert len(renew.figures(summary)) > 20
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"](docs/static/{renew.PICTURE.name})" in readme
    assert " ".join(renew.COMMAND) in readme


@pytest.mark.slow
def test_the_command_takes_the_picture(summary: str, tmp_path: Path) -> None:
    chromium()
    renew.main(tmp_path / "report.png")
    taken, committed = ((folder / "report.png").read_bytes() for folder in (tmp_path, renew.PICTURE.parent))
    assert taken[:24] == committed[:24], "the size"
    assert renew.figures(renew.text_of(taken)) == renew.figures(summary)


def test_a_picture_carries_its_text_once_and_stays_a_picture() -> None:
    committed = renew.PICTURE.read_bytes()
    assert renew.text_of(renew.with_text(committed.replace(b"Summary\0", b"Comment\0"), "12 cycles")) == "12 cycles"
    assert renew.text_of(committed[:100]) == ""
