"""Records, the front, tables and files."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pandas
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuemu
from gpuemu.studies.sweeps import files
from gpuemu.studies.sweeps.plan import plan
from gpuemu.studies.sweeps.results import Record, front, records
from gpuemu.studies.sweeps.study import Named, Study, parse_vary
from gpuemu.studies.sweeps.table import lines
from gpuemu.studies.sweeps.work import Outcome


def record(cycles: int, shared_bytes: int, **more: Any) -> Record:
    named = {"trace": "t", "arch": "a", "status": "ok", "error": "", "on_front": False}
    return {**named, "cycles": cycles, "shared_bytes": shared_bytes, "excess_wavefronts": 0, "limited_by": "x", **more}


PLACES = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 8)), max_size=20)


@given(PLACES)
def test_the_front_is_what_no_point_beats(places: list[tuple[int, int]]) -> None:
    found = [record(cycles, size) for cycles, size in places]

    def beats(a: Record, b: Record) -> bool:
        no_worse = a["cycles"] <= b["cycles"] and a["shared_bytes"] <= b["shared_bytes"]
        return no_worse and (a["cycles"] < b["cycles"] or a["shared_bytes"] < b["shared_bytes"])

    expected = [r for r in found if not any(beats(other, r) for other in found)]
    assert sorted(map(id, front(found))) == sorted(map(id, expected))
    sizes = [r["shared_bytes"] for r in front(found)]
    assert sizes == sorted(sizes)


def test_a_point_that_failed_is_a_record_with_its_reason_and_never_on_the_front() -> None:
    planned = plan(Study((Named("v5", "v5_swizzle"),), axes=(parse_vary("mio.queue_entries=1,2,3"),)))
    numbers = {"cycles": 9, "shared_bytes": 4, "limited_by": "x", "bound.x": 3}
    outcomes = {0: Outcome(0, numbers), 1: Outcome(1, error="too large"), 2: Outcome(2, {**numbers, "bound.y": 1})}
    found = records(planned, outcomes)
    assert found[1] == {
        "trace": "v5", "arch": "sm_89", "mio.queue_entries": 2, "status": "failed", "error": "too large",
        "on_front": False, "cycles": None, "shared_bytes": None, "limited_by": None, "bound.x": None, "bound.y": None,
    }  # fmt: skip
    assert [r["on_front"] for r in found] == [True, False, True]
    assert found[0]["bound.y"] == 0  # a resource that the run does not use takes no cycles
    assert [list(r) for r in found] == [list(found[0])] * 3
    assert [r["mio.queue_entries"] for r in records(planned, {2: outcomes[2], 0: outcomes[0]})] == [1, 3]


def swept(jobs: int) -> list[Record]:
    return gpuemu.sweep(
        ["v2_shared_memory", "v5_swizzle"],
        {"shared_memory.banks": [16, 32], "shared_memory.load_merge_distances": [[], [1, 2]]},
        arch="sm_89",
        jobs=jobs,
    )


@pytest.fixture(scope="module")
def found() -> list[Record]:
    return swept(jobs=1)


@pytest.fixture(scope="module")
def failed(found: list[Record]) -> list[Record]:
    """Those found, and one that failed."""
    reason = 'a "reason", in\ntwo lines'
    last = {**dict.fromkeys(found[0]), "trace": "v9", "status": "failed", "error": reason, "on_front": False}
    return [*found, last]


def test_json_and_csv_hold_every_record(failed: list[Record]) -> None:
    assert json.loads(files.as_json(failed)) == failed
    assert files.as_json(failed).count(b"\n") == len(failed) + 2
    rows = list(csv.DictReader(io.StringIO(files.as_csv(failed).decode())))
    assert rows == [{name: "" if value is None else str(value) for name, value in r.items()} for r in failed]


def test_parquet_holds_every_record_in_typed_columns(failed: list[Record]) -> None:
    table = polars.read_parquet(io.BytesIO(files.as_parquet(failed)))
    assert table.to_dicts() == failed
    assert table.schema["cycles"] == polars.Int64
    assert table.schema["on_front"] == polars.Boolean


def test_a_column_of_numbers_and_words_is_words_in_parquet() -> None:
    mixed = [record(1, 2, x=1), record(1, 2, x="auto"), record(1, 2, x=None)]
    assert polars.read_parquet(io.BytesIO(files.as_parquet(mixed)))["x"].to_list() == ["1", "auto", None]


@pytest.mark.slow
def test_the_same_records_give_the_same_bytes(found: list[Record]) -> None:
    again = swept(jobs=2)
    assert again == found
    for write in files.WRITERS.values():
        assert write(again) == write(found)


def test_records_go_straight_into_pandas_and_polars(found: list[Record]) -> None:
    frame = pandas.DataFrame(found)
    assert frame.shape == (8, len(found[0]))
    assert frame.groupby("shared_memory.banks")["cycles"].min().to_dict() == {
        banks: min(r["cycles"] for r in found if r["shared_memory.banks"] == banks) for banks in (16, 32)
    }
    assert frame["cycles"].dtype.kind == "i"
    table = polars.DataFrame(found)
    assert table.height == 8
    assert table.filter(polars.col("on_front"))["cycles"].to_list() == [min(r["cycles"] for r in found)] * len(
        front(found)
    )


def test_without_polars_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, refused, found: list[Record]) -> None:
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    assert refused(files.as_parquet, found) == ["--format: parquet needs polars"]


# Tables.


def shown(found: list[Record], varied: list[str], everything: bool = False) -> list[str]:
    return [text for _, text in lines(found, varied, everything)]


def test_a_short_table_has_every_point_and_marks_the_front() -> None:
    found = [record(9, 4, x=1), record(8, 6, x=2), record(9, 6, x=3)]
    for r in front(found):
        r["on_front"] = True
    assert shown(found, ["x"]) == [
        "t on a",
        "",
        "   x  cycles  shared_bytes  excess_wavefronts  limited_by",
        "*  1       9             4                  0  x",
        "*  2       8             6                  0  x",
        "   3       9             6                  0  x",
        "",
        "* Pareto-optimal: no point is faster with the same or less shared memory",
    ]


def test_a_long_table_is_its_front_and_what_each_value_does() -> None:
    found = [record(100 + x % 7 + 10 * y, 64, x=x, y=y) for x in range(20) for y in (False, True)] * 2
    text = shown(found, ["x", "y"])
    assert text[:8] == [
        "t on a, 64 bytes of shared memory per CTA",
        "",
        "Pareto-optimal points: no point is faster with the same or less shared memory",
        "  x      y  cycles  excess_wavefronts  limited_by  points",
        "  0  false     100                  0  x                6",
        "points: how many have these cycles and bytes",
        "",
        "Cycles by value",
    ]
    assert "  x       0       4     100     100      110" in text
    assert "     8 more" in text
    assert "  y   false      40     100     103      106" in text
    assert text[-1] == "80 points; --all shows each, -o FILE.csv writes them"
    assert len(shown(found, ["x", "y"], everything=True)) == 83


def test_a_table_is_as_wide_as_it_may_be() -> None:
    found = [
        record(900, 4, **{"limited_by": "latency of one warp, a wait", "shared_memory.banks": x}) for x in (16, 32)
    ]
    wide = [text for _, text in lines(found, ["shared_memory.banks"], width=100)]
    narrow = [text for _, text in lines(found, ["shared_memory.banks"], width=60)]
    assert max(map(len, wide)) > 60 >= len(narrow[2])
    assert (wide[2].split()[-2:], narrow[2].split()[-1]) == (["excess_wavefronts", "limited_by"], "excess_wavefronts")


def test_failures_are_counted_by_reason() -> None:
    failed = {"status": "failed", "cycles": None, "shared_bytes": None, "excess_wavefronts": None, "limited_by": None}
    found = [record(9, 4, x=1), *({**record(0, 0, x=x), **failed, "error": f"reason {x % 2}\nmore"} for x in (2, 3, 4))]
    assert shown(found, ["x"])[4:] == [
        "  2       -                  -  -",
        "  3       -                  -  -",
        "  4       -                  -  -",
        "",
        "3 of 4 points failed",
        "  2x reason 0",
        "     more",
        "  1x reason 1",
        "     more",
    ]
    assert shown(found[1:], ["x"])[0] == "t on a"
