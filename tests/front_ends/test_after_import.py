"""An act on a module right after a program has imported it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from gpuemu.triton.imports import after_import


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "imported_late.py").write_text("value = 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "imported_late", raising=False)
    return "imported_late"


def double(module: ModuleType) -> None:
    module.value *= 2


def test_a_module_is_changed_right_after_its_import(module: str) -> None:
    finders = len(sys.meta_path)
    with after_import(module, double):
        assert module not in sys.modules
        import imported_late  # type: ignore[import-not-found]

        assert imported_late.value == 2
        assert imported_late.__spec__.loader is imported_late.__loader__
        assert len(sys.meta_path) == finders


def test_a_module_that_is_there_is_changed_at_once(module: str) -> None:
    import imported_late

    with after_import(module, double):
        assert imported_late.value == 2


def test_nothing_stays_if_the_program_does_not_import_it(module: str) -> None:
    finders = list(sys.meta_path)
    with after_import(module, double):
        pass
    assert sys.meta_path == finders
    import imported_late

    assert imported_late.value == 1
