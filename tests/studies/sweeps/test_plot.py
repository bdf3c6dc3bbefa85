"""Plots: what is on them, not how they look (that was looked at)."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

from gpuemu.studies.sweeps import plot
from gpuemu.studies.sweeps.plot import check_plot, draw, picture
from gpuemu.studies.sweeps.results import Record, front

VARIED = ["layout.pitch", "layout.stages", "shared_memory.banks", "mio.queue_entries"]


def tiles(pitches: range = range(64, 264, 8)) -> list[Record]:
    """A thousand points in which more bytes buy fewer cycles, and some pitches are bad."""
    found = []
    for pitch, stages, banks, entries in product(pitches, (1, 2, 3, 4), (16, 32), (2, 4, 8, 16, 32)):
        cycles = int((4000 // stages + 3000 * (pitch % 64 == 0)) * (1.2 if banks == 16 else 1) + 300 / entries)
        named = dict(zip(VARIED, (pitch, stages, banks, entries), strict=True))
        found.append(
            {"trace": "t", "arch": "a", **named, "status": "ok", "cycles": cycles, "shared_bytes": 32 * pitch * stages}
        )
    return found


def texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.findobj(mpl.text.Text) if text.get_text()]


def dots(axes: Any) -> list[tuple[float, float]]:
    """The points of a panel."""
    return [tuple(place) for place in max((c.get_offsets() for c in axes.collections), key=len)]


@pytest.mark.slow
def test_every_name_has_a_panel_with_every_point_and_the_front_has_the_first() -> None:
    found = tiles()
    figure = picture(found, VARIED)
    first, *effects = figure.axes
    assert first.get_xlabel() == "shared memory of a CTA, bytes"
    assert [axes.get_xlabel() for axes in effects] == VARIED
    assert {axes.get_ylabel() for axes in figure.axes} == {"cycles"}
    assert sorted(dots(first)) == sorted((r["shared_bytes"], r["cycles"]) for r in found)
    assert all(len(dots(axes)) == 1000 for axes in effects)
    (red,) = [c for c in first.collections if len(c.get_offsets()) != 1000]
    assert sorted(map(tuple, red.get_offsets())) == sorted((r["shared_bytes"], r["cycles"]) for r in front(found))


@pytest.mark.slow
def test_the_title_names_the_fastest_point_and_the_line_goes_through_the_fastest_of_each_value() -> None:
    found = tiles()
    figure = picture(found, VARIED)
    best = min(found, key=lambda record: record["cycles"])
    assert f"1,000 points; fastest, {best['cycles']:,} cycles: pitch 72, stages 4, banks 32, queue_entries 32" in texts(
        figure
    )
    stages = figure.axes[2]
    least = [min(r["cycles"] for r in found if r["layout.stages"] == n) for n in (1, 2, 3, 4)]
    assert list(stages.lines[0].get_ydata()) == least


@pytest.mark.slow
def test_equal_bytes_have_no_panel_of_their_own() -> None:
    figure = picture([{**r, "shared_bytes": 1536} for r in tiles()], VARIED)
    assert [axes.get_xlabel() for axes in figure.axes] == VARIED


def test_two_names_are_a_table_of_cycles() -> None:
    names = ["layout.stages", "shared_memory.banks"]
    found = [r for r in tiles(range(64, 72, 8)) if r["mio.queue_entries"] == 2]
    figure = picture([{**r, "shared_bytes": 0} for r in found], names)
    (axes,) = figure.axes
    assert (axes.get_ylabel(), axes.get_xlabel()) == tuple(names)
    assert sorted(text.get_text() for text in axes.texts) == sorted(f"{r['cycles']:,}" for r in found)
    (bold,) = [text.get_text() for text in axes.texts if text.get_fontweight() == "bold"]
    assert bold == f"{min(r['cycles'] for r in found):,}"


def test_names_that_end_alike_are_told_apart() -> None:
    names = ["shared_memory.latency_cycles", "global_memory.latency_cycles"]
    found = [
        {"trace": "t", "arch": "a", names[0]: x, names[1]: y, "status": "ok", "cycles": x + y, "shared_bytes": 100 - x}
        for x, y in product((20, 30, 40), (200, 400))
    ]
    assert any(
        "shared_memory.latency_cycles 20, global_memory.latency_cycles 200" in t for t in texts(picture(found, names))
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda r: {**r, "cycles": 5},  # no differences at all
        lambda r: {**r, "shared_bytes": 0},
        lambda r: {**r, "layout.pitch": str(r["layout.pitch"])},  # many words
        lambda r: {**r, "shared_memory.banks": r["shared_memory.banks"] == 16},
    ],
)
def test_odd_sweeps_are_drawn_as_well(change: Any, tmp_path: Path) -> None:
    found = [change(r) for r in tiles(range(64, 104, 8))]
    draw(found, VARIED, tmp_path / "p.png")
    draw(found[:1], VARIED, tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size > 5000


@pytest.mark.slow
@pytest.mark.parametrize("ending", plot.ENDINGS)
def test_the_same_records_give_the_same_bytes(ending: str, tmp_path: Path) -> None:
    found = tiles(range(64, 128, 8))
    for name in ("a", "b"):
        draw(found, VARIED, tmp_path / f"{name}{ending}")
    assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


@pytest.mark.slow
def test_what_cannot_be_drawn_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused) -> None:
    assert refused(check_plot, Path("p.gif")) == ["p.gif: the ending '.gif'"]
    failed = [{**r, "status": "failed"} for r in tiles(range(64, 72, 8))]
    assert refused(draw, failed, VARIED, Path("p.png")) == ["p.png: there is nothing to plot: no point ran"]
    missing = tmp_path / "missing" / "p.png"
    assert refused(draw, tiles(range(64, 72, 8)), VARIED, missing) == [f"{missing}: no such file or directory"]
    monkeypatch.setattr(plot, "find_spec", lambda name: None)
    assert refused(check_plot, Path("p.png")) == ["--plot: plots need matplotlib"]
