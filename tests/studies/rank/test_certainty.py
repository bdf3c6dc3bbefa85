"""How sure an order is: ranges, what is too close to order, and the smallest set worth a measurement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import gpuemu
from gpuemu.cli.main import cli
from gpuemu.studies.rank import certainty
from gpuemu.studies.rank.certainty import Joint, Spread, certainties
from gpuemu.studies.rank.rank_text import advice, lines
from gpuemu.studies.rank.ranking import Ranking, ordered
from validation.tuning import estimate, score
from validation.tuning.fit import Space, fit, likelihood

WIDE = Spread(shared=0.0, own=0.1, reach=1.0, degrees=1000.0)
FIGURES = {
    "limited_by": "L2", "warps": 8, "waves": 1.0, "instructions": 4096, "l2_sectors": 512, "global_sectors": 512,
    "shared_wavefronts": 0, "registers": 32, "cycles": 900, "shared_bytes": 0, "spilled_bytes": 0, "notes": [],
    "excess_wavefronts": 0, "busy_sms": 1.0, "resident_ctas": 1, "stalls": {}, "least_nanoseconds": 1.0,
}  # fmt: skip


def figures(*times: float, **changed: Any) -> list[dict[str, Any]]:
    """Configurations that differ in their times alone."""
    return [{**FIGURES, **changed, "nanoseconds": one} for one in times]


def ranking(*times: float, probability: float = 0.9) -> Ranking:
    labels = [(f"T={n}", {"T": n}) for n in range(len(times))]
    outcomes = {(n, 0): one for n, one in enumerate(figures(*times))}
    return ordered([labels], ["H100"], outcomes, probability=probability)


def test_one_that_is_much_faster_is_measured_alone() -> None:
    sure = certainties(figures(100.0, 300.0, 310.0))
    assert [one.measure for one in sure if one] == [True, False, False]
    assert [one.alike_until for one in sure if one] == [1, 3, 3]
    assert [one.near_best for one in sure if one] == [1.0, 0.0, 0.0]


def test_a_range_holds_the_ratio_to_the_first_in_nine_of_ten_cases() -> None:
    joint = Joint(figures(100.0, 120.0), WIDE)
    (first, second) = joint.certainties()
    assert (first.low, first.high) == (1.0, 1.0)
    # Two independent errors of 10% differ by 14.1%, and 90% of them by at most 1.645 times that.
    assert second.low == pytest.approx(1.2 * np.exp(-1.645 * 0.1 * 2**0.5), rel=0.02)
    assert second.high == pytest.approx(1.2 * np.exp(1.645 * 0.1 * 2**0.5), rel=0.02)


def test_equal_estimates_need_as_many_measurements_as_the_probability_says() -> None:
    joint = Joint(figures(*[100.0] * 10), WIDE)
    few, many = joint.measured(0.5), joint.measured(0.9)
    assert len(few) < len(many) <= 9
    assert joint.good[:, list(many)].any(axis=1).mean() >= 0.9
    assert joint.good[:, list(many[:-1])].any(axis=1).mean() < 0.9


def test_configurations_that_err_alike_need_fewer_measurements() -> None:
    apart = [{**one, "warps": 2**at, "instructions": 4096 * 2**at} for at, one in enumerate(figures(*[100.0] * 10))]
    model = Spread(shared=0.1, own=0.001, reach=0.3, degrees=1000.0)
    alike = Joint(figures(*[100.0] * 10), model).measured(0.9)
    assert alike == (0,)
    assert len(Joint(apart, model).measured(0.9)) > 5


def test_the_set_and_what_is_too_close_to_order_are_in_every_form() -> None:
    found = ranking(100.0, 101.0, 400.0)
    rows = found.rows
    assert [row.label for row in found.measure()] == [row.label for row in rows if row.certainty.measure]  # type: ignore[union-attr]
    assert found.data()["measure"] == [
        {"chip": "H100", "probability": 0.9, "places": [row.place for row in found.measure()]}
    ]
    assert rows[0].certainty is not None
    assert rows[0].certainty.alike_until == 2
    assert {"slower_low", "slower_high", "alike_until", "near_best", "measure"} <= found.data()["certainties"][1].keys()
    assert "measure" in found.records()[0]
    text = " ".join(" ".join(line for _, line in lines(found)).split())
    assert "Ranks 1 to 2 are too close to order" in text
    assert "With 90% probability" in text or "with 90% probability" in text


def test_the_advice_names_the_places_and_a_row_alone_needs_none() -> None:
    assert advice(ranking(100.0), "H100") == ""
    assert advice(ranking(100.0, 900.0), "H100").startswith(
        "Measure only rank 1: with 90% probability, it is within 1%"
    )
    told = advice(ranking(*[100.0] * 9, probability=0.99), "H100")
    assert told.startswith("Measure these ")
    assert "With 99% probability, one of them is within 1% of the fastest." in told


def test_slow_ones_do_not_compete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certainty, "_MOST", 3)
    sure = certainties(figures(1.0, 2.0, 3.0, 4.0))
    assert [one is None for one in sure] == [False, False, False, True]
    found = ranking(1.0, 2.0, 3.0, 4.0)
    assert len(found.data()["certainties"]) == 3


@pytest.mark.parametrize("probability", [0.0, 1.0, 2.0])
def test_a_probability_is_between_0_and_1(probability: float) -> None:
    one = gpuemu.Configuration("missing.cubin", name="a")
    with pytest.raises(gpuemu.GpuemuError, match="probability"):
        gpuemu.rank([one], "sm_89", probability=probability)


@pytest.mark.slow
def test_the_command_takes_a_probability(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('extern "C" __global__ void k(float *x) { x[threadIdx.x * STEP] = 1.0f; }')
    words = ["rank", str(tmp_path / "k.cu"), "--vary", "STEP=1,2", "--arg", "zeros:f32:1024", "--jobs", "1"]
    found = CliRunner().invoke(cli, [*words, "--probability", "0.5", "--format", "json"])
    assert json.loads(found.stdout)["measure"][0]["probability"] == 0.5
    assert CliRunner().invoke(cli, [*words, "--probability", "1"]).exit_code == 2


# --- the fitted model -------------------------------------------------------------------------------------------------


def drawn(model: Spread, seed: int, count: int = 40) -> Space:
    """A space whose errors follow the model."""
    random = np.random.default_rng(seed)
    told = [
        {**FIGURES, "nanoseconds": 100.0 + at, "warps": 2 ** int(random.integers(0, 6)), "instructions": 2 ** int(random.integers(8, 16))}
        for at in range(count)
    ]  # fmt: skip
    errors = np.linalg.cholesky(model.covariance(told)) @ random.standard_normal(count)
    return Space(f"space {seed}", told, np.exp(errors) * np.array([one["nanoseconds"] for one in told]))


@pytest.mark.slow
def test_a_fit_finds_the_errors_from_which_the_data_were_drawn() -> None:
    truth = Spread(shared=0.08, own=0.02, reach=0.4, degrees=1e6)
    found = fit([drawn(truth, seed) for seed in range(8)])
    assert found.shared == pytest.approx(truth.shared, rel=0.35)
    assert found.own == pytest.approx(truth.own, rel=0.6)
    assert found.degrees >= 10
    other = drawn(truth, 99)
    assert likelihood(other, found) > likelihood(other, Spread(0.02, 0.02, 0.4, 3.0))


def test_a_factor_common_to_a_space_does_not_matter() -> None:
    space = drawn(Spread(0.08, 0.02, 0.4, 1e6), 3)
    scaled = Space(space.name, space.figures, 5 * space.measured)
    model = Spread(0.05, 0.01, 0.4, 4.0)
    assert likelihood(scaled, model) == pytest.approx(likelihood(space, model))


@pytest.fixture(scope="module")
def measured() -> list[Space]:
    return estimate.read(Path(score.__file__).parents[1] / "data" / "h100" / score.FILE)


@pytest.mark.slow
def test_the_committed_model_is_the_fit_of_the_committed_spaces(measured: list[Space]) -> None:
    assert certainty.spread() == fit(measured)
    assert score.SPREAD.read_text() == score.text(fit(measured), measured, "h100")


@pytest.mark.slow
def test_sets_of_spaces_that_the_fit_has_not_seen_hold_what_they_promise(measured: list[Space]) -> None:
    found = score.trials(measured, 0.9, count=30)
    halves = [one for _, parts, _ in found for one in parts]
    assert np.mean([one.hit for one in halves]) >= 0.9
    assert sum(one.hit for one, _, _ in found) >= 8
    share = np.mean([one.chosen / one.count for one in halves])
    assert score.random_share(halves) > 2 * share
    assert np.mean([inside for _, _, inside in found]) >= 0.85


def test_a_random_set_of_the_same_hit_rate_is_as_large_as_probability_says() -> None:
    one = score.Trial(count=10, good=1, chosen=1, hit=True, first=0.0)
    other = score.Trial(count=10, good=1, chosen=1, hit=False, first=0.0)
    assert score.random_share([one, other]) == 0.5
    assert score.random_share([one, one]) == 1.0


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    row = dict.fromkeys(estimate.COLUMNS, 1.5) | {"space": "s", "configuration": "c"}
    estimate.write(tmp_path / "t.csv", [row, row | {"nanoseconds": 1.0, "measured_cycles": 7}])
    (space,) = estimate.read(tmp_path / "t.csv")
    assert space.measured.tolist() == [7.0, 1.5]
    with pytest.raises(estimate.RecordError, match="Write it with"):
        estimate.read(tmp_path / "missing.csv")


def test_slow_configurations_do_not_change_the_certainty_of_fast_ones() -> None:
    few, many = certainties(figures(100.0, 103.0)), certainties(figures(100.0, 103.0, 900.0, 950.0))
    assert many[:2] == few
