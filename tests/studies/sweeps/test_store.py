"""The store: what is in it is not run again, what was torn is left aside, and what is no store is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuemu.studies.sweeps.plan import Point
from gpuemu.studies.sweeps.store import HEADER, Store
from gpuemu.studies.sweeps.work import Outcome

POINTS = [Point(n, 0, 0, {}, {}, f"key{n}", {"trace": "t", "a.x": n}) for n in range(4)]
DONE = [Outcome(n, {"cycles": 100 + n}) for n in range(4)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sweep.jsonl"


def write(path: Path, *outcomes: Outcome) -> None:
    with Store(path) as store:
        store.add((POINTS[outcome.number], outcome) for outcome in outcomes)


def test_what_was_added_is_read_back(path: Path) -> None:
    write(path, DONE[0], DONE[2])
    write(path, DONE[1])
    assert Store(path).read(POINTS) == {0: DONE[0], 1: DONE[1], 2: DONE[2]}
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] + "\n" == HEADER
    assert [json.loads(line)["point"]["a.x"] for line in lines[1:]] == [0, 2, 1]


def test_nothing_is_written_before_there_is_an_outcome(path: Path) -> None:
    with Store(path) as store:
        assert store.read(POINTS) == {}
    assert not path.exists()


def test_a_store_without_a_file_forgets(path: Path) -> None:
    with Store(None) as store:
        store.add([(POINTS[0], DONE[0])])
        assert store.read(POINTS) == {}


def test_points_with_one_key_have_one_result(path: Path) -> None:
    write(path, DONE[0])
    twin = Point(9, 0, 0, {}, {}, "key0", {})
    assert Store(path).read([POINTS[0], twin]) == {0: DONE[0], 9: Outcome(9, DONE[0].numbers)}


@pytest.mark.parametrize("length", range(1, 40))
def test_a_torn_last_line_is_left_aside_and_costs_nothing_else(path: Path, length: int) -> None:
    write(path, *DONE[:3])
    whole = path.read_bytes()
    path.write_bytes(whole[:-length])
    assert Store(path).read(POINTS) == {0: DONE[0], 1: DONE[1]} | ({2: DONE[2]} if length == 1 else {})
    write(path, DONE[3])
    assert Store(path).read(POINTS) == {0: DONE[0], 1: DONE[1], 3: DONE[3]} | ({2: DONE[2]} if length == 1 else {})
    write(path, DONE[2])
    assert Store(path).read(POINTS) == dict(enumerate(DONE))


@pytest.mark.parametrize("length", range(len(HEADER)))
def test_a_first_line_that_was_torn_is_written_anew(path: Path, length: int) -> None:
    path.write_text(HEADER[:length], encoding="utf-8")
    assert Store(path).read(POINTS) == {}
    write(path, DONE[0])
    assert Store(path).read(POINTS) == {0: DONE[0]}
    assert path.read_text(encoding="utf-8").startswith(HEADER)


def test_a_file_that_is_no_store_is_refused_and_left_alone(path: Path, refused) -> None:
    path.write_text("kernel: v5_swizzle\n", encoding="utf-8")
    right = "a file that gpuemu sweep wrote, or none, is right"
    assert refused(Store(path).read, POINTS) == [f"{path}:1: found something else than results of a sweep; {right}"]
    assert refused(Store(path.parent).read, POINTS) == [f"{path.parent}: found is a directory; {right}"]
    missing = path.parent / "missing" / "store"
    assert refused(Store(missing).add, [(POINTS[0], DONE[0])]) == [
        f"{missing}: found no such file or directory; a file that can be written is right"
    ]
    assert path.read_text(encoding="utf-8") == "kernel: v5_swizzle\n"


def test_a_failure_is_kept_if_it_is_the_points_own_and_tried_again_if_it_may_have_passed(path: Path) -> None:
    final, passing = Outcome(0, error="misaligned"), Outcome(1, error="MemoryError: ", final=False)
    write(path, final, passing)
    assert Store(path).read(POINTS) == {0: final}
    write(path, DONE[1])
    assert Store(path).read(POINTS) == {0: final, 1: DONE[1]}


def test_results_are_on_the_disk_when_add_returns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    monkeypatch.setattr("os.fsync", lambda number: synced.append(path.read_bytes().count(b"\n")))
    with Store(path) as store:
        store.add([(POINTS[0], DONE[0]), (POINTS[1], DONE[1])])
        assert synced == [3]
        store.add([(POINTS[2], DONE[2])])
        assert synced == [3, 4]


def test_two_sweeps_may_share_a_store(path: Path) -> None:
    with Store(path) as first, Store(path) as second:
        first.add([(POINTS[0], DONE[0])])
        second.add([(POINTS[1], DONE[1])])
        first.add([(POINTS[2], DONE[2])])
        second.add([(POINTS[3], DONE[3])])
    assert Store(path).read(POINTS) == dict(enumerate(DONE))
    assert path.read_text(encoding="utf-8").count(HEADER) == 1
