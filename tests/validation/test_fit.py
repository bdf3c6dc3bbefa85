from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from tiny import record

import gpuemu
from gpuemu.base.errors import GpuemuError
from validation.fit.experiments import Experiment, Fitted, run
from validation.fit.searches import LeftOut, left_out
from validation.fit.searching import Search, search_all
from validation.fit.writing import fitted_text
from validation.fitting import all_experiments, all_searches, fit
from validation.replay import executor
from validation.split import FitView
from validation.verify import fit_problems

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "configs" / "sm_90.yaml"


def a_fitted(path: tuple[str, ...], figure: float, whole: bool = True) -> Fitted:
    return Fitted(Experiment(path, ("k_1", "k_2"), lambda _: figure, "cycles of nothing", whole), figure)


@pytest.mark.slow
def test_the_emulator_s_own_clocks_give_back_its_parameters(tmp_path: Path) -> None:
    """A closed form is right if it finds in the emulator what was put in."""
    wanted = {
        ("operations", "ffma", "latency_cycles"), ("operations", "mufu", "latency_cycles"),
        ("issue", "taken_branch_cycles"), ("shared_memory", "atomic_latency_cycles"), ("tensor_core", "operations", "m16n8k16.f32.f16", "latency_cycles"),
        ("shared_memory", "latency_cycles"), ("shared_memory", "cycles_per_wavefront_per_warp"),
        ("mio", "cycles_per_source_register"), ("mio", "shuffle_latency_cycles"),
        ("barrier", "latency_cycles"), ("barrier", "arrival_interval_cycles"),
    }  # fmt: skip
    chosen = [e for e in all_experiments() if e.parameter in wanted]
    assert {e.parameter for e in chosen} == wanted
    folder = record(tmp_path / "tiny", tuple(dict.fromkeys(name for e in chosen for name in e.kernels)))
    arch = gpuemu.load_arch("sm_90")
    known = arch.paths()
    for one in fit(folder, BASE, chosen, []).fitted:
        assert one.value == known[one.experiment.parameter], one.note


SEARCHED = Search(
    ("operations", "mufu", "issue_interval_cycles"), ("thr_mufu_ex2_w1", "thr_mufu_ex2_w8"), (4, 6, 8, 10)
)


@pytest.mark.slow
def test_a_search_finds_in_the_emulator_what_was_put_in(tmp_path: Path) -> None:
    folder = record(tmp_path / "tiny", SEARCHED.kernels)
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("extends: sm_90\noperations: {mufu: {issue_interval_cycles: 5}}\nsources: {}\n")
    found = fit(folder, BASE, [], [SEARCHED], jobs=1)
    assert [one.value for one in found.fitted] == [8]
    assert found.fitted[0].note.startswith("least squares of emulated against measured cycles, 0.0% rms (")
    view, arch = FitView(folder), gpuemu.load_arch(wrong)
    with ProcessPoolExecutor(1) as pool:
        from_elsewhere, _ = search_all([SEARCHED], view, folder, arch, pool)
    assert [one.value for one in from_elsewhere] == [8]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parameter", "values"),
    [("operations.reduction.latency_cycles", (36, 38, 40)), ("global_memory.store_bytes_per_cycle", (16, 32, 64))],
)  # fmt: skip
def test_searches_of_the_suite_find_in_the_emulator_what_was_put_in(
    tmp_path: Path, parameter: str, values: tuple[int, ...]
) -> None:
    (whole,) = (s for s in all_searches() if ".".join(s.parameter) == parameter)
    assert set(values) <= set(whole.candidates)
    few = Search(whole.parameter, whole.kernels[:1], values)
    folder = record(tmp_path / "tiny", few.kernels)
    known = gpuemu.load_arch(BASE)
    other = tmp_path / "other.yaml"
    other.write_text(f"extends: sm_90\n{nested(parameter, values[0])}sources: {{}}\n")
    with ProcessPoolExecutor(1) as pool:
        found, left_out = search_all([few], FitView(folder), folder, gpuemu.load_arch(other), pool)
    assert ([one.value for one in found], left_out) == ([known.paths()[whole.parameter]], [])


KNOWN = gpuemu.load_arch(BASE)
FITTED = {".".join(one.parameter) for one in (*all_experiments(), *all_searches())}


def test_what_the_h200_is_said_to_have_is_fitted_or_says_what_was_measured() -> None:
    """And what is fitted is no guess."""
    told = {name: one for name, one in KNOWN.provenance.items() if "H200" in one.source and one.status == "measured"}
    assert len(told) > 120
    assert [name for name, one in told.items() if name not in FITTED and not one.note.strip()] == []
    assert {KNOWN.provenance[name].status for name in FITTED} <= {"measured", "published"}
    assert [name for name, one in told.items() if "not measured" in one.note] == []


@pytest.mark.slow
def test_the_architecture_file_is_what_the_fit_of_the_h200_gives() -> None:
    """Each search from the file on, where a finished fit ends; `python -m validation verify` repeats a few."""
    assert fit_problems(ROOT / "validation" / "data" / "h200", KNOWN, all_searches()) == []


@pytest.mark.slow
@pytest.mark.parametrize("one", left_out(), ids=lambda one: ".".join(one.search.parameter))
def test_a_search_is_left_out_while_it_gives_another_value_and_its_parameter_is_measured_otherwise(
    one: LeftOut,
) -> None:
    """The day it gives the file's value it belongs to the searches of the fit."""
    path, name = one.search.parameter, ".".join(one.search.parameter)
    assert name not in FITTED
    where = KNOWN.provenance[name]
    assert (where.status, "H200" in where.source, len(where.note) > 40) == ("measured", True, True)
    folder = ROOT / "validation" / "data" / "h200"
    with executor(1) as pool:
        ((found,), missing) = search_all([one.search], FitView(folder), folder, KNOWN, pool)
    assert (found.value != KNOWN.paths()[path], missing) == (True, []), found.note


@pytest.mark.slow
def test_the_fit_says_which_searches_it_leaves_out_and_why(tmp_path: Path) -> None:
    folder = record(tmp_path / "tiny", ("lat_iadd_16",))
    said = fit(folder, BASE, [], None, jobs=1).left_out
    assert [line for line in said if "not searched for" in line] == [
        f"{'.'.join(one.search.parameter)}: not searched for: {one.why}" for one in left_out()
    ]


def nested(parameter: str, value: int) -> str:
    """A value as a line of YAML."""
    text = str(value)
    for name in reversed(parameter.split(".")[1:]):
        text = f"{{{name}: {text}}}"
    return f"{parameter.split('.')[0]}: {text}\n"


@pytest.mark.slow
def test_a_parameter_that_its_kernels_do_not_depend_on_is_left_as_it_is(tmp_path: Path) -> None:
    folder = record(tmp_path / "tiny", SEARCHED.kernels)
    idle = Search(("mio", "pool_entries"), SEARCHED.kernels, (8, 16, 48))
    found = fit(folder, BASE, [], [idle], jobs=1)
    assert [one.value for one in found.fitted] == [gpuemu.load_arch(BASE).mio.pool_entries]


@pytest.mark.slow
def test_a_search_by_clocks_finds_what_the_last_clock_does_not_tell(tmp_path: Path) -> None:
    """Which of 16 stores waits for the queue shows in the clocks between; the last comes when all are sent."""
    kernels, entries = ("queue_sts128_w1",), tuple(range(5, 13))
    folder = record(tmp_path / "tiny", kernels)
    other = tmp_path / "other.yaml"
    other.write_text("extends: sm_90\nmio: {queue_entries: 12}\nsources: {}\n")
    found = []
    for by_clocks in (False, True):
        search = Search(("mio", "queue_entries"), kernels, entries, by_clocks)
        with executor(1) as pool:
            ((one,), _) = search_all([search], FitView(folder), folder, gpuemu.load_arch(other), pool)
        found.append(one.value)
        assert f"emulated against measured {'clocks' if by_clocks else 'cycles'}" in one.note
    assert found == [12, KNOWN.mio.queue_entries]


@pytest.mark.slow
def test_a_search_for_a_parameter_that_the_file_lacks_is_left_out_aloud(tmp_path: Path) -> None:
    folder = record(tmp_path / "tiny", SEARCHED.kernels)
    unknown = Search(("warp_drive", "speed"), SEARCHED.kernels, (1, 2))
    assert fit(folder, BASE, [], [unknown], jobs=1).left_out == ("warp_drive.speed: not in the architecture file",)


QUEUE = Search(("mio", "queue_entries"), SEARCHED.kernels, (4, 6, 8))


@pytest.mark.slow
def test_a_search_whose_kernels_were_not_measured_is_left_out_aloud(tmp_path: Path) -> None:
    first, second = QUEUE.kernels
    with executor(1) as pool:
        found, missing = search_all([QUEUE], FitView(record(tmp_path / "tiny", (first,))), tmp_path, KNOWN, pool)
    assert (found, missing) == ([], [f"mio.queue_entries: {second} was not measured"])


@pytest.mark.slow
@pytest.mark.parametrize(("best", "rounds"), [((9,), 1), ((6, 6), 2), ((6, 4, 4), 3), ((6, 4, 6, 4), 3)])
def test_searches_take_turns_until_none_changes_anything_or_three_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, best: tuple[int, ...], rounds: int
) -> None:
    """`best`: what each round finds, where the file has 9."""
    assert KNOWN.mio.queue_entries == 9
    values = iter(best)
    monkeypatch.setattr("validation.fit.searching._best", lambda *_: (one := next(values), {one: 0.0}))
    said: list[str] = []
    view = FitView(record(tmp_path / "tiny", QUEUE.kernels))
    with executor(1) as pool:
        (found,), _ = search_all([QUEUE], view, tmp_path, KNOWN, pool, said.append)
    assert said == [f"round {n}: mio.queue_entries {best[n - 1]}" for n in range(1, rounds + 1)]
    assert found.value == best[rounds - 1]


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_second_fit_of_the_same_file_replaces_the_first(tmp_path: Path) -> None:
    path = tmp_path / "fitted.yaml"
    path.write_text(fitted_text(BASE, [a_fitted(("shared_memory", "latency_cycles"), 25.0)], "first"))
    second = fitted_text(path, [a_fitted(("shared_memory", "latency_cycles"), 23.0)], "second")
    assert second == fitted_text(BASE, [a_fitted(("shared_memory", "latency_cycles"), 23.0)], "second")


@pytest.mark.slow
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
    with pytest.raises(GpuemuError, match=r"warp_drive\.speed: no section 'warp_drive'"):
        fitted_text(BASE, [a_fitted(("warp_drive", "speed"), 9.0)], "x")


def test_an_experiment_whose_kernels_were_not_measured_is_left_out_aloud() -> None:
    experiment = Experiment(("mio", "queue_entries"), ("never",), lambda _: 1.0, "nothing")
    assert run([experiment], {}) == ([], ["mio.queue_entries: never was not measured"])


def test_every_experiment_s_kernels_are_in_the_corpus_and_its_parameter_in_the_file() -> None:
    from validation.corpus import corpus

    names = {kernel.name for kernel in corpus()}
    known = set(gpuemu.load_arch("sm_90").paths())
    for one in (*all_experiments(), *all_searches()):
        assert set(one.kernels) <= names
        assert one.parameter in known or one.parameter[:2] == ("tensor_core", "operations")
