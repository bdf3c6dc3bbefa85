"""One source on Python objects and compiled: records, twins of modules, and what is kept on disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pytest

from gpuemu.engine.records import NEVER, Record, columns, fields, objects

pytest.importorskip("numba")

from gpuemu.engine.twins import cached, fingerprint

STEP = """
from toy_step import advance

def run(state, until):
    now = 0
    while now < until:
        for i in range(len(state.counters)):
            advance(state, i, now)
        now += 1
    return now
"""
ADVANCE = """
PACE = 3

def advance(state, i, now):
    one = state.counters[i]
    if one.ready_at <= now:
        one.ring[now & 3] += i + 1
        state.pool[i] += one.ring[now & 3]
        state.log[i * 16 + (now & 15)] = now
        one.ready_at = now + PACE + i
"""
UNITS = ("toy_step", "toy_run")


class Counter(Record):
    ready_at: int
    ring: Annotated[list[int], 4]


class State(NamedTuple):
    counters: object
    pool: object
    log: object


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "toy_step.py").write_text(ADVANCE)
    (tmp_path / "toy_run.py").write_text(STEP)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in UNITS:
        sys.modules.pop(name, None)


def plain() -> State:
    return State(objects(Counter, 3), [0] * 3, [0] * 48)


def compiled() -> State:
    return State(columns(Counter, 3), np.zeros(3, np.int64), np.zeros(48, np.int64))


def test_a_record_has_the_fields_that_are_declared():
    assert fields(Counter) == {"ready_at": 0, "ring": 4}
    one = objects(Counter, 2)[1]
    assert (one.ready_at, one.ring) == (0, [0, 0, 0, 0])
    assert columns(Counter, 2).dtype.itemsize == 8 * 5
    assert NEVER < 2**61  # two of them can be added


def test_another_type_of_field_is_refused_by_name():
    class Wrong(Record):
        rate: float

    with pytest.raises(TypeError, match=r"Wrong.rate: .*float.*; expected int or Annotated"):
        fields(Wrong)


@pytest.mark.slow
def test_both_forms_of_one_source_do_the_same(toy):
    import toy_run

    mine, theirs = plain(), compiled()
    assert toy_run.run(mine, 50) == cached(UNITS, "run", toy)(theirs, 50) == 50
    assert mine.log == theirs.log.tolist()
    assert mine.pool == theirs.pool.tolist()
    assert [c.ready_at for c in mine.counters] == theirs.counters["ready_at"].tolist()
    assert [c.ring for c in mine.counters] == theirs.counters["ring"].tolist()


@pytest.mark.slow
def test_an_index_outside_is_an_error_where_bounds_are_checked(toy):
    state = compiled()._replace(pool=np.zeros(1, np.int64))
    with pytest.raises(IndexError):
        cached(UNITS, "run", toy, check_bounds=True)(state, 50)


CHILD = """
import sys, time
sys.path.insert(0, sys.argv[1]); sys.path.insert(0, sys.argv[2])
from pathlib import Path
import test_twins as t
from gpuemu.engine.twins import cached
run, state = cached(t.UNITS, "run", Path(sys.argv[1]) / "kept"), t.compiled()
run(state, 50)
print(state.pool.tolist(), sum(run.__wrapped__.stats.cache_hits.values()))
"""


@pytest.mark.slow
def test_the_next_process_finds_the_code_and_a_changed_rule_is_compiled_anew(toy):
    def child() -> str:
        command = [sys.executable, "-c", CHILD, str(toy), str(Path(__file__).parent)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    first, second = child(), child()
    assert first.endswith(" 0")
    assert second == first[:-1] + "1"
    before = fingerprint(UNITS, {})
    (toy / "toy_step.py").write_text(ADVANCE.replace("PACE = 3", "PACE = 4"))
    assert fingerprint(UNITS, {}) != before
    changed = child()
    assert changed.endswith(" 0")
    assert changed[:-2] != first[:-2]


@pytest.mark.slow
def test_machines_of_any_size_share_one_signature(toy):
    run = cached(UNITS, "run", toy / "kept")
    for many in (1, 2, 5):
        run(State(columns(Counter, many), np.zeros(9, np.int64), np.zeros(99, np.int64)), 5)
    assert len(run.__wrapped__.signatures) == 1


def test_a_number_that_a_unit_imports_counts_as_part_of_it(toy):
    """It is compiled in: code that was kept with another would give the old result."""
    (toy / "toy_numbers.py").write_text("PACE = 3\n")
    (toy / "toy_step.py").write_text(ADVANCE.replace("PACE = 3", "from toy_numbers import PACE"))
    before = fingerprint(UNITS, {})
    (toy / "toy_numbers.py").write_text("PACE = 42\n")
    del sys.modules["toy_numbers"]
    assert fingerprint(UNITS, {}) != before
