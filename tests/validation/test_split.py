"""The fit cannot read what is held out."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

import gpuemu
from validation import records
from validation.fit import searching
from validation.fitting import all_experiments, all_searches, fit
from validation.records import KernelLaunch, Measurement
from validation.replay import Replay
from validation.split import FitView, HeldOutError, held_out

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "configs" / "sm_90.yaml"


def a_measurement(name: str, family: str, cycles: int) -> Measurement:
    return Measurement(name, family, 1, 1, 8, 0, 2, (), 0, 11, cycles, cycles, cycles, ((0, cycles),))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What an H200 gave for the kernels of all experiments and searches, and 60 others with figures that mean nothing."""
    names = {name for one in (*all_experiments(), *all_searches()) for name in one.kernels}
    h200 = records.DATA / "h200" / records.MEASUREMENTS_FILE
    micro = records.read_measurements(h200, lambda name, _: name in names)
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


@pytest.fixture
def quick_replays(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replays whose cycles are drawn from the kernel and the architecture; returns the names of those replayed."""
    replayed: list[str] = []
    texts: dict[int, tuple[gpuemu.Architecture, str]] = {}

    def replay(code: Path, launch: KernelLaunch, arch: gpuemu.Architecture) -> Replay:
        replayed.append(launch.name)
        _, text = texts.setdefault(id(arch), (arch, str(arch.paths())))
        drawn = hashlib.sha256(f"{launch} {text}".encode()).digest()
        cycles = 500 + int.from_bytes(drawn[:2], "big")
        return Replay(launch.name, cycles, ((0,) * (launch.reads - 1) + (cycles,),) * len(launch.running_warps))

    monkeypatch.setattr(searching, "replay", replay)
    monkeypatch.setattr(searching, "MOST_ROUNDS", 1)
    return replayed


@pytest.mark.slow
def test_the_fitted_file_is_the_same_when_every_held_out_figure_is_ruined(
    folder: Path, quick_replays: list[str]
) -> None:
    before = fit(folder, BASE, jobs=1)
    searched = {name for search in all_searches() for name in search.kernels}
    assert set(quick_replays) == searched
    assert {one.parameter for one in all_searches()} <= {one.experiment.parameter for one in before.fitted}
    path = folder / records.MEASUREMENTS_FILE
    hidden = set(hidden_names(folder))
    lines = path.read_text().splitlines()
    ruined = []
    for line in lines:
        cells = line.split(",")
        ruined.append(",".join([*cells[:2], *("ruined" for _ in cells[2:])]) if cells[0] in hidden else line)
    assert ruined != lines
    path.write_text("\n".join(ruined) + "\n")
    assert fit(folder, BASE, jobs=1).text == before.text


def test_a_search_on_a_held_out_kernel_is_refused(folder: Path, quick_replays: list[str]) -> None:
    hidden = hidden_names(folder)[0]
    search = searching.Search(("mio", "queue_entries"), (hidden,), (8, 9))
    with pytest.raises(HeldOutError, match=f"{hidden} is held out: a fit must not see it"):
        fit(folder, BASE, [], [search], jobs=1)
    assert quick_replays == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lat_ffma_32", "lat_redux_16"])
@pytest.mark.usefixtures("quick_replays")
def test_the_fitted_file_changes_when_a_microbenchmark_does(folder: Path, name: str) -> None:
    """Of a closed form, and of a search."""
    chosen = [one for one in all_experiments() if name in one.kernels], [s for s in all_searches() if name in s.kernels]
    assert sum(map(len, chosen)) == 1
    before = fit(folder, BASE, *chosen, jobs=1).text
    path = folder / records.MEASUREMENTS_FILE
    measured = records.read_measurements(path)
    changed = [replace(m, cycles_min=m.cycles_min + 16 * m.iterations) if m.name == name else m for m in measured]
    assert changed != measured
    records.write_measurements(path, changed)
    assert fit(folder, BASE, *chosen, jobs=1).text != before
