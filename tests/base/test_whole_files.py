"""A file is written whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gpuemu.base.errors import GpuemuError
from gpuemu.base.whole_files import whole_file, write_whole


def test_what_goes_wrong_on_the_way_leaves_the_file_that_was_there_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("old")

    def interrupted() -> None:
        with whole_file(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.yaml", "old")]


def test_the_whole_takes_its_place_and_others_may_read_it_as_the_umask_says(tmp_path: Path) -> None:
    path, before = tmp_path / "a.yaml", os.umask(0o027)
    try:
        write_whole(path, "new")
    finally:
        os.umask(before)
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(GpuemuError, match="no such file or directory; a file that can be written is right"):
        write_whole(tmp_path / "none" / "a.yaml", b"new")
