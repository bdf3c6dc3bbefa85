"""The compiled engine with every index and every assertion checked: nothing reaches outside its array.

Where nothing is checked, an index from -1 down counts from the end, and one behind the end reads what lies there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import checked
import pytest
from hypothesis import HealthCheck, given, settings
from probes import kernels, machine, machines

import gpuemu
from gpuemu.arch import Architecture
from gpuemu.engine.allocate import allocate
from gpuemu.engine.building import Loop
from gpuemu.engine.records import NEVER
from gpuemu.program.lowering import lower

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run() -> Iterator[Callable[[gpuemu.Trace, Architecture], list[int]]]:
    pytest.importorskip("numba")
    with checked.with_toy():
        yield issued_by(checked.load())


def issued_by(advance: Loop) -> Callable[[gpuemu.Trace, Architecture], list[int]]:
    def issued(trace: gpuemu.Trace, arch: Architecture) -> list[int]:
        state = allocate(lower(trace, arch), arch, compiled=True)
        assert advance(state, 1 << 40) == NEVER
        return state.issue.tolist()

    return issued


@settings(max_examples=200, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(kernels(), machines())
def test_random_kernels_stay_inside(run, trace, arch):
    assert len(run(trace, arch)) == trace.executed_instructions


@pytest.mark.parametrize("name", ["v5_swizzle", "gemm_tile_plain", "reduction_plain", "transpose_v4"])
def test_traces_that_ship_stay_inside_and_issue_when_they_do_unchecked(run, name):
    trace, arch = gpuemu.load_trace(name), machine()
    assert run(trace, arch) == gpuemu.run(trace, arch, engine="simpy").log.issue.tolist()
