"""The store: what is in it is not run again, what was torn is left aside, and what is no store is refused."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from gpuemu.studies.sweeps.plan import Point
from gpuemu.studies.sweeps.store import HEADER, Store
from gpuemu.studies.sweeps.work import Outcome

POINTS = [Point(n, 0, 0, {}, {}, f"key{n}", {"trace": "t", "a.x": n}) for n in range(4)]
NUMBERS = {"cycles": 100, "shared_bytes": 0, "excess_wavefronts": 0, "limited_by": "issue slots"}
DONE = [Outcome(n, {**NUMBERS, "cycles": 100 + n}) for n in range(4)]


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


def test_a_second_sweep_waits_for_the_first_and_finds_what_it_did(path: Path) -> None:
    waits, first_is_done = threading.Event(), threading.Event()
    found: list[dict[int, Outcome]] = []

    def second() -> None:
        with Store(path, waits.set) as store:
            assert first_is_done.is_set()
            found.append(store.read(POINTS))
            store.add([(POINTS[3], DONE[3])])

    thread = threading.Thread(target=second)
    with Store(path) as first:
        thread.start()
        assert waits.wait(10)
        first.add([(POINTS[0], DONE[0])])
        first.add([(POINTS[1], DONE[1])])
        first_is_done.set()
    thread.join(10)
    assert found == [{0: DONE[0], 1: DONE[1]}]
    assert Store(path).read(POINTS) == {n: DONE[n] for n in (0, 1, 3)}
    assert path.read_text(encoding="utf-8").count(HEADER) == 1


def test_a_sweep_that_waited_for_one_without_an_outcome_has_a_file_of_its_own(path: Path) -> None:
    waits = threading.Event()

    def second() -> None:
        with Store(path, waits.set) as store:
            store.add([(POINTS[0], DONE[0])])

    thread = threading.Thread(target=second)
    with Store(path):
        thread.start()
        assert waits.wait(10)
    thread.join(10)
    assert Store(path).read(POINTS) == {0: DONE[0]}


def test_an_empty_file_that_was_there_stays(path: Path) -> None:
    path.touch()
    with Store(path) as store:
        assert store.read(POINTS) == {}
    assert path.exists()


def test_a_line_with_any_byte_changed_is_left_aside(path: Path) -> None:
    write(path, DONE[0])
    head, line = path.read_bytes().splitlines(keepends=True)
    for place in range(len(line) - 1):
        for other in (line[place] ^ 1, line[place] ^ 16, ord("7")):
            changed = line[:place] + bytes([other]) + line[place + 1 :]
            path.write_bytes(head + changed)
            assert Store(path).read(POINTS) in ([{}] if changed != line else [{0: DONE[0]}])


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"key": "key0"},
        {"key": ["key0"], "numbers": NUMBERS},
        {"key": "key0", "numbers": None},
        {"key": "key0", "numbers": {}},
        {"key": "key0", "numbers": {**NUMBERS, "cycles": "abc"}},
        {"key": "key0", "numbers": {**NUMBERS, "cycles": True}},
        {"key": "key0", "numbers": {**NUMBERS, "limited_by": 3}},
        {"key": "key0", "numbers": {**NUMBERS, "wavefronts": [1]}},
        {"key": "key0", "numbers": NUMBERS, "final": "no"},
        {"key": "key0", "numbers": NUMBERS, "error": "both"},
        {"key": "key0", "error": ""},
        {"key": "key0", "error": 3},
    ],
)
def test_a_line_of_another_form_is_left_aside_whatever_its_sum(path: Path, entry: dict[str, Any]) -> None:
    write(path, DONE[1])
    text = json.dumps({**entry, "point": {}}, separators=(",", ":"))
    total = hashlib.sha256(text.encode()).hexdigest()[:16]
    with path.open("a", encoding="utf-8") as file:
        file.write(f'{text}\n{{"sum":"{total}",{text[1:]}\n')
    assert Store(path).read(POINTS) == {1: DONE[1]}
    write(path, DONE[0])
    assert Store(path).read(POINTS) == {0: DONE[0], 1: DONE[1]}
