"""Golden files cannot make a test pass that compares nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


def test_a_golden_file_that_is_written_anew_fails_its_test(
    golden: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUEMU_UPDATE_GOLDEN", "1")
    with pytest.raises(pytest.fail.Exception, match=r"o\.txt is written anew: read it, and run the test without"):
        golden("o.txt", "new\n", tmp_path)
    monkeypatch.delenv("GPUEMU_UPDATE_GOLDEN")
    golden("o.txt", "new\n", tmp_path)
    with pytest.raises(AssertionError):
        golden("o.txt", "old\n", tmp_path)
