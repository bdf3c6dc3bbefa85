"""The headline cannot be forged: each way of doing so is a problem that `python -m validation verify` names."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gpuemu
from validation import records, score, split, verify
from validation import replay as replaying
from validation.__main__ import main
from validation.fit.searching import Search

FOLDER = records.data_folder("h200")
SCORES = Path(verify.__file__).parent / "report" / "h200" / "scores.csv"
NAMES = verify.pinned()
ROWS = tuple(csv.DictReader(SCORES.read_text(encoding="utf-8").splitlines()))
HELD_OUT = [row for row in ROWS if row["name"] in NAMES]
Forgery = Callable[[dict[str, str]], dict[str, str]]


def forged(change: Forgery) -> list[dict[str, str]]:
    rows = [change(dict(row)) for row in ROWS]
    assert rows != list(ROWS)
    return rows


def row_problems(rows: Any) -> list[str]:
    return verify.row_problems("scores.csv", rows, FOLDER, NAMES)


@pytest.mark.slow
def test_what_is_committed_verifies(capsys: pytest.CaptureFixture[str]) -> None:
    """64 of the held-out kernels replayed and more: the command that CI runs."""
    assert main(["verify", "--gpu", "h200", "--jobs", "1"]) == 0, capsys.readouterr().err
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "2,193 rows of scores.csv compared with the measurements and the split"
    assert said[1] == "76 kernels replayed and compared with their rows, 64 of the 208 held-out ones"
    assert said[-1] == "0 problems"


@pytest.mark.slow
def test_emulated_cycles_that_were_set_to_the_measured_ones_are_found(tmp_path: Path) -> None:
    """But for the shortest kernel of each family: who is replayed hangs on the forged file itself."""
    shortest = {
        min((r for r in ROWS if r["family"] == f), key=lambda r: int(r["measured"]))["name"] for f in families()
    }
    scores = written(
        tmp_path / "scores.csv",
        forged(lambda r: r | {"emulated": r["measured"]} if r["name"] in NAMES - shortest else r),
    )
    rows = [row for row in csv.DictReader(scores.read_text().splitlines()) if row["name"] in NAMES]
    lies = {r["name"] for r, true in zip(rows, HELD_OUT, strict=True) if r != true}
    assert len(lies) > 100
    drawn = verify.draw(scores.read_bytes(), rows, verify.SAMPLE.held_out)
    assert len({row["name"] for row in drawn}) == 64
    caught = [row for row in drawn if row["name"] in lies]
    assert len(caught) > 20
    for row in caught[:3]:
        (problem,) = verify.replay_problems("scores.csv", [row], FOLDER, gpuemu.load_arch("sm_90"))
        assert problem.startswith(f"scores.csv: {row['name']}: emulated is '{row['measured']}', ")


def test_measured_cycles_that_were_set_to_the_emulated_ones_are_found() -> None:
    wrong = [row for row in ROWS if row["measured"] != row["emulated"]]
    found = row_problems(forged(lambda r: r | {"measured": r["emulated"]}))
    assert len(found) == len(wrong) > 500
    line = ROWS.index(wrong[0]) + 2
    assert found[0] == (
        f"scores.csv:{line}: {wrong[0]['name']}: measured is '{wrong[0]['emulated']}', expected '{wrong[0]['measured']}'"
    )


def test_kernels_that_were_taken_from_the_held_out_ones_are_found() -> None:
    bad = {row["name"] for row in HELD_OUT if int(row["emulated"]) != int(row["measured"])}
    found = row_problems(forged(lambda r: r | {"held_out": "0"} if r["name"] in bad else r))
    assert len(found) == len(bad) > 50
    assert all("held_out is '0', expected '1'" in line for line in found)


@pytest.mark.parametrize("change", [lambda rows: rows[1:], lambda rows: rows[::-1], lambda rows: [*rows, rows[0]]])
def test_rows_that_are_missing_or_doubled_are_found(change: Any) -> None:
    assert row_problems(change(list(ROWS))) == [
        "scores.csv: its kernels are not those of measurements.csv, in that order"
    ]


@pytest.mark.parametrize("byte", [1, 31])
def test_a_split_by_another_byte_is_found(monkeypatch: pytest.MonkeyPatch, byte: int) -> None:
    def another(name: str, family: str) -> bool:
        return family in split.JUDGED_FAMILIES and hashlib.sha256(name.encode()).digest()[byte] % 3 == 0

    assert verify.split_problems(NAMES) == []
    monkeypatch.setattr(verify, "held_out", another)
    found = verify.split_problems(NAMES)
    assert len(found) > 200
    lost = next(row["name"] for row in HELD_OUT if not another(row["name"], row["family"]))
    assert f"held_out.txt: {lost} is held out here, and split.py lets a fit see it" in found
    assert any(line.endswith(" is missing, and split.py holds it out") for line in found)


@pytest.mark.slow
def test_a_replay_has_nothing_to_tell_the_measurement_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It gets the launch and a file of code, here with no measurement beside it or readable at all; its rows come out."""
    rows = HELD_OUT[::52]
    launches = {m.name: m.launch for m in records.read_measurements(FOLDER / records.MEASUREMENTS_FILE)}
    code = tmp_path / "code.tar.xz"
    code.write_bytes((FOLDER / records.CODE_FILE).read_bytes())

    def nothing(*_: object) -> None:
        raise AssertionError("a replay reads measurements")

    for name in ("read_measurements", "read_counters", "read_names", "data_folder"):
        monkeypatch.setattr(records, name, nothing)
    monkeypatch.setattr(records, "DATA", tmp_path)
    for row in rows:
        launch = launches[row["name"]]
        assert not [field for field in vars(launch) if "cycles" in field or "clocks" in field]
        assert replaying.replay(code, launch, gpuemu.load_arch("sm_90")).cycles == int(row["emulated"])
    assert len(rows) >= 4


def test_replays_are_told_launches_and_never_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []

    def replay(code: Path, launch: records.KernelLaunch, arch: gpuemu.Architecture) -> replaying.Replay:
        assert not (code.parent / records.MEASUREMENTS_FILE).exists() or told_by_score
        told.append(launch)
        return replaying.Replay(launch.name, 1, ((0, 1),), dict.fromkeys(score.COUNTED, 0))

    monkeypatch.setattr(replaying, "replay", replay)
    arch = gpuemu.load_arch("sm_90")
    told_by_score = True
    score.score(FOLDER, arch, "held-out", "matmul", jobs=1)
    told_by_score = False
    verify.replay_problems("scores.csv", HELD_OUT[:4], FOLDER, arch, 1)
    assert len(told) == 6 + 4
    assert {type(one) for one in told} == {records.KernelLaunch}


def test_the_held_out_score_is_of_the_held_out_kernels_and_the_others_of_the_others() -> None:
    every = {(m.name, m.family) for m in score.chosen(FOLDER)}
    by = {which: {m.name for m in score.chosen(FOLDER, which)} for which in ("held-out", "fit", "judged")}
    assert by["held-out"] == {name for name, _ in every} & NAMES
    assert by["fit"] == {name for name, _ in every} - NAMES
    assert by["judged"] == {name for name, family in every if family in split.JUDGED_FAMILIES}


def test_a_score_is_against_the_fewest_cycles_of_the_launches() -> None:
    m = replace(
        records.read_measurements(FOLDER / records.MEASUREMENTS_FILE)[0],
        cycles_min=100,
        cycles_median=150,
        cycles_max=200,
    )
    assert score.compare(m, replaying.Replay(m.name, 110), {}).error == pytest.approx(0.1)


@pytest.mark.slow
def test_a_value_that_the_fit_does_not_give_is_found() -> None:
    search = Search(("operations", "mufu", "issue_interval_cycles"), ("thr_mufu_ex2_w8",), (7, 8, 9))
    wrong = gpuemu.load_arch("sm_90").with_overrides(
        {"operations.mufu.issue_interval_cycles": 7, "shared_memory.latency_cycles": 24}
    )
    found = verify.fit_problems(FOLDER, wrong, [search])
    assert [line.split(" (")[0] for line in found] == [
        "sm_90: shared_memory.latency_cycles is 24, the fit has 23",
        "sm_90: operations.mufu.issue_interval_cycles is 7, the fit has 8",
    ]


@pytest.mark.slow
def test_the_command_says_what_is_wrong_and_ends_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "SAMPLE", verify.Amount(0, 0, 0))
    scores = written(tmp_path / "scores.csv", forged(lambda r: r | {"measured": "7"} if r["name"] == min(NAMES) else r))
    assert main(["verify", "--scores", str(scores)]) == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1] == "1 problems"
    assert f"{min(NAMES)}: measured is '7', " in printed.err
    scores.write_text("name,family\na,b\n")
    assert main(["verify", "--scores", str(scores)]) == 2
    assert "not scores; `python -m validation score -o` writes them" in capsys.readouterr().err


def families() -> set[str]:
    return {row["family"] for row in HELD_OUT}


def written(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, score.COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path
