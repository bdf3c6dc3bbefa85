from __future__ import annotations

from pathlib import Path

import pytest
from tiny import record

import gpuemu
from gpuemu.errors import GpuemuError
from validation.fit.experiments import Experiment, Fitted, run
from validation.fit.writing import fitted_text
from validation.fitting import all_experiments, fit

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "configs" / "sm_90.yaml"


def a_fitted(path: tuple[str, ...], figure: float, whole: bool = True) -> Fitted:
    return Fitted(Experiment(path, ("k_1", "k_2"), lambda _: figure, "cycles of nothing", whole), figure)


def test_the_emulator_s_own_clocks_give_back_its_parameters(tmp_path: Path) -> None:
    """A closed form is right if it finds in the emulator what was put in."""
    wanted = {
        ("operations", "ffma", "latency_cycles"), ("operations", "ffma", "issue_interval_cycles"),
        ("operations", "integer", "issue_interval_cycles"), ("operations", "mufu", "latency_cycles"),
        ("operations", "mufu", "issue_interval_cycles"), ("tensor_core", "operations", "m16n8k16.f32.f16", "latency_cycles"),
        ("shared_memory", "latency_cycles"), ("shared_memory", "cycles_per_wavefront_per_sub_core"),
        ("mio", "cycles_per_source_register"), ("mio", "shuffle_latency_cycles"),
        ("barrier", "latency_cycles"), ("barrier", "arrival_interval_cycles"),
    }  # fmt: skip
    chosen = [e for e in all_experiments() if e.parameter in wanted]
    assert {e.parameter for e in chosen} == wanted
    folder = record(tmp_path / "tiny", tuple(dict.fromkeys(name for e in chosen for name in e.kernels)))
    arch = gpuemu.load_arch("sm_90")
    known = arch.paths()
    for one in fit(folder, BASE, chosen).fitted:
        assert one.value == known[one.experiment.parameter], one.note


def test_only_the_fitted_lines_of_the_file_change(tmp_path: Path) -> None:
    text = fitted_text(BASE, [a_fitted(("shared_memory", "latency_cycles"), 22.9)], "a bench")
    before, after = BASE.read_text().splitlines(), text.splitlines()
    changed = [line for line in after if line not in before]
    assert changed == [
        '  SUITE: "a bench"',
        '  latency_cycles: {value: 23, status: measured, source: SUITE, confidence: A, note: "cycles of nothing: 22.90, from k_1, k_2"}',
    ]
    path = tmp_path / "fitted.yaml"
    path.write_text(text)
    where = gpuemu.load_arch(path).provenance["shared_memory.latency_cycles"]
    assert (where.status, where.source, where.note) == ("measured", "SUITE", "cycles of nothing: 22.90, from k_1, k_2")


def test_a_second_fit_of_the_same_file_replaces_the_first(tmp_path: Path) -> None:
    path = tmp_path / "fitted.yaml"
    path.write_text(fitted_text(BASE, [a_fitted(("shared_memory", "latency_cycles"), 25.0)], "first"))
    second = fitted_text(path, [a_fitted(("shared_memory", "latency_cycles"), 23.0)], "second")
    assert second == fitted_text(BASE, [a_fitted(("shared_memory", "latency_cycles"), 23.0)], "second")


def test_a_tensor_mode_that_the_file_lacks_is_added_to_its_section(tmp_path: Path) -> None:
    path = ("tensor_core", "operations", "m8n8k16.s32.s8")
    text = fitted_text(
        BASE, [a_fitted((*path, "latency_cycles"), 12.2), a_fitted((*path, "issue_interval_cycles"), 3.9)], "x"
    )
    fitted = tmp_path / "fitted.yaml"
    fitted.write_text(text)
    mode = gpuemu.load_arch(fitted).tensor_core.operations["m8n8k16.s32.s8"]
    assert (mode.latency_cycles, mode.issue_interval_cycles) == (12, 4)
    assert gpuemu.load_arch(fitted).tensor_core.numerics == gpuemu.load_arch(BASE).tensor_core.numerics


def test_a_parameter_of_no_section_is_refused_by_name() -> None:
    with pytest.raises(GpuemuError, match=r"warp_drive\.speed: found no section 'warp_drive'"):
        fitted_text(BASE, [a_fitted(("warp_drive", "speed"), 9.0)], "x")


def test_an_experiment_whose_kernels_were_not_measured_is_left_out_aloud() -> None:
    experiment = Experiment(("mio", "queue_entries"), ("never",), lambda _: 1.0, "nothing")
    assert run([experiment], {}) == ([], ["mio.queue_entries: never was not measured"])


def test_every_experiment_s_kernels_are_in_the_corpus_and_its_parameter_in_the_file() -> None:
    from validation.corpus import corpus

    names = {kernel.name for kernel in corpus()}
    known = set(gpuemu.load_arch("sm_90").paths())
    for experiment in all_experiments():
        assert set(experiment.kernels) <= names
        assert experiment.parameter in known or experiment.parameter[:2] == ("tensor_core", "operations")
