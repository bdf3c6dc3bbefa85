"""Folders of candidates are removed whole, and nothing around them changes."""

from __future__ import annotations

from pathlib import Path

from gpuemu.studies.judge import box


def test_a_folder_that_is_gone_leaves_the_mode_of_the_folder_around_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    box.remove(str(tmp_path / "gone"))
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_folders_that_their_owner_may_not_look_into_are_removed(tmp_path: Path) -> None:
    inner = tmp_path / "work" / "closed"
    inner.mkdir(parents=True)
    (inner / "file").write_text("x")
    inner.chmod(0)
    box.remove(str(tmp_path / "work"))
    assert not (tmp_path / "work").exists()
