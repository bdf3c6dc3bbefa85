"""Estimates of launches change smoothly with the chip and with the grid."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from validation.continuity import CLOCK, GRID, GRIDS, VALUES, Step, scan, table, violations

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("kernel", "value", "after", "excess"),
    [
        ("gather", "dram_bytes_per_cycle", 1005, -0.005),
        ("gather", "dram_bytes_per_cycle", 1020, 0.01),
        ("gather", "dram_bytes_per_cycle", 500, -0.51),
        ("gather", "l2_held_kibibytes", 1020, -0.01),
        ("gather", GRID, 980, -0.01),
        ("gather", GRID, 950, 0.02),
        ("gather", GRID, 2000, -1.03),
        ("gather", CLOCK, 900, -0.11),
        ("copy", CLOCK, 900, 0.07),
        ("copy", CLOCK, 980, -0.01),
    ],
)
def test_each_kind_of_value_has_its_limit(kernel: str, value: str, after: float, excess: float) -> None:
    assert Step(kernel, value, 1, 2, 1000, after).excess == pytest.approx(excess)


def test_the_table_has_the_farthest_step_first_and_says_how_many_there_are() -> None:
    steps = [Step("gather", GRID, n, n + 1, 1000, after) for n, after in ((1, 1000), (2, 900), (3, 800))]
    assert [step.before for step in violations(steps)] == [3, 2]
    lines = table(steps)
    assert lines[1].split() == ["gather", "grid", "3", "4", "-20.0%", "3%"]
    assert lines[-1] == "2 of 3 steps are beyond their limit, by 17.0% at most"
    assert table(steps[:1]) == ["0 of 1 steps are beyond their limit, by 0.0% at most"]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["arithmetic", "atomic"])
def test_two_kernels_get_no_slower_on_a_faster_chip_and_no_faster_with_a_larger_grid(kernel: str) -> None:
    assert kernel in GRIDS
    steps = scan([kernel], VALUES, 5)
    assert len(steps) >= 5 * (len(VALUES) - 1) - len(VALUES)
    assert violations(steps) == []


@pytest.mark.slow
def test_the_command_ends_with_1_if_a_step_is_beyond_its_limit() -> None:
    program = (
        "import sys, validation.__main__ as m, validation.continuity as c;"
        "c.scan = lambda *_: [c.Step('gather', 'grid', 1, 2, 100, float(sys.argv[1]))];"
        "sys.exit(m.main(['continuity']))"
    )
    for after, code in ((100, 0), (50, 1)):
        done = subprocess.run([sys.executable, "-c", program, str(after)], cwd=ROOT, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (code, "")
        assert f"{code} of 1 steps" in done.stdout
