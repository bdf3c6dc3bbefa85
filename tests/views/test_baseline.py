"""Figures that a file keeps: what is allowed, what is worse, what is written and read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from refusals import brief

from gpuemu import GpuemuError
from gpuemu.views.baseline import Allowed, Baseline, Figure, parse_allowed, read_baseline

DATA: dict[str, Any] = {"kernel": "k", "arch": "sm_89", "overrides": {"issue.policy": "gto"}, "layout": {}, "cycles": 7}
VALUES = {
    "cycles": 1000, "warp_instructions": 37, "resident_ctas": 24, "wavefronts": 36, "excess_wavefronts": 12, "stall.barrier": 5,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value", "most", "least"),
    [("0", 1000, 1000, 1000), ("16", 1000, 1016, 984), ("2%", 1000, 1020, 980), ("0.5%", 778, 781, 775), ("2.5", 10, 12, 8), ("100%", 0, 0, 0)],
)  # fmt: skip
def test_the_worst_that_is_right_is_a_whole_number_either_way(text: str, value: int, most: int, least: int) -> None:
    allowed = Allowed.read(text)
    assert allowed is not None
    assert (allowed.beyond(value, False), allowed.beyond(value, True)) == (most, least)
    assert str(allowed) == text


@pytest.mark.parametrize("text", ["cycles", "cycles=", "=3", "cycles=x", "=", ""])
def test_what_allows_nothing_of_a_figure_is_refused(text: str) -> None:
    with pytest.raises(GpuemuError) as error:
        parse_allowed(["sectors=1", text])
    assert "\n".join(brief(error.value)) == f"--allow: '{text}'"


@pytest.mark.parametrize("text", ["", "%", "-1", "two", "1 %", "1e3", "1" * 13])
def test_what_is_neither_an_amount_nor_a_share_is_none(text: str) -> None:
    assert Allowed.read(text) is None


def test_a_new_baseline_keeps_what_a_run_has_of_the_usual_figures_and_reads_back_the_same(tmp_path: Path) -> None:
    file = str(tmp_path / "b.yaml")
    kept = Baseline.of(file, DATA, VALUES).allowing(parse_allowed(["cycles=2%", "stall.barrier=3"]), VALUES)
    assert list(kept.figures) == [*VALUES]
    Path(file).write_text(kept.text(), encoding="utf-8")
    read = read_baseline(file)
    assert read.subject == {"kernel": "k", "arch": "sm_89", "overrides": {"issue.policy": "gto"}, "layout": {}}
    assert {n: (f.value, str(f.allowed)) for n, f in read.figures.items()} == {
        n: (value, {"cycles": "2%", "stall.barrier": "3"}.get(n, "0")) for n, value in VALUES.items()
    }
    assert [f.line for f in read.figures.values()] == [*range(8, 14)]
    assert read.text() == kept.text()


@pytest.mark.parametrize(
    ("name", "found", "failed", "sentence"),
    [
        ("cycles", 100, False, "b.yaml: cycles is 100"), ("cycles", 110, False, "b.yaml: cycles is 110, 10 more than 100"),
        ("cycles", 90, False, "b.yaml: cycles is 90, 10 fewer than 100"),
        ("cycles", 111, True, "b.yaml: cycles is 111, 11 more than 100; expected at most 110"),
        ("resident_ctas", 90, False, "b.yaml: resident_ctas is 90, 10 fewer than 100"),
        ("resident_ctas", 89, True, "b.yaml: resident_ctas is 89, 11 fewer than 100; expected at least 90"),
        ("l1.hit_sectors", 200, False, "b.yaml: l1.hit_sectors is 200, 100 more than 100"),
        ("bound.tensor_core", 0, False, "b.yaml: bound.tensor_core is 0, 100 fewer than 100"),
    ],
)  # fmt: skip
def test_a_figure_fails_where_it_is_worse_by_more(name: str, found: int, failed: bool, sentence: str) -> None:
    kept = Baseline("b.yaml", Baseline.of("b.yaml", DATA, {}).subject, {name: Figure(100, Allowed(10.0, True))})
    values = {} if name.startswith("bound.") else {name: found}
    (verdict,) = kept.verdicts(DATA, values)
    assert (verdict.figure, verdict.found, verdict.failed, verdict.sentence) == (name, found, failed, sentence)
    assert verdict.limit == ("at most 110" if name in ("cycles", "bound.tensor_core") else "at least 90")


def test_what_is_allowed_for_a_figure_that_is_not_kept_is_refused_or_adds_it() -> None:
    kept = Baseline.of("b.yaml", DATA, {"cycles": 5})
    with pytest.raises(GpuemuError) as error:
        kept.allowing(parse_allowed(["sectors=1"]))
    assert "\n".join(brief(error.value)) == "--allow: 'sectors'"
    assert kept.allowing(parse_allowed(["sectors=1"]), {"sectors": 9}).figures["sectors"] == Figure(9, Allowed(1.0))
    assert kept.renewed(DATA, {"cycles": 6, "sectors": 9}).figures == {"cycles": Figure(6)}


def test_a_run_of_something_else_is_refused() -> None:
    kept = Baseline.of("b.yaml", DATA, {"cycles": 5})
    for name, other in (("kernel", "j"), ("arch", "sm_90"), ("overrides", {}), ("layout", {"pitch": 3})):
        with pytest.raises(GpuemuError, match=rf"^b\.yaml: {name}: "):
            kept.verdicts({**DATA, name: other}, {"cycles": 5})


@pytest.mark.parametrize(
    ("text", "found"), [("3\n", "3"), ("kernel: k\n", "nothing"), ("gpuemu_baseline: two\n", "the text 'two'")]
)
def test_a_file_that_is_no_baseline_is_refused_as_such(text: str, found: str, tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(GpuemuError) as error:
        read_baseline(str(tmp_path / "b.yaml"))
    assert "\n".join(brief(error.value)) == f"{tmp_path / 'b.yaml'}:1: gpuemu_baseline: {found}"


def test_all_that_is_wrong_with_a_file_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "b.yaml"
    file.write_text(
        "gpuemu_baseline: 1\nkernel: 7\narch: sm_89\noverrides: []\nlayout: {}\nfigures:\n  cycles: {value: -1}\n"
        "  sectors: {value: 3, allowed: some}\n  wavefronts: {allowed: 2%}\n  more: {value: true}\n",
        encoding="utf-8",
    )
    with pytest.raises(GpuemuError) as error:
        read_baseline(str(file))
    assert [line.removeprefix(str(file)) for line in brief(error.value)] == [
        ":2: kernel: 7", ":4: overrides: the list []", ":7: figures.cycles.value: -1",
        ":8: figures.sectors.allowed: the text 'some'", ":9: figures.wavefronts: a mapping",
        ":10: figures.more.value: true",
    ]  # fmt: skip
