from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tiny import record

import gpuemu
from gpuemu.base import extras
from validation import records, replay, score
from validation.__main__ import main
from validation.records import Measurement
from validation.replay import INSTRUCTIONS, LOAD_WAVEFRONTS, STORE_WAVEFRONTS, Replay
from validation.suite import Score, mean_error, write

NAMES = ("mix_alu_001", "mix_alu_006", "queue_lds32_w1", "rate_lds32_c1_w2_on_0", "resident_lds128_w1_x2", "bar_lds_w2")


def copied(folder: Path, to: Path) -> Path:
    """Code and device of a data folder, in another one that has no measurements yet."""
    to.mkdir()
    for name in (records.CODE_FILE, records.DEVICE_FILE):
        (to / name).write_bytes((folder / name).read_bytes())
    return to


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("data") / "tiny", NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_each_kernel_is_scored_against_its_own_row_and_counters(tmp_path: Path, folder: Path, jobs: int) -> None:
    """A GPU that is the emulator, but for what is written over its rows: figures that no other row has."""
    other = copied(folder, tmp_path / "other")
    emulated = records.read_measurements(folder / records.MEASUREMENTS_FILE)
    rows = [
        replace(m, cycles_min=m.cycles_min + 100 + i, cycles_median=9 * m.cycles_min, cycles_max=10 * m.cycles_min)
        for i, m in enumerate(emulated)
    ]
    records.write_measurements(other / records.MEASUREMENTS_FILE, rows)
    counters = records.read_counters(folder / records.COUNTERS_FILE)
    counters[NAMES[2]][LOAD_WAVEFRONTS] += 1
    records.write_counters(other / records.COUNTERS_FILE, counters, tuple(counters[NAMES[2]]))
    found = score.score(other, gpuemu.load_arch("sm_90"), jobs=jobs)
    assert [(s.name, s.measured, s.emulated) for s in found] == [
        (m.name, m.cycles_min + 100 + i, m.cycles_min) for i, m in enumerate(emulated)
    ]
    assert [s.counters_equal for s in found] == [name != NAMES[2] for name in NAMES]
    assert [s.held_out for s in found] == [name == "mix_alu_006" for name in NAMES]


COUNTED = {LOAD_WAVEFRONTS: 40, STORE_WAVEFRONTS: 8, INSTRUCTIONS: 900}
MEASURED = Measurement("k", "mix_all", 1, 1, 8, 0, 2, (), 0, 11, 200, 250, 300, ((0, 200),))


@pytest.mark.parametrize("other", score.COUNTED)
def test_counters_are_equal_only_if_all_are(other: str) -> None:
    got = Replay("k", 210, ((0, 210),), COUNTED)
    assert score.compare(MEASURED, got, COUNTED).counters_equal is True
    assert score.compare(MEASURED, got, COUNTED | {other: 7}).counters_equal is False
    assert score.compare(MEASURED, got, {}).counters_equal is None
    assert score.compare(MEASURED, replace(got, error="refused"), COUNTED).counters_equal is None


def test_an_error_is_of_the_fewest_cycles_and_has_a_sign() -> None:
    over, under = (score.compare(MEASURED, Replay("k", cycles), {}) for cycles in (210, 190))
    assert (over.measured, over.error, under.error) == (200, pytest.approx(0.05), pytest.approx(-0.05))


def test_the_headline_is_of_the_held_out_kernels_and_counts_those_that_failed() -> None:
    def one(emulated: int, held_out: bool = True, failure: str = "") -> Score:
        return Score(
            name="k", family="mix_all", held_out=held_out, measured=1000, emulated=emulated, failure=failure
        )  # fmt: skip

    scores = [one(1010), one(970), one(1051), one(9000, held_out=False), one(0, failure="refused")]
    assert score.headline(scores) == ("held out: 3 of 4 kernels run, mean error 3.03%, median 3.00%, 66.7% within 5 %")
    assert mean_error(scores[:3]) == pytest.approx(0.0303, abs=1e-4)
    assert score.headline([one(1000, held_out=False)]) == "no held-out kernel was scored"


def test_a_limit_takes_kernels_spread_over_the_list(folder: Path) -> None:
    assert [m.name for m in score.chosen(folder, limit=2)] == [NAMES[0], NAMES[3]]
    assert [m.name for m in score.chosen(folder, limit=6)] == list(NAMES)
    assert [m.name for m in score.chosen(folder, limit=60)] == list(NAMES)


def test_another_architecture_shows_as_an_error(folder: Path) -> None:
    slower = gpuemu.load_arch("sm_90").with_overrides({"shared_memory.latency_cycles": 60})
    by_name = {s.name: s for s in score.score(folder, slower, family="barrier", jobs=1)}
    assert by_name["bar_lds_w2"].error > 0.1


def test_a_tool_that_is_not_installed_is_said_once_and_no_kernels_failure(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def trace_of(*_: object) -> None:
        raise extras.missing("nvdisasm", "Install the extra")

    monkeypatch.setattr(replay, "trace_of", trace_of)
    monkeypatch.setattr(records, "DATA", folder.parent)
    assert main(["score", "--gpu", folder.name, "--jobs", "1"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.strip().splitlines()[-1] == "error: nvdisasm: not installed. Install the extra."


def test_a_kernel_that_the_emulator_refuses_is_a_failure_and_not_left_out(tmp_path: Path, folder: Path) -> None:
    broken = copied(folder, tmp_path / "broken")
    known = records.read_measurements(folder / records.MEASUREMENTS_FILE)[0]
    records.write_measurements(broken / records.MEASUREMENTS_FILE, [replace(known, name="no_such_kernel"), known])
    found = score.score(broken, gpuemu.load_arch("sm_90"), jobs=1)
    assert [bool(s.failure) for s in found] == [True, False]
    assert "failed  no_such_kernel" in "\n".join(score.table(found))
    assert score.table(found)[1].split()[:2] == ["mix_alu", "1/2"]


def test_scores_come_back_from_their_file(tmp_path: Path, folder: Path) -> None:
    found = score.score(folder, gpuemu.load_arch("sm_90"), jobs=1)
    write(tmp_path / "scores.csv", found, score.COLUMNS)
    back = score.read_scores(tmp_path / "scores.csv")
    assert back == [replace(s, seconds=0.0, instructions=0) for s in found]


def test_the_command_scores_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "--gpu", str(folder), "--fit", "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == ["family", "kernels", "MAPE", "median", "<=5%", "worst", "counters"]
    assert "queue" in out


def test_the_command_refuses_a_gpu_without_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "--gpu", "abacus"]) == 2
    assert "no measurements for 'abacus'" in capsys.readouterr().err


def test_a_row_that_is_no_measurement_is_named_by_its_line(tmp_path: Path, folder: Path) -> None:
    text = (folder / records.MEASUREMENTS_FILE).read_text().splitlines()
    cells = text[2].split(",")
    text[2] = ",".join([*cells[:2], "many", *cells[3:]])
    path = tmp_path / "m.csv"
    path.write_text("\n".join(text))
    with pytest.raises(records.RecordError, match=r"m\.csv:3: not a measurement .*'many'"):
        records.read_measurements(path)
