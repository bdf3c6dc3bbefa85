"""Whoever watches a run is told of each unit that acts, of the end, and of how far it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from probes import builder, emit, machine

import gpuemu
from gpuemu.base.errors import GpuemuError
from gpuemu.engine import Log, Observer
from gpuemu.engine import machine as units


class Acts(Observer):
    """Notes all that it is told."""

    def __init__(self) -> None:
        self.acted: list[tuple[int, str, int]] = []
        self.issued: list[Callable[[], int]] = []
        self.log: Log | None = None

    def begins(self, issued: Callable[[], int]) -> None:
        self.issued.append(issued)

    def acts(self, cycle: int, unit: str, sub_core: int) -> None:
        self.acted.append((cycle, unit, sub_core))

    def ends(self, log: Log) -> None:
        self.log = log


def trace() -> gpuemu.Trace:
    made = builder(2)
    for line in ("LDS R4, [R0] | W0 S2", "FADD R6, R4, R5 | B0 S1", "EXIT | S5"):
        emit(made, line)
    return made.build()


def test_units_act_in_the_order_of_the_machine_and_the_end_is_told() -> None:
    seen = Acts()
    result = gpuemu.run(trace(), machine(), observer=seen)
    order = {unit.name: place for place, unit in enumerate(units.phases())}
    assert [(cycle, order[unit], c) for cycle, unit, c in seen.acted] == sorted(
        (cycle, order[unit], c) for cycle, unit, c in seen.acted
    )
    assert {c for _, unit, c in seen.acted if unit == "sub_core"} == {0, 1}
    assert {"launch", "load_store", "window", "way_back", "barrier"} <= {unit for _, unit, _ in seen.acted}
    assert seen.log is result.log
    assert [issued() for issued in seen.issued] == [6]


def test_one_that_asks_for_no_units_leaves_the_driver_alone() -> None:
    pytest.importorskip("numba")

    class Ends(Observer):
        def ends(self, log: Log) -> None:
            ends.append(log.cycles)

    ends: list[int] = []
    results = [gpuemu.run(trace(), machine(), engine=engine, observer=Ends()) for engine in ("simpy", "compiled")]
    assert ends == [result.cycles for result in results]


def test_compiled_code_tells_of_no_units_and_says_so() -> None:
    with pytest.raises(GpuemuError, match=r"engine: compiled: an observer of single units\. Use simpy"):
        gpuemu.run(trace(), machine(), engine="compiled", observer=Acts())
