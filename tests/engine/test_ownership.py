"""Every record has an owner: what one unit alone reads and writes stands in its own file."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gpuemu.engine import machine, state
from gpuemu.engine.records import Record, fields

ENGINE = Path(state.__file__).parent
SHARED = [kind for kind in vars(state).values() if isinstance(kind, type) and kind.__module__ == state.__name__]


def users(folder: Path) -> dict[str, set[str]]:
    """Files of units by the names of fields that they use."""
    found: dict[str, set[str]] = {}
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                found.setdefault(node.attr, set()).add(path.name)
    return found


def test_no_field_of_a_shared_record_is_used_by_one_unit_only():
    used = users(ENGINE / "units")
    records = [kind for kind in SHARED if issubclass(kind, Record)]
    assert {kind.__name__ for kind in records} == {"Ring", "Sm", "Cta", "Warp", "Core", "Flight"}
    alone = {(kind.__name__, name) for kind in records for name in fields(kind) if len(used.get(name, ())) < 2}
    assert alone == set()


@pytest.mark.slow
def test_every_other_record_stands_in_the_file_of_the_unit_that_keeps_it():
    for unit in machine.UNITS:
        for name, kept in unit.records.items():
            assert kept.record.__module__.startswith("gpuemu.engine.units."), (unit.name, name)
            assert fields(kept.record).keys() <= users(ENGINE / "units").keys(), (unit.name, name)


def test_the_early_clock_of_the_load_store_unit_is_told_in_one_file():
    assert users(ENGINE / "units")["ahead"] == {"phases.py"}


def test_only_queues_lie_in_the_pool_and_every_column_is_read():
    used = users(ENGINE / "units")
    assert used["pool"] == {"rings.py"}
    assert {name for unit in machine.UNITS for name in unit.columns} <= used.keys()
