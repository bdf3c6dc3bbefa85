"""The fit cannot read what is held out."""

from __future__ import annotations

from pathlib import Path

import pytest

from validation import records
from validation.fitting import all_experiments, all_searches, fit
from validation.records import Measurement
from validation.split import FitView, HeldOutError, held_out

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "configs" / "sm_90.yaml"


def a_measurement(name: str, family: str, cycles: int) -> Measurement:
    turns = 16 if "_longer" in name else 8
    return Measurement(name, family, 1, 1, turns, 0, 2, (), 0, 11, cycles, cycles, cycles, ((0, cycles),))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """All kernels of all experiments, and 60 random ones, with figures that mean nothing."""
    names = sorted({name for experiment in all_experiments() for name in experiment.kernels})
    micro = [a_measurement(name, "micro", 1000 + 37 * i) for i, name in enumerate(names)]
    judged = [a_measurement(f"mix_all_{i:03d}", "mix_all", 5000 + i) for i in range(60)]
    records.write_measurements(tmp_path / records.MEASUREMENTS_FILE, [*micro, *judged])
    records.write_device(tmp_path / records.DEVICE_FILE, {"name": "NVIDIA Nothing", "arch": "sm_90"})
    return tmp_path


def hidden_names(folder: Path) -> list[str]:
    return [n for n, family in records.read_names(folder / records.MEASUREMENTS_FILE) if held_out(n, family)]


def test_a_third_of_a_judged_family_is_hidden(folder: Path) -> None:
    assert 10 <= len(hidden_names(folder)) <= 30


def test_a_fit_that_asks_for_a_held_out_kernel_is_refused(folder: Path) -> None:
    view = FitView(folder)
    hidden = hidden_names(folder)
    with pytest.raises(HeldOutError, match=f"{hidden[0]} is held out: a fit must not see it"):
        view[hidden[0]]
    assert not set(hidden) & set(view)
    assert len(view) + len(hidden) == len(records.read_names(folder / records.MEASUREMENTS_FILE))


def test_no_experiment_names_a_kernel_that_could_be_held_out() -> None:
    from validation.corpus import corpus

    family = {kernel.name: kernel.family for kernel in corpus()}
    for one in (*all_experiments(), *all_searches()):
        for name in one.kernels:
            assert not held_out(name, family[name]), f"{one.parameter} is fitted to {name}"


def test_the_fitted_file_is_the_same_when_every_held_out_figure_is_ruined(folder: Path) -> None:
    before = fit(folder, BASE, searches=[]).text
    path = folder / records.MEASUREMENTS_FILE
    hidden = set(hidden_names(folder))
    lines = path.read_text().splitlines()
    ruined = []
    for line in lines:
        cells = line.split(",")
        ruined.append(",".join([*cells[:2], *("ruined" for _ in cells[2:])]) if cells[0] in hidden else line)
    assert ruined != lines
    path.write_text("\n".join(ruined) + "\n")
    assert fit(folder, BASE, searches=[]).text == before


def test_the_fitted_file_changes_when_a_microbenchmark_does(folder: Path) -> None:
    before = fit(folder, BASE, searches=[]).text
    path = folder / records.MEASUREMENTS_FILE
    measured = records.read_measurements(path)
    changed = [a_measurement(m.name, m.family, 9999) if m.name == "lat_ffma_32" else m for m in measured]
    records.write_measurements(path, changed)
    assert fit(folder, BASE, searches=[]).text != before
