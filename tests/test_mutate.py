"""The mutation run: which mutants a module has, and that its table names files that are there."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = """
import os

def f(a: int = 1, b: tuple[int, 2] = ()) -> bool:
    if 0 < a <= 4:
        return True
    elif not a:
        b += 1
    raise ValueError(f"{a + 1}")
"""


@pytest.fixture(scope="module")
def mutate() -> Any:
    spec = importlib.util.spec_from_file_location("mutate", ROOT / "tools" / "mutate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["mutate"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_each_place_of_a_module_is_changed_by_itself_and_nothing_else_of_it(mutate: Any) -> None:
    found = {}
    for mutant in mutate.mutants(ast.parse(SOURCE)):
        text = mutate.changed(SOURCE, mutant)
        ast.parse(text)
        before, after = SOURCE.splitlines(), text.splitlines()
        assert len(before) == len(after)
        (line,) = [i for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
        found[after[line].strip()] = line
    assert found == {
        "def f(a: int = (2), b: tuple[int, 2] = ()) -> bool:": 3,
        "if (not 0 < a <= 4):": 4,
        "if (0 <= a <= 4):": 4,
        "if (0 < a < 4):": 4,
        "if (1) < a <= 4:": 4,
        "if 0 < a <= (5):": 4,
        "return (False)": 5,
        "elif (not not a):": 6,
        "b += (2)": 7,
        "pass": 7,
    }


def test_the_modules_of_the_sample_and_their_tests_are_there(mutate: Any) -> None:
    assert len(mutate.MODULES) > 12
    for module, tests in mutate.MODULES.items():
        assert (ROOT / module).is_file(), module
        assert all((ROOT / test).is_file() for test in tests.split()), tests


@pytest.mark.slow
def test_a_mutant_that_fails_its_tests_is_noticed(mutate: Any, tmp_path: Path) -> None:
    for value, found in ((3, False), (4, True)):
        (tmp_path / "test_it.py").write_text(f"def test_it():\n    assert {value} == 3\n")
        assert mutate.noticed(tmp_path, "test_it.py") is found
    (tmp_path / "test_it.py").write_text(
        "import pytest\n\n@pytest.mark.slow\ndef test_it():\n    assert False\n\ndef test_that():\n    pass\n"
    )
    assert mutate.noticed(tmp_path, "test_it.py")
    assert not mutate.noticed(tmp_path, "test_it.py", fast=True)
    with pytest.raises(SystemExit, match="no_such_file"):
        mutate.noticed(tmp_path, "no_such_file.py")
