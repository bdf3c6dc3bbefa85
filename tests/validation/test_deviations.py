"""Each open row of DEVIATIONS.md is still true; on the day a gap closes, its test fails."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

import gpuemu
from validation import records
from validation.deviations import Deviation, PageError, read_page, reasons
from validation.replay import Replay, replay

KERNELS_REPLAYED = 6
OPEN = [d for d in read_page() if d.status == "open"]


def mean_error(deviation: Deviation, gpu: str = "h200") -> float:
    """Over a few of its kernels, spread over the list."""
    folder = records.data_folder(gpu)
    device = records.read_device(folder / records.DEVICE_FILE)
    found = records.read_measurements(folder / records.MEASUREMENTS_FILE, lambda name, _: deviation.shows_in(name))
    assert found, f"DEVIATIONS.md {deviation.id}: no measured kernel is called {' or '.join(deviation.kernels)}"
    chosen = found[:: -(-len(found) // KERNELS_REPLAYED)]
    arch = gpuemu.load_arch(device["arch"])
    replays = [replay(folder / records.CODE_FILE, m.launch, arch) for m in chosen]
    refused = {got.name: got.error for got in replays if got.error}
    assert not refused, f"DEVIATIONS.md {deviation.id}: what the emulator refuses has no error"
    return statistics.fmean(
        abs(got.cycles - m.cycles_min) / m.cycles_min for m, got in zip(chosen, replays, strict=True)
    )


@pytest.mark.slow
def test_every_known_gap_is_still_open() -> None:
    closed = [
        f"DEVIATIONS.md {d.id} ({d.what}) has closed: its kernels are off by {error:.1%}, "
        f"less than the {d.least_error:.1%} of its row. Mark the row closed."
        for d in OPEN
        if (error := mean_error(d)) < d.least_error
    ]
    assert not closed


@pytest.mark.parametrize(("factor", "closed"), [(0.9, True), (1.1, False)])
def test_a_gap_that_is_smaller_than_its_row_says_has_closed(
    monkeypatch: pytest.MonkeyPatch, factor: float, closed: bool
) -> None:
    row = Deviation("D1", "what", ("lat_iadd3_*",), 0.1, "open")
    measured = {
        m.name: m.cycles_min for m in records.read_measurements(records.data_folder("h200") / "measurements.csv")
    }

    def replayed(code: Path, launch: records.KernelLaunch, arch: gpuemu.Architecture) -> Replay:
        return Replay(launch.name, round(measured[launch.name] * (1 + factor * row.least_error)))

    monkeypatch.setitem(globals(), "replay", replayed)
    assert (mean_error(row) < row.least_error) is closed
    monkeypatch.setitem(globals(), "replay", lambda code, launch, arch: Replay(launch.name, error="refused"))
    with pytest.raises(AssertionError, match=r"DEVIATIONS\.md D1: what the emulator refuses has no error"):
        mean_error(row)


def page(folder: Path, *rows: str) -> Path:
    path = folder / "PAGE.md"
    head = "| id | what | kernels | mean error at least | status |\n|---|---|---|---|---|\n"
    path.write_text("# Gaps\n\n" + head + "\n".join(rows) + "\n")
    return path


def test_a_row_names_its_kernels_by_pattern(tmp_path: Path) -> None:
    rows = read_page(
        page(tmp_path, "| D1 | fetch | `fetch_*` `loop_*_w1` | 8 % | open |", "| D2 | old | `x` | 2.5 % | closed |")
    )
    assert rows[0] == Deviation("D1", "fetch", ("fetch_*", "loop_*_w1"), 0.08, "open")
    assert rows[1].least_error == 0.025
    assert reasons("fetch_64_w1", rows) == [rows[0]]
    assert reasons("x", rows) == []


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("| D1 | fetch | `f` | 8 % |", "PAGE.md:5: 4 cells"),
        ("| D1 | fetch | `f` | some | open |", "PAGE.md:5: 'some', 'open'"),
        ("| D1 | fetch | `f` | 8 % | maybe |", "PAGE.md:5: '8 %', 'maybe'"),
    ],
)
def test_a_row_that_does_not_read_is_named(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(PageError, match=message):
        read_page(page(tmp_path, row))
