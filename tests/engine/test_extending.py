"""A unit is one file and one line: this one is in no list of the package, and both drivers run it."""

from __future__ import annotations

from collections.abc import Iterator

import checked
import pytest
from probes import builder, emit, issues, logs, machine
from toy_unit import TOY

import gpuemu
from gpuemu.base.errors import GpuemuError
from gpuemu.engine import building
from gpuemu.engine import machine as units
from gpuemu.engine.units.divergence import DIVERGENCE
from gpuemu.program.stall_reasons import NAMES


@pytest.fixture
def toy() -> Iterator[None]:
    with checked.with_toy():
        yield


def trace(warps: int = 1, control: bool = True) -> gpuemu.Trace:
    made = builder(warps)
    for line in ("TOYROT R4, R2 | W0 S1", "TOYSUM R5, R3 | W1 S1", "FADD R6, R4, R5 | B01 S1", "EXIT | S5"):
        emit(made, line if control else line.partition(" |")[0])
    return made.build()


def test_it_times_its_instructions_and_warps_wait_for_them(toy):
    result = gpuemu.run(trace(), machine(), engine="simpy")
    first, second, last, _ = issues(result)
    assert second == first + 1
    assert last == first + 1 + 4 + 20  # the sum is taken 4 cycles behind the turn, which came a cycle behind its issue
    assert result.stalls["toy"] > 0
    assert [*result.stalls].index("toy") == len(result.stalls) - 2
    assert result.log.more["toy_sent"].tolist() == [2, 0, 0, 0]


def test_without_control_words_its_registers_are_waited_for(toy):
    first, *_, last, _ = issues(gpuemu.run(trace(control=False), machine(), engine="simpy"))
    assert last == first + 25


@pytest.mark.slow
@pytest.mark.parametrize("control", [True, False])
def test_compiled_code_has_it_too(toy, control, monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setitem(building._loaded, tuple(units.UNITS), checked.load())
    simpy, compiled = (gpuemu.run(trace(7, control), machine(), engine=engine) for engine in ("simpy", "compiled"))
    assert logs(simpy) == logs(compiled)
    assert simpy.log.more["toy_sent"].tolist() == compiled.log.more["toy_sent"].tolist() == [4, 4, 4, 2]


def test_it_leaves_nothing_behind():
    before = [*units.UNITS], [*NAMES], units.modules(), units.texts()
    units.add(TOY, before=DIVERGENCE)
    assert "toy_unit" in units.modules()
    units.remove(TOY)
    assert ([*units.UNITS], [*NAMES], units.modules(), units.texts()) == before
    with pytest.raises(GpuemuError, match="unknown instruction 'TOYROT'"):
        trace()


def test_a_unit_that_brings_what_there_is_is_refused(toy):
    with pytest.raises(GpuemuError, match="toy: unit: toy exists already"):
        units.add(TOY, before=DIVERGENCE)
