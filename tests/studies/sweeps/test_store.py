"""The store: what is in it is not run again, one sweep has it at a time, and what is no store is refused."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from gpuemu.studies.sweeps import store as room
from gpuemu.studies.sweeps.plan import Point
from gpuemu.studies.sweeps.store import Store
from gpuemu.studies.sweeps.work import Outcome

POINTS = [Point(n, 0, 0, {}, {}, f"key{n}", {"trace": "t", "a.x": n}) for n in range(4)]
NUMBERS = {"cycles": 100, "shared_bytes": 0, "excess_wavefronts": 0, "limited_by": "issue slots"}
DONE = [Outcome(n, {**NUMBERS, "cycles": 100 + n}) for n in range(4)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sweep.sqlite"


def write(path: Path, *outcomes: Outcome) -> None:
    with Store(path) as store:
        for outcome in outcomes:
            store.add(POINTS[outcome.number], outcome)


def read(path: Path, points: list[Point] = POINTS) -> dict[int, Outcome]:
    with Store(path) as store:
        return store.read(points)


def test_what_was_added_is_read_back(path: Path) -> None:
    write(path, DONE[0], DONE[2])
    write(path, DONE[1])
    assert read(path) == {0: DONE[0], 1: DONE[1], 2: DONE[2]}
    with closing(sqlite3.connect(path)) as file:
        assert [row[0] for row in file.execute("select point from results order by key")] == [
            f'{{"trace": "t", "a.x": {n}}}' for n in range(3)
        ]


def test_a_store_without_a_file_forgets() -> None:
    with Store(None) as store:
        store.add(POINTS[0], DONE[0])
        assert store.read(POINTS) == {}


def test_points_with_one_key_have_one_result(path: Path) -> None:
    write(path, DONE[0])
    twin = Point(9, 0, 0, {}, {}, "key0", {})
    assert read(path, [POINTS[0], twin]) == {0: DONE[0], 9: Outcome(9, DONE[0].numbers)}


def test_a_file_that_is_no_store_is_refused_and_left_alone(path: Path, refused) -> None:
    found = f"{path}: something else than results of a sweep, or a damaged file"
    path.write_text("kernel: v5_swizzle\n", encoding="utf-8")
    assert refused(read, path) == [found]
    assert path.read_text(encoding="utf-8") == "kernel: v5_swizzle\n"
    path.unlink()
    with closing(sqlite3.connect(path)) as other:
        other.execute("create table mine (x)")
    kept = path.read_bytes()
    assert refused(read, path) == [found]
    assert path.read_bytes() == kept
    (path.parent / "folder").mkdir()
    for wrong in (path.parent / "folder", path.parent / "missing" / "store"):
        assert refused(read, wrong) == [f"{wrong}: unable to open database file"]


@pytest.mark.parametrize("length", [1, 100, 1000, 4096, 6000])
def test_a_damaged_file_is_refused_by_name(path: Path, length: int, refused) -> None:
    write(path, *DONE)
    path.write_bytes(path.read_bytes()[:length])
    (message,) = refused(lambda: read(path))
    assert message.startswith(f"{path}: something else than results of a sweep, or a damaged file")


def test_a_failure_is_kept_if_it_is_the_points_own_and_tried_again_if_it_may_have_passed(path: Path) -> None:
    final, passing = Outcome(0, error="misaligned"), Outcome(1, error="MemoryError: ", final=False)
    write(path, final, passing)
    assert read(path) == {0: final}
    write(path, DONE[1])
    assert read(path) == {0: final, 1: DONE[1]}


def test_results_are_on_the_disk_soon_after_they_came(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the files is what a machine that goes down would have left."""
    monkeypatch.setattr(room, "_COMMIT_S", 0.0)
    with Store(path) as store:
        store.add(POINTS[0], DONE[0])
        copy = path.with_name("copy")
        copy.write_bytes(path.read_bytes())
        assert read(copy) == {0: DONE[0]}


def test_an_interruption_keeps_what_came(path: Path) -> None:
    def interrupted() -> None:
        with Store(path) as store:
            store.add(POINTS[0], DONE[0])
            store.add(POINTS[1], DONE[1])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert read(path) == {0: DONE[0], 1: DONE[1]}


def test_a_second_sweep_waits_for_the_first_and_finds_what_it_did(path: Path) -> None:
    waits, first_is_done = threading.Event(), threading.Event()
    found: list[dict[int, Outcome]] = []

    def second() -> None:
        with Store(path, waits.set) as store:
            assert first_is_done.is_set()
            found.append(store.read(POINTS))
            store.add(POINTS[3], DONE[3])

    thread = threading.Thread(target=second)
    with Store(path) as first:
        thread.start()
        assert waits.wait(10)
        first.add(POINTS[0], DONE[0])
        first.add(POINTS[1], DONE[1])
        first_is_done.set()
    thread.join(10)
    assert found == [{0: DONE[0], 1: DONE[1]}]
    assert read(path) == {n: DONE[n] for n in (0, 1, 3)}


def test_a_device_is_no_store_and_nothing_is_made_beside_it(path: Path, refused) -> None:
    path.symlink_to("/dev/null")
    assert len(refused(read, path)) == 1
    assert [one.name for one in path.parent.iterdir()] == [path.name]
