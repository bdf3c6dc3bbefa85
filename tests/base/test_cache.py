"""What is kept between processes is whole or is not used, whatever became of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuemu.base import cache

Damage = Callable[[Path], object]


def kept(tmp_path: Path) -> Path:
    home = tmp_path / "cache" / "code-1"
    made, there = cache.ready(home)
    assert not there
    (made / "sub").mkdir()
    (made / "code.py").write_text("code")
    (made / "sub" / "code.nbc").write_bytes(bytes(1000))
    assert not home.exists()
    cache.keep(made, home)
    return home


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[500] ^= 1
    path.write_bytes(content)


DAMAGES: dict[str, Damage] = {
    "truncated": lambda home: os.truncate(home / "sub" / "code.nbc", 300),
    "empty": lambda home: os.truncate(home / "sub" / "code.nbc", 0),
    "flipped": lambda home: flip(home / "sub" / "code.nbc"),
    "missing": lambda home: (home / "code.py").unlink(),
    "a folder for a file": lambda home: ((home / "code.py").unlink(), (home / "code.py").mkdir()),
    "no list": lambda home: (home / cache.LIST).unlink(),
    "half a list": lambda home: os.truncate(home / cache.LIST, 40),
    "another list": lambda home: (home / cache.LIST).write_text("[1, 2]"),
    "an empty list": lambda home: (home / cache.LIST).write_text("{}"),
    "a list of other things": lambda home: (home / cache.LIST).write_text('{"code.py": 3}'),
    "no folder": lambda home: (shutil.rmtree(home), home.write_text("a file")),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_what_is_damaged_is_thrown_away_said_in_a_line_and_made_anew(
    damage: Damage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = kept(tmp_path)
    assert cache.is_whole(home)
    assert cache.ready(home) == (home, True)
    assert capsys.readouterr().err == ""
    damage(home)
    assert not cache.is_whole(home)
    assert not home.exists()
    said = f"{home}: found damaged in the cache of compiled code; it is thrown away, and made anew when it is needed\n"
    assert capsys.readouterr().err == said
    assert cache.is_whole(kept(tmp_path))


def test_a_copy_has_the_time_of_the_original(tmp_path: Path) -> None:
    home = kept(tmp_path)
    before = (home / "code.py").stat().st_mtime_ns
    os.utime(home / "code.py", ns=(1, 1))
    assert cache.is_whole(home)
    assert (home / "code.py").stat().st_mtime_ns == before


def test_of_two_processes_the_first_one_keeps_its_own(tmp_path: Path) -> None:
    home = tmp_path / "cache" / "code-1"
    (one, _), (two, _) = cache.ready(home), cache.ready(home)
    for place, text in ((one, "one"), (two, "two")):
        (place / "code.py").write_text(text)
        cache.keep(place, home)
    assert (home / "code.py").read_text() == "one"
    assert [path.name for path in home.parent.iterdir()] == ["code-1"]


def test_nothing_is_kept_of_a_process_that_made_nothing(tmp_path: Path) -> None:
    home = tmp_path / "cache" / "code-1"
    cache.keep(cache.ready(home)[0], home)
    assert list(home.parent.iterdir()) == []


@pytest.mark.parametrize("place", ["/dev/null", "/dev/null/deeper", "file", "file/deeper", "/proc/nowhere"])
def test_a_cache_that_is_no_folder_is_said_and_something_else_is_used(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    home = tmp_path / place / "code-1"
    made, there = cache.ready(home)
    assert not there
    assert made.is_dir()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{home.parent}: found ")
    cache.keep(made, home)
    assert not cache.is_whole(home)
