"""Plots: what is on them, not how they look (that was looked at)."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

from gpuemu.studies.sweeps import plot
from gpuemu.studies.sweeps.palette import colours, explained, most_telling
from gpuemu.studies.sweeps.plot import _Picture, check_plot, draw
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


def texts(picture: _Picture) -> list[str]:
    return [text.get_text() for text in picture.figure.findobj(mpl.text.Text) if text.get_text()]


def test_a_thousand_points_have_their_front_named_units_and_a_legend() -> None:
    found = tiles()
    picture = _Picture(found, VARIED)
    front_panel, *effects = picture.figure.axes[: 1 + len(VARIED)]
    assert len(found) == 1000
    assert front_panel.get_xlabel() == "shared memory of a CTA, bytes"
    assert [axes.get_xlabel() for axes in effects] == [*VARIED]
    assert {axes.get_ylabel() for axes in (front_panel, effects[0], effects[2])} == {"cycles"}
    best = front(found)
    labels = [text for text in texts(picture) if " cycles\n" in text]
    assert len(labels) >= 3
    assert all(any(label.startswith(f"{r['cycles']:,} cycles\n") for r in best) for label in labels)
    assert f"{best[-1]['cycles']:,} cycles\nstages 4, pitch 72, banks 32,\nqueue_entries 32" in labels
    (legend,) = picture.figure.legends
    assert legend.get_title().get_text() == "layout.stages"
    assert [text.get_text() for text in legend.get_texts()] == ["1", "2", "3", "4"]


def test_labels_of_the_front_lie_on_no_dot_and_on_no_other_label() -> None:
    picture = _Picture(tiles(), VARIED)
    panel = picture.figure.axes[0]
    boxes = [note.get_window_extent() for note in panel.texts]
    dots = [panel.transData.transform(c.get_offsets()) for c in panel.collections]
    assert not any(box.count_contains(d) for box in boxes for d in dots)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_every_point_is_a_dot_in_every_panel() -> None:
    picture = _Picture(tiles(), VARIED)
    for axes in picture.figure.axes:
        assert max(len(c.get_offsets()) for c in axes.collections) == 1000


def test_with_equal_bytes_the_front_is_a_line_with_its_name() -> None:
    found = [{**r, "shared_bytes": 1536} for r in tiles()]
    picture = _Picture(found, VARIED)
    assert [axes.get_xlabel() for axes in picture.figure.axes][:4] == VARIED
    least = min(r["cycles"] for r in found)
    assert any(text.startswith(f"{least:,} cycles: ") for text in texts(picture))
    assert any("every point needs 1,536 bytes" in text for text in texts(picture))


def test_the_label_of_the_fastest_names_every_varied_value() -> None:
    found = [{**r, "shared_bytes": 1536} for r in tiles()]
    (label,) = [text for text in texts(_Picture(found, VARIED)) if " cycles: " in text]
    best = front(found)
    assert all(f"{name.rpartition('.')[2]} " in label for name in VARIED)
    assert f"{len(best)} points" in label
    pitches = sorted({r["layout.pitch"] for r in best})
    assert f"pitch {pitches[0]}..{pitches[-1]}" in label


def test_every_point_says_which_combination_it_is() -> None:
    found = tiles(range(64, 104, 8))
    picture = _Picture(found, VARIED)
    above, *rows = picture.figure.axes[-1 - len(VARIED) :]
    assert [row.get_title(loc="left") for row in rows] == VARIED
    cycles = above.collections[0].get_offsets()
    values = {name: sorted({r[name] for r in found}) for name in VARIED}
    places = {name: row.collections[0].get_offsets() for name, row in zip(VARIED, rows, strict=True)}
    shown = [(int(y), *(values[name][int(places[name][k][1])] for name in VARIED)) for k, (_, y) in enumerate(cycles)]
    assert sorted(shown) == sorted((r["cycles"], *(r[name] for name in VARIED)) for r in found)
    assert [c for c, *_ in shown] == sorted(r["cycles"] for r in found)


def test_names_that_end_alike_are_told_apart() -> None:
    names = ["shared_memory.latency_cycles", "global_memory.latency_cycles"]
    found = [
        {"trace": "t", "arch": "a", names[0]: x, names[1]: y, "status": "ok", "cycles": x + y, "shared_bytes": 100 - x}
        for x, y in product((20, 30, 40), (200, 400))
    ]
    labels = [text for text in texts(_Picture(found, names)) if " cycles\n" in text]
    assert labels
    assert all("shared_memory.latency_cycles " in label for label in labels)


def test_the_colours_tell_what_explains_most_and_the_bytes_do_not() -> None:
    found = tiles()
    assert most_telling(found, VARIED) == "layout.stages"
    assert explained(found, "layout.stages") > explained(found, "mio.queue_entries") > 0
    only = [{**r, "cycles": r["layout.pitch"]} for r in found if r["layout.stages"] == 1]
    assert explained(only, "layout.pitch") == 1.0
    assert most_telling(only, VARIED) != "layout.pitch"  # each pitch has bytes of its own
    words = [{**r, "trace": f"t{r['layout.stages']}"} for r in found]
    assert len(set(colours(words, "trace").values())) == 4


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


@pytest.mark.parametrize("ending", plot.ENDINGS)
def test_the_same_records_give_the_same_bytes(ending: str, tmp_path: Path) -> None:
    found = tiles(range(64, 128, 8))
    for name in ("a", "b"):
        draw(found, VARIED, tmp_path / f"{name}{ending}")
    assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


def test_what_cannot_be_drawn_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused) -> None:
    assert refused(check_plot, Path("p.gif")) == ["p.gif: found the ending '.gif'; .png, .svg or .pdf is right"]
    failed = [{**r, "status": "failed"} for r in tiles(range(64, 72, 8))]
    assert refused(draw, failed, VARIED, Path("p.png")) == [
        "p.png: found no point that ran; at least one is right for a plot"
    ]
    missing = tmp_path / "missing" / "p.png"
    assert refused(draw, tiles(range(64, 72, 8)), VARIED, missing) == [
        f"{missing}: found no such file or directory; a file that can be written is right"
    ]
    monkeypatch.setattr(plot, "find_spec", lambda name: None)
    assert refused(check_plot, Path("p.png")) == [
        '--plot: found no matplotlib here; pip install "gpuemu-sm[sweep]" is right'
    ]
