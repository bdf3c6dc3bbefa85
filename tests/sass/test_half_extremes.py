"""HMNMX2 and VHMNMX against an H200's bits: 640 lanes of special and random pairs for each form.

tests/data/h200/half_extremes.npz: by type and instruction; `in_f16x2` and `in_bf16x2` are R0, R1 and R2.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuemu.sass.machine.operands import UnsupportedError
from tests.sass.harness import execute

DATA = Path(__file__).resolve().parent.parent / "data" / "h200" / "half_extremes.npz"


@cache
def data() -> dict[str, Any]:
    with np.load(DATA) as file:
        return dict(file)


@pytest.mark.parametrize("name", [name for name in data() if not name.startswith("in_")])
def test_the_hardware_s_bits(name: str) -> None:
    kind, _, text = name.partition(" ")
    registers = dict(enumerate(data()[f"in_{kind}"]))
    assert np.array_equal(execute(text, registers, lanes=640).registers[3], data()[name])


def test_a_predicate_chooses_by_lane() -> None:
    registers = dict(enumerate(data()["in_f16x2"]))
    smaller = np.arange(640) % 3 == 0
    found = execute("VHMNMX R3, R0, R1, R2, P1", registers, predicates={1: smaller}, lanes=640).registers[3]
    least, most = (data()[f"f16x2 VHMNMX R3, R0, R1, R2, {p}"] for p in ("PT", "!PT"))
    assert np.array_equal(found, np.where(smaller, least, most))


@pytest.mark.parametrize(
    "text",
    [
        "VHMNMX.XORSIGN R3, |R0|, |R1|, |R2|, PT", "VHMNMX.FTZ R3, R0, R1, R2, PT", "VHMNMX R3, R0, R1, PT",
        "HMNMX2.XORSIGN R3, R0, |R1|, PT", "HMNMX2 R3, R0, R1, R2, PT",
    ],
)  # fmt: skip
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedError):
        execute(text)
