"""What is kept between processes is whole or is not used, whatever became of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
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
    said = f"{home}: damaged in the cache of compiled code. gpuemu deletes it and makes it again when needed.\n"
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
    assert line.startswith(f"{home.parent}: ")
    assert ". gpuemu keeps no compiled code. Set GPUEMU_CACHE" in line
    cache.keep(made, home)
    assert not cache.is_whole(home)


MAKER = """
import sys, time
from pathlib import Path
from gpuemu.base import cache
home, marks = Path(sys.argv[1]), Path(sys.argv[2])
with cache.turn(home, lambda: (marks / f"waits {sys.argv[3]}").touch()) as is_made:
    place, there = cache.ready(home)
    assert there == is_made
    if not there:
        (marks / f"makes {sys.argv[3]}").touch()
        time.sleep(float(sys.argv[4]))
        (place / "code.py").write_text("code")
        cache.keep(place, home)
"""


def maker(home: Path, marks: Path, number: int, seconds: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", MAKER, home, marks, str(number), str(seconds)])


def marked(marks: Path, word: str) -> list[str]:
    return [path.name for path in marks.glob(f"{word} *")]


def wait_until(condition: Callable[[], object]) -> None:
    """Long enough for a busy machine; what never comes fails the assertion that follows."""
    limit = time.monotonic() + 60
    while not condition() and time.monotonic() < limit:
        time.sleep(0.01)


@pytest.mark.slow
def test_of_five_processes_at_once_one_makes_it_and_the_others_wait(tmp_path: Path) -> None:
    home, marks = tmp_path / "cache" / "code-1", tmp_path / "marks"
    marks.mkdir()
    makers = [maker(home, marks, number, 2.0) for number in range(5)]
    assert [one.wait(60) for one in makers] == [0] * 5
    assert len(marked(marks, "makes")) == 1
    assert [path.name for path in home.parent.iterdir() if not path.name.endswith(".lock")] == ["code-1"]


def test_the_next_one_goes_on_when_the_process_that_made_it_is_killed(tmp_path: Path) -> None:
    home, marks = tmp_path / "cache" / "code-1", tmp_path / "marks"
    marks.mkdir()
    first = maker(home, marks, 0, 600.0)
    wait_until(lambda: marked(marks, "makes"))
    second = maker(home, marks, 1, 0.0)
    wait_until(lambda: marked(marks, "waits"))
    assert marked(marks, "waits") == ["waits 1"]
    first.kill()
    first.wait()
    assert second.wait(60) == 0
    assert cache.is_whole(home)


def test_who_has_waited_long_enough_is_told(tmp_path: Path) -> None:
    home, marks = tmp_path / "cache" / "code-1", tmp_path / "marks"
    marks.mkdir()
    first = maker(home, marks, 0, 600.0)
    waited = []
    try:
        wait_until(lambda: marked(marks, "makes"))
        with (
            pytest.raises(TimeoutError, match=r"another process still makes .*code-1"),
            cache.turn(home, lambda: waited.append(1), most_s=0.3),
        ):
            pytest.fail("it is being made")
    finally:
        first.kill()
        first.wait()
    assert waited == [1]
    assert cache.LOCK_S == 600


def test_where_nothing_can_be_kept_nobody_waits(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with cache.turn(tmp_path / "file" / "code-1") as is_made, cache.turn(tmp_path / "file" / "code-1"):
        assert not is_made


def test_a_folder_is_looked_through_at_first_and_after_each_hundredth_of_what_it_may_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: looks.append(number) or scan(folder))
    for number in range(200):
        cache.keep_file(tmp_path / f"{number:03}", bytes(20), 10_000)
    assert looks == list(range(0, 200, 5))
    kept = sorted(file.name for file in tmp_path.iterdir())
    assert kept[-1] == "199"
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 10_000 + 5 * 85
    assert len(kept) < 200
