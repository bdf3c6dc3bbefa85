from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tiny import record

import gpuemu
from gpuemu.base import extras
from validation import records, replay, score
from validation.__main__ import main

NAMES = ("mix_alu_001", "mix_alu_003", "queue_lds32_w1", "rate_lds32_c1_w2_on_0", "resident_lds128_w1_x2", "bar_lds_w2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("data") / "tiny", NAMES)


def test_a_gpu_that_is_the_emulator_is_met_to_the_cycle(folder: Path) -> None:
    found = score.score(folder, gpuemu.load_arch("sm_90"), jobs=1)
    assert [s.error for s in found] == [0.0] * len(NAMES)
    assert all(s.counters_equal for s in found)


def test_two_processes_give_what_one_gives(folder: Path) -> None:
    arch = gpuemu.load_arch("sm_90")
    one, two = (score.score(folder, arch, jobs=jobs) for jobs in (1, 2))
    assert [replace(s, seconds=0.0) for s in one] == [replace(s, seconds=0.0) for s in two]


def test_another_architecture_shows_as_an_error(folder: Path) -> None:
    slower = gpuemu.load_arch("sm_90").with_overrides({"shared_memory.latency_cycles": 60})
    by_name = {s.name: s for s in score.score(folder, slower, family="barrier", jobs=1)}
    assert by_name["bar_lds_w2"].error > 0.1


def test_a_tool_that_is_not_installed_is_said_once_and_no_kernels_failure(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def trace_of(*_: object) -> None:
        raise extras.missing("nvdisasm", "the extra brings it")

    monkeypatch.setattr(replay, "trace_of", trace_of)
    monkeypatch.setattr(records, "DATA", folder.parent)
    assert main(["score", "--gpu", folder.name, "--jobs", "1"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.strip().splitlines()[-1] == "error: nvdisasm: found no such tool; the extra brings it"


def test_a_kernel_that_the_emulator_refuses_is_a_failure_and_not_left_out(tmp_path: Path, folder: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in (records.CODE_FILE, records.DEVICE_FILE):
        (broken / name).write_bytes((folder / name).read_bytes())
    known = records.read_measurements(folder / records.MEASUREMENTS_FILE)[0]
    records.write_measurements(broken / records.MEASUREMENTS_FILE, [replace(known, name="no_such_kernel"), known])
    found = score.score(broken, gpuemu.load_arch("sm_90"), jobs=1)
    assert [bool(s.failure) for s in found] == [True, False]
    assert "failed  no_such_kernel" in "\n".join(score.table(found))
    assert score.table(found)[1].split()[:2] == ["mix_alu", "1/2"]


def test_scores_come_back_from_their_file(tmp_path: Path, folder: Path) -> None:
    found = score.score(folder, gpuemu.load_arch("sm_90"), jobs=1)
    score.write_scores(tmp_path / "scores.csv", found)
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
