"""What others may have written is not used: a cache is this user's alone, or another is."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpuemu.base import cache, private_folders, telling
from gpuemu.studies import elsewhere
from gpuemu.studies.elsewhere import Workers

if not hasattr(os, "getuid"):
    pytest.skip("a user's folders are the user's on Windows", allow_module_level=True)

NAME = "engine-0123456789abcdef"
STRANGER = 54321
Give = Callable[[Path], None]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def _new_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    private_folders.private_folder.cache_clear()
    monkeypatch.setattr(telling, "_told", set())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("GPUEMU_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Give:
    """Makes a folder another user's; only root can do so really."""
    given: set[Path] = set()
    real = private_folders._other_owner
    monkeypatch.setattr(private_folders, "_other_owner", lambda p: str(STRANGER) if p in given else real(p))

    def give(folder: Path) -> None:
        if os.getuid() == 0:
            os.chown(folder, STRANGER, -1)
        else:
            given.add(folder)

    return give


def a_cache(folder: Path, permissions: int) -> Path:
    """A folder with something whole in it, as an older gpuemu left it."""
    made, _ = cache.ready(folder / NAME)
    (made / "code.py").write_text("code")
    cache.keep(made, folder / NAME)
    (folder / "cubins").mkdir(mode=permissions)
    for one in (folder, folder / "cubins"):
        one.chmod(permissions)
    return folder


def test_what_gpuemu_makes_is_for_its_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUEMU_CACHE", str(tmp_path / "new" / "cache"))
    cache.keep_file(cache.cache_folder() / "cubins" / "one", b"content", 100)
    made, _ = cache.ready(cache.cache_folder() / NAME)
    folders = (tmp_path / "new", cache.cache_folder(), cache.cache_folder() / "cubins", made)
    assert [mode(one) for one in folders] == [0o700] * 4


def test_older_folders_of_its_own_are_tightened_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = a_cache(tmp_path / "cache", 0o755)
    assert cache.cache_folder() == home
    assert (mode(home), mode(home / "cubins")) == (0o700, 0o700)
    assert cache.is_whole(home / NAME)
    assert capsys.readouterr().err == ""


def test_a_folder_that_is_not_a_cache_alone_keeps_its_mode(tmp_path: Path) -> None:
    home = a_cache(tmp_path / "cache", 0o755)
    (home / "letters").mkdir(mode=0o755)
    assert cache.cache_folder() == home
    assert [mode(home / name) for name in (".", "letters", "cubins")] == [0o755, 0o755, 0o700]


@pytest.mark.parametrize("permissions", [0o777, 0o775])
def test_a_cache_that_others_could_write_is_emptied_once_and_used_again(
    permissions: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = a_cache(tmp_path / "cache", permissions)
    assert cache.cache_folder() == home
    assert (mode(home), list(home.iterdir())) == (0o700, [])
    assert capsys.readouterr().err == f"{home}: other users could write to this cache. gpuemu has emptied it.\n"
    a_cache(home, 0o700)
    private_folders.private_folder.cache_clear()
    assert cache.cache_folder() == home
    assert cache.is_whole(home / NAME)
    assert capsys.readouterr().err == ""
    assert [one.name for one in tmp_path.iterdir() if "cache" in one.name] == ["cache"]


@pytest.mark.parametrize("permissions", [0o777, 0o1777])
def test_a_folder_with_other_things_that_others_may_write_is_left_as_it_is(
    permissions: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = a_cache(tmp_path / "cache", 0o755)
    (home / "letters").write_text("dear")
    home.chmod(permissions)
    own = tmp_path / "home" / "gpuemu"
    assert cache.cache_folder() == own
    assert (mode(home), mode(own)) == (permissions, 0o700)
    assert (home / "letters").read_text() == "dear"
    assert (home / NAME / "code.py").exists()
    said = (
        f"{home}: other users may write to this cache. gpuemu uses {own}. Set GPUEMU_CACHE to a folder of your own.\n"
    )
    assert capsys.readouterr().err == said


def test_the_cache_of_another_user_is_replaced_named_once_and_what_is_made_there_is_found_again(
    tmp_path: Path, give: Give, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = a_cache(tmp_path / "cache", 0o755)
    give(theirs)
    own = tmp_path / "home" / "gpuemu"
    for _ in range(2):
        assert cache.cache_folder() == own
    said = f"{theirs}: this cache belongs to another user (uid {STRANGER}). gpuemu uses {own}. Set GPUEMU_CACHE to a folder of your own.\n"
    assert capsys.readouterr().err == said
    assert not cache.is_whole(cache.cache_folder() / NAME)
    assert cache.is_whole(theirs / NAME)
    a_cache(cache.cache_folder(), 0o700)
    private_folders.private_folder.cache_clear()
    assert cache.is_whole(cache.cache_folder() / NAME)


def test_a_link_of_another_user_is_not_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if os.getuid() != 0:
        pytest.skip("only root gives a link away")
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "cache").symlink_to(tmp_path / "mine")
    assert cache.cache_folder() == tmp_path / "cache"
    private_folders.private_folder.cache_clear()
    os.chown(tmp_path / "cache", STRANGER, -1, follow_symlinks=False)
    assert cache.cache_folder() == tmp_path / "home" / "gpuemu"


def test_where_the_home_is_not_private_either_the_temporary_folder_has_one(tmp_path: Path, give: Give) -> None:
    for folder in (tmp_path / "cache", tmp_path / "home" / "gpuemu"):
        folder.mkdir(parents=True)
        give(folder)
    own = tmp_path / "temporary" / f"gpuemu-{os.getuid()}"
    assert cache.cache_folder() == own
    assert mode(own) == 0o700


def test_where_nothing_is_private_nothing_is_kept(
    tmp_path: Path, give: Give, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (
        tmp_path / "cache",
        tmp_path / "home" / "gpuemu",
        tmp_path / "temporary" / f"gpuemu-{os.getuid()}",
    ):
        folder.mkdir(parents=True)
        give(folder)
    assert cache.refusal(cache.cache_folder() / NAME)
    assert "gpuemu keeps nothing. Set GPUEMU_CACHE to a folder of your own." in capsys.readouterr().err


def test_what_another_user_put_into_a_private_cache_goes(tmp_path: Path, give: Give) -> None:
    home = a_cache(tmp_path / "cache", 0o755)
    give(home / NAME)
    (home / "cubins").chmod(0o777)
    assert cache.cache_folder() == home
    assert list(home.iterdir()) == []


def test_a_user_without_a_home_has_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.delenv("GPUEMU_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    assert cache.cache_folder() == tmp_path / "temporary" / f"gpuemu-{os.getuid()}"


def test_windows_has_no_owner_to_look_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = a_cache(tmp_path / "cache", 0o777)
    monkeypatch.delattr(os, "getuid")
    assert cache.cache_folder() == home
    assert cache.is_whole(home / NAME)


@dataclass
class Places:
    """Where a worker keeps things."""

    def run(self, task: int) -> str:
        return str(cache.cache_folder())


@pytest.mark.slow
def test_workers_say_nothing_of_it_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "letters").touch()
    (tmp_path / "cache").chmod(0o777)
    monkeypatch.setattr(elsewhere, "HERE_S", 0.0)
    with Workers(Places(), 2) as workers:
        assert set(workers.outcomes(range(8))) == {str(tmp_path / "home" / "gpuemu")}
    assert capfd.readouterr().err.count("\n") == 1
