"""The grids that were measured: each has its launch and its row, and the score reads as it should."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from validation import records as data
from validation.grids import records
from validation.grids.launches import argument, grids
from validation.grids.score import FILE, HELD_OUT, chosen, estimate, table
from validation.suite import Score, drawn

FOLDER = data.data_folder("h100", FILE)


def test_there_are_more_than_120_grids_and_each_has_a_row() -> None:
    assert len(grids()) >= 120
    assert max(Counter(grid.name for grid in grids()).values()) == 1
    assert list(records.read(FOLDER / FILE)) == [grid.name for grid in grids()]


def test_a_part_is_held_out_and_the_parts_are_all() -> None:
    parts = [{grid.name for grid, _ in chosen(FOLDER, which)} for which in ("held-out", "fit", "all")]
    assert 30 <= len(parts[0]) <= 60
    assert parts[0] | parts[1] == parts[2]
    assert not parts[0] & parts[1]
    assert all(drawn(name, HELD_OUT) for name in parts[0])


@pytest.mark.parametrize(
    ("text", "shape", "dtype"),
    [("zeros:f16:12", (12,), np.float16), ("below:9:100", (100,), np.int32), ("rows:10:4", (11,), np.int32), ("f32:2", (), np.float32)],
)  # fmt: skip
def test_arguments_are_what_they_say_and_the_same_each_time(text: str, shape: tuple[int, ...], dtype: type) -> None:
    made = argument(text)
    assert made.shape == shape
    assert made.dtype == dtype
    assert np.array_equal(made, argument(text))


def test_pages_of_the_profiler_become_rows(tmp_path: Path) -> None:
    timed, counted = tmp_path / "cycles.csv", tmp_path / "counters.csv"
    head = '==PROF== Connected\n"ID","Metric Name","Metric Unit","Metric Value"\n'
    launches = range(3 * len(grids()))
    timed.write_text(head + "".join(f'"{i}","sm__cycles_elapsed.max","cycle","{1000 + i % 3:,}"\n' for i in launches))
    counted.write_text(head + "".join(f'"{i}","dram__bytes_read.sum","byte","256"\n' for i in range(len(grids()))))
    first = records.rows(timed, counted)[0]
    assert (first[records.CYCLES], first["least"], first["most"], first["dram__bytes_read.sum"]) == (
        1001,
        1000,
        1002,
        256,
    )
    counted.write_text(head)
    with pytest.raises(ValueError, match="417 and 0 launches, expected a multiple"):
        records.rows(timed, counted)


def test_the_table_has_a_line_a_family_and_the_worst() -> None:
    found = [
        Score(name="a", family="add", measured=100, emulated=105.0, seconds=1.0),
        Score(name="b", family="add", measured=100, emulated=50.0, seconds=3.0),
    ]
    lines = table(found, worst=1)
    assert lines[1].split() == ["add", "2", "27.5%", "27.5%", "-22.5%", "50%"]
    assert [line.split() for line in lines[4:6]] == [
        ["worst", "emulated", "measured", "error"],
        ["b", "50", "100", "-50.0%"],
    ]
    assert lines[6] == "an answer takes 2.0 s in the median, 3 s at most: b"


def test_the_table_says_how_many_counters_are_near_what_was_measured() -> None:
    counts = [
        {"DRAM bytes": (10_000_000, 10_900_000), "L2 sectors": (100_000, 120_000)},
        {"DRAM bytes": (0, 90_000), "L2 sectors": (0, 1)},
    ]
    lines = table(
        [Score(name=str(k), family="add", measured=100, emulated=100.0, counters=each) for k, each in enumerate(counts)]
    )
    found = [line.split() for line in lines if "of the whole launch" in line]
    assert [(line[0], line[-1]) for line in found] == [("DRAM", "100%"), ("L2", "50%")]


@pytest.mark.slow
def test_an_fp32_product_is_estimated_within_10_percent() -> None:
    grid, figures = next(pair for pair in chosen(FOLDER, "all", "FP32 product") if "1024_32x32" in pair[0].name)
    name, cycles, _, counters = estimate((grid, "sm_90", "H100"))
    assert name == grid.name
    assert cycles == pytest.approx(figures[records.CYCLES], rel=0.1)
    assert counters["lts__t_sectors_srcunit_tex.sum"] == pytest.approx(
        figures["lts__t_sectors_srcunit_tex.sum"], rel=0.25
    )
