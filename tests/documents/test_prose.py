"""Texts do not fall back into English that nobody speaks; `tools/prose.py` has the rules."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("prose", Path(__file__).parents[2] / "tools" / "prose.py")
assert SPEC is not None
assert SPEC.loader is not None
prose = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(prose)

MOST = {
    "idioms that are not English": 2,
    "errors that say what would be right": 0,
    "sentences that begin with Of, What, Who or It": 1,
    "stands, where it should be is": 0,
}
"""Faults that are left. A number here may only fall."""


@pytest.mark.slow
def test_there_are_no_more_faults_than_before() -> None:
    counts = Counter(kind for kind, _ in prose.faults(prose.texts()))
    assert {kind: counts[kind] for kind in MOST} == MOST, "python tools/prose.py --show lists them"
    assert MOST.keys() == prose.KINDS.keys()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a barrier that hangs on a warp", "idioms that are not English"),
        ("found 3; 4 is right", "errors that say what would be right"),
        ("What it takes.", "sentences that begin with Of, What, Who or It"),
        ("Rows.\nOf each warp.", "sentences that begin with Of, What, Who or It"),
        ("a value that stands in the file", "stands, where it should be is"),
    ],
)
def test_a_fault_is_found_in_docstrings_comments_and_pages(text: str, kind: str) -> None:
    code = f'def f():\n    """{text}"""\n'
    assert [found for found, _ in prose.faults(prose.of_code("a.py", code))] == [kind]
    assert [found for found, _ in prose.faults(prose.of_code("a.py", f"x = 1  # {text.splitlines()[-1]}"))] == [kind]
    assert [found for found, _ in prose.faults(prose.of_page("a.md", f"# Title\n\n{text}\n"))] == [kind]
    assert not list(prose.faults(prose.of_page("a.md", f"```\n{text}\n```\n")))


def test_pages_of_the_repository_are_read(tmp_path: Path) -> None:
    for path in ("gpuemu/a.py", "validation/b.py", "docs/howto/c.md", "docs/d_zh.md", "README.md"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text('"""A sentence of five words."""\n', encoding="utf-8")
    read = [one.path for one in prose.texts(tmp_path)]
    assert read == ["gpuemu/a.py", "validation/b.py", "docs/howto/c.md", "README.md"]
    assert len(prose.sentences(prose.texts(tmp_path))) == 2
