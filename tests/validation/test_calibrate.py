"""`gpuemu calibrate` on cards that are the emulator itself, with values that its file does not have."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tiny import record

import gpuemu
from gpuemu.base.errors import GpuemuError
from gpuemu.cli.main import cli
from validation import measure
from validation.calibrate import command, estimating
from validation.calibrate.estimating import Found, Group, Walk
from validation.calibrate.plan import AS, BY, Step, plan
from validation.calibrate.writing import file_text, table
from validation.fitting import all_searches
from validation.replay import executor
from validation.split import FitView

ROOT = Path(__file__).resolve().parents[2]
SM_90 = gpuemu.load_arch("sm_90")
HIDDEN = {"operations.reduction.latency_cycles": 33}
"""What the card has and the file does not."""
FACTS = {"name": "NVIDIA GeForce RTX 9000", "compute_capability": "9.0", "driver": "1.2", "sm_clock_max_mhz": "1980"}


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[str]]:
    """A card with the hidden values, as far as `measure` is asked; what was launched on it."""
    launched = []

    def measured(code: Path, output: Path, *_: object, only: frozenset[str], **__: object) -> Path:
        launched.append(only)
        folder = record(output, tuple(sorted(only)), arch=SM_90.with_overrides(HIDDEN))
        (folder / "device.json").write_text(str(FACTS | {"arch": "sm_90", "compiler": "nvcc V13"}).replace("'", '"'))
        return folder

    monkeypatch.setattr(measure, "cupy", lambda: None)
    monkeypatch.setattr(measure, "device_facts", lambda cp: FACTS)
    monkeypatch.setattr(measure, "measure", measured)
    monkeypatch.setattr("gpuemu.cli.calibrate._require_cupy", lambda: None)
    return launched


def run(*words: str) -> str:
    ran = CliRunner().invoke(cli, ["calibrate", *words])
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    assert ran.exit_code == 0, ran.output
    return ran.stdout


@pytest.mark.slow
def test_values_that_a_card_has_and_the_file_does_not_come_back_in_a_file_that_loads(
    card: list[frozenset[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = run(*(f"--only={name}" for name in HIDDEN), "--only=operations.uniform.latency_cycles", "--date", "2026-11-26", "--jobs", "1")  # fmt: skip
    assert card == [frozenset(("lat_redux_16", "lat_redux_min_16"))]
    rows = [line.split() for line in said.splitlines()]
    assert ["operations.reduction.latency_cycles", "38", "33", "A", "walk", "differs"] in rows
    assert "no measurement of the suite tells it yet\n      operations.uniform.latency_cycles\n" in said
    assert said.endswith("1 value measured, 1 differing; 1 not measured\nto rtx_9000.yaml\n")
    mine = gpuemu.load_arch(tmp_path / "rtx_9000.yaml")
    assert {name: mine.flat()[name] for name in mine.flat() if mine.flat()[name] != SM_90.flat()[name]} == HIDDEN
    where = mine.provenance["operations.reduction.latency_cycles"]
    assert (where.status, where.confidence) == ("measured", "A")
    assert mine.sources[where.source] == (
        "measured on one NVIDIA GeForce RTX 9000 by gpuemu calibrate, 2026-11-26: driver 1.2, SM clock up to 1980 MHz, nvcc V13"
    )
    assert CliRunner().invoke(cli, ["arch", "check", "rtx_9000.yaml"]).exit_code == 0


@pytest.mark.slow
def test_values_taken_away_from_the_file_come_back_from_an_h200_s_clocks(tmp_path: Path) -> None:
    """The committed clocks are of a real card; here three values of its file are guesses."""
    base = tmp_path / "guessed.yaml"
    base.write_text(
        "extends: sm_90\noperations: {mufu: {latency_cycles: 24}, conversion: {latency_cycles: 12}}\n"
        "global_memory: {l1: {latency_cycles: 40}}\n"
    )
    taken = [f"{name}.latency_cycles" for name in ("operations.mufu", "operations.conversion", "global_memory.l1")]
    mine = tmp_path / "out" / "mine.yaml"
    mine.parent.mkdir()
    only = (f"--only={name}" for name in taken)
    said = run("--from", str(ROOT / "validation/data/h200"), "--arch", str(base), "-o", str(mine), "--jobs", "1", *only)
    assert "3 values measured, 3 differing; 0 not measured" in said
    found = gpuemu.load_arch(mine).flat()
    assert [found[name] for name in taken] == [SM_90.flat()[name] for name in taken]


def test_without_patterns_the_values_of_confidence_c_and_d_are_asked_for() -> None:
    arch = gpuemu.load_arch("sm_89")
    todo = plan(arch)
    asked = [step.name for step in todo.steps] + list(todo.reasons)
    assert {arch.provenance[name].confidence for name in asked} == {"C", "D"}
    assert len(todo.steps) > 60
    assert "shared_memory.banks" not in asked  # no number that a clock tells
    assert all(todo.reasons.values())


def test_values_and_kernels_that_the_plan_names_are_there() -> None:
    from validation.corpus import corpus

    names = {kernel.name for kernel in corpus()}
    assert {kernel for kernels in BY.values() for kernel in kernels.split()} <= names
    known = SM_90.flat()
    assert set(BY) <= set(known)
    assert [begin for begin in AS if not any(name.startswith(begin) for name in known)] == []
    assert set(AS.values()) <= {".".join(search.parameter) for search in all_searches()}


def test_no_kernel_that_the_scores_are_made_of_is_measured() -> None:
    from validation.corpus import corpus
    from validation.split import JUDGED_FAMILIES

    families = {kernel.name: kernel.family for kernel in corpus()}
    for name in ("sm_75", "sm_80", "sm_89", "sm_90", "sm_120"):
        kernels = plan(gpuemu.load_arch(name), ["*"]).kernels
        assert not {families[kernel] for kernel in kernels} & JUDGED_FAMILIES


def test_a_dry_run_lists_value_way_and_kernels_and_what_cannot_be_measured() -> None:
    said = run("--arch", "sm_89", "--dry-run", "--only", "mio.shuffle*", "--only", "fence.cta_cycles")
    assert said.splitlines() == [
        "value                       sm_89  sure  by           kernels",
        "mio.shuffle_latency_cycles     24  C     closed form  lat_shfl_16 and 1 more",
        "",
        "not measured",
        "  only hand-assembled sequences tell it: fences/of_32_wavefronts_by_1_warps",
        "      fence.cta_cycles",
        "",
        "1 value on 2 kernels, about 0.1 minutes of one core; 1 cannot be measured",
    ]


def test_without_cupy_the_extra_is_named_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(GpuemuError, match=r"cupy: not installed\. Install it with pip install \"\.\[gpu\]\""):
        run()


def test_a_card_that_is_not_reached_says_what_the_driver_said(
    card: list[frozenset[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_card() -> Any:
        raise measure.MeasureError("no NVIDIA GPU can be reached (no driver)")

    monkeypatch.setattr(measure, "cupy", no_card)
    with pytest.raises(GpuemuError, match=r"no NVIDIA GPU can be reached \(no driver\).*--from with a folder"):
        run()
    assert card == []


@pytest.mark.usefixtures("card")
def test_a_card_of_another_capability_and_one_without_a_file_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        GpuemuError, match=r"--arch: compute_capability: found a card of 9\.0, expected one of 8\.9, as sm_89"
    ):
        run("--arch", "sm_89", "--only", "mio.shuffle*")
    monkeypatch.setattr(measure, "device_facts", lambda cp: FACTS | {"compute_capability": "8.7"})
    with pytest.raises(
        GpuemuError,
        match=r"compute capability 8\.7, and there is no file for it\. Use --arch with the nearest of sm_75",
    ):
        run()
    with pytest.raises(GpuemuError, match=r"--only: found nothing\.\*, expected a pattern of names"):
        run("--arch", "sm_90", "--dry-run", "--only", "nothing.*")


def walked(errors: Mapping[float, float], monkeypatch: pytest.MonkeyPatch) -> Found | str:
    """What a walk for a value of 24, which looks from 16 to 36 at first, says of these mean squared errors."""
    name = "mio.shuffle_latency_cycles"
    step = Step(tuple(name.split(".")), 24, "C", 16, 36, kernels=("k",))
    monkeypatch.setattr(estimating, "kernel_error", lambda job: errors.get(job[2].flat()[name], 0.0001))
    walk = Walk(step, Group([step], [None], Path()), SM_90)  # type: ignore[list-item]
    walk.go(24)
    return walk.found()


def valley(at: int, floor: float = 0.0) -> dict[float, float]:
    return {value: (abs(value - at) / 100) ** 2 + floor**2 for value in range(1, 200)}


@pytest.mark.parametrize("at", [16, 21, 24, 29, 36, 41, 60])
def test_a_walk_ends_at_the_least_error_within_twice_the_range(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = walked(valley(at), monkeypatch)
    assert isinstance(found, Found)
    assert (found.value, found.low, found.high, found.confidence, found.differs) == (at, at, at, "A", at != 24)


def test_none_is_a_value_that_can_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """GA102 has 0 where an H200 has 1."""
    name = "shared_memory.cycles_per_further_group"
    step = Step(tuple(name.split(".")), 1, "C", 0, 3, kernels=("k",))
    monkeypatch.setattr(estimating, "kernel_error", lambda job: (job[2].flat()[name] / 10) ** 2)
    walk = Walk(step, Group([step], [None], Path()), SM_90)  # type: ignore[list-item]
    walk.go(1)
    found = walk.found()
    assert isinstance(found, Found)
    assert (found.value, found.differs) == (0, True)


def test_what_fits_about_as_well_is_a_range_and_the_file_s_value_stays_within_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = walked(valley(25, floor=0.02), monkeypatch)
    assert isinstance(found, Found)
    assert (found.value, found.low, found.high, found.confidence, found.differs) == (24, 24, 26, "B", False)


@pytest.mark.parametrize(
    ("errors", "why"),
    [
        ({}, "the clocks of k do not depend on it"),
        (valley(30, floor=0.06), "emulated clocks of k are 6% off for every value"),
        (
            {value: 1e-6 * (200 - value) for value in range(200)},
            "the clocks of k fit best at 72, further off than it can be",
        ),
        (
            {value: 0.0004 + 1e-6 * abs(value - 24) for value in range(200)},
            "the clocks of k tell it no nearer than 16 to 40",
        ),
    ],
)
def test_a_value_that_the_clocks_do_not_tell_stays_and_says_why(
    errors: dict[float, float], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert walked(errors, monkeypatch) == why


def test_a_range_is_written_and_read_back_and_a_base_of_ones_own_is_named_from_where_the_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = walked(valley(25, floor=0.02), monkeypatch)
    assert isinstance(found, Found)
    (tmp_path / "base.yaml").write_text("extends: sm_90\n")
    (tmp_path / "out").mkdir()
    output = tmp_path / "out" / "mine.yaml"
    output.write_text(file_text([found], str(tmp_path / "base.yaml"), SM_90, FACTS, output))
    assert 'extends: "../base.yaml"' in output.read_text()
    where = gpuemu.load_arch(output).provenance["mio.shuffle_latency_cycles"]
    assert (where.status, where.confidence, where.range) == ("measured", "B", (24, 26))


@pytest.mark.parametrize(
    ("device", "chip", "sms", "clock"),
    [
        ({"name": "NVIDIA H100 80GB HBM3", "multiprocessors": 132}, "H100", 132, SM_90.chips["H100"].clock_mhz),
        ({"name": "NVIDIA H100 PCIe 4", "multiprocessors": 100, "sm_clock_mhz": "1700"}, "H100 PCIe 4", 100, 1700),
        ({"name": "NVIDIA X1", "multiprocessors": 7, "sm_clock_mhz": "900", "l2_kibibytes": 4096}, "X1", 7, 900),
        ({"name": "NVIDIA X1"}, SM_90.chip, SM_90.chips[SM_90.chip].sms, SM_90.chips[SM_90.chip].clock_mhz),
    ],
)
def test_the_file_s_chip_is_the_card_one_of_the_shipped_or_as_the_driver_says(
    device: dict[str, Any], chip: str, sms: int, clock: int, tmp_path: Path
) -> None:
    output = tmp_path / "mine.yaml"
    output.write_text(file_text([], "sm_90", SM_90, device, output))
    mine = gpuemu.load_arch(output)
    assert (mine.chip, mine.chips[chip].sms, mine.chips[chip].clock_mhz) == (chip, sms, clock)
    assert mine.chips[chip].l2_kibibytes == device.get(
        "l2_kibibytes", getattr(SM_90.chips.get(chip), "l2_kibibytes", None)
    )


@pytest.mark.parametrize(("right", "confidences"), [((29, 28), "CC"), ((29, 23), "AA")])
def test_values_that_move_together_are_told_with_less_confidence_than_one_alone(
    right: tuple[int, int], confidences: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("mio.shuffle_latency_cycles", "shared_memory.latency_cycles")
    steps = [Step(tuple(name.split(".")), SM_90.flat()[name], "D", 10, 40, kernels=("k",)) for name in names]

    def error(job: Any) -> float:
        return sum(((job[2].flat()[name] - value) / 100) ** 2 for name, value in zip(names, right, strict=True))

    monkeypatch.setattr(estimating, "kernel_error", error)
    told, end, left = estimating._walked(Group(steps, [None], Path()), SM_90)  # type: ignore[list-item]
    assert (tuple(end.flat()[name] for name in names), left) == (right, 0.0)
    assert "".join(one.confidence for one in told.values() if isinstance(one, Found)) == confidences


class _Elsewhere(Executor):
    """Another process, as far as what goes there and comes back is concerned: all walks say no."""

    def submit(self, fn: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
        (group, arch) = pickle.loads(pickle.dumps(arguments))
        done: Future[Any] = Future()
        done.set_result((dict.fromkeys((step.name for step in group.steps), "no"), arch, 0.0))
        return done


def test_walks_go_to_other_processes_and_a_closed_form_that_they_refine_counts_for_nothing_without() -> None:
    folder = ROOT / "validation/data/h200"
    name = "tensor_core.operations.m16n8k16.f32.f16.issue_interval_cycles"
    todo = plan(SM_90, [name, "operations.reduction.latency_cycles"])
    found, reasons = estimating.estimate(todo, FitView(folder), folder, SM_90, _Elsewhere())
    assert found == []
    assert reasons == {name: "no", "operations.reduction.latency_cycles": "no"}


def test_a_kernel_that_did_not_run_leaves_its_values_unmeasured(tmp_path: Path) -> None:
    todo = plan(SM_90, ["operations.reduction.latency_cycles", "operations.mufu.latency_cycles"])
    with executor(1) as pool:
        found, reasons = estimating.estimate(todo, {}, tmp_path, SM_90, pool)
    assert found == []
    assert reasons == {
        "operations.mufu.latency_cycles": "lat_mufu_ex2_16 was not measured",
        "operations.reduction.latency_cycles": "lat_redux_16 was not measured",
    }
    assert list(table(found, reasons, SM_90))[-1] == "0 values measured, 0 differing; 2 not measured"


def test_the_command_s_module_is_what_the_suite_in_the_wheel_has() -> None:
    assert Path(command.__file__).parent == ROOT / "validation" / "calibrate"
