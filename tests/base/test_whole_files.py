"""A file is written whole or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import threading
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
    with pytest.raises(GpuemuError, match="no such file or directory"):
        write_whole(tmp_path / "none" / "a.yaml", b"new")


def test_a_file_that_is_replaced_keeps_its_mode_and_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("old")
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 12345, 23456)
    before = path.stat()
    write_whole(path, "new")
    after = path.stat()
    assert path.read_text() == "new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino


@pytest.mark.parametrize("there", [True, False])
def test_a_symbolic_link_stays_one_and_what_it_points_to_is_replaced(tmp_path: Path, there: bool) -> None:
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "a.yaml", tmp_path / "b.yaml"
    if there:
        target.write_text("old")
    link.symlink_to("far/a.yaml")
    write_whole(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.yaml", "b.yaml", "far"]


def test_a_file_with_two_names_keeps_both(tmp_path: Path) -> None:
    one, two = tmp_path / "a", tmp_path / "b"
    one.write_text("a longer text than the new one")
    two.hardlink_to(one)
    write_whole(two, "new")
    assert one.read_text() == two.read_text() == "new"
    assert one.stat().st_nlink == 2


def test_a_device_stays_a_device(tmp_path: Path) -> None:
    write_whole(Path("/dev/null"), "new")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    write_whole(link, "new")
    assert link.is_symlink()
    assert stat.S_ISCHR(link.stat().st_mode)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_a_device_that_is_full_is_an_error_with_a_sentence() -> None:
    with pytest.raises(GpuemuError, match=r"^/dev/full: no space left on device"):
        write_whole(Path("/dev/full"), "new")


def test_a_pipe_gets_what_is_written(tmp_path: Path) -> None:
    path, read = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_text()))
    reader.start()
    write_whole(path, "new" * 100_000)
    reader.join(10)
    assert read == ["new" * 100_000]
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize("into", ["file", "pipe"])
def test_standard_output_is_written_behind_what_stands_there(tmp_path: Path, name: str, into: str) -> None:
    code = f"from pathlib import Path; from gpuemu.base.whole_files import write_whole; print('a'); write_whole(Path({name!r}), 'b\\n'); print('c')"
    path = tmp_path / "out"
    path.write_text("old\n")
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    if into == "pipe":
        assert (
            subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout == "a\nb\nc\n"
        )
        return
    with path.open("a") as file:
        subprocess.run(command, env=environment, stdout=file, check=True)
    assert path.read_text() == "old\na\nb\nc\n"


def test_a_file_in_a_folder_where_none_can_be_made_is_written_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_text("a longer text than the new one")
    original = tempfile.mkstemp

    def refusing(dir: Path | None = None, prefix: str | None = None) -> tuple[int, str]:
        if dir == tmp_path:
            raise PermissionError
        return original(dir=dir, prefix=prefix)

    monkeypatch.setattr(tempfile, "mkstemp", refusing)
    write_whole(path, "new")
    assert path.read_text() == "new"
    with pytest.raises(GpuemuError):
        write_whole(tmp_path / "b", "new")
