"""The compiled engine with every index and every assertion checked: nothing reaches outside its array.

Where nothing is checked, an index from -1 down counts from the end, and one behind the end reads what lies there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import checked
import pytest
from hypothesis import HealthCheck, given, settings
from probes import kernels, machine, machines

import gpuemu
from gpuemu.arch import Architecture

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run() -> Iterator[Callable[[gpuemu.Trace, Architecture], list[int]]]:
    pytest.importorskip("numba")
    with checked.with_toy():
        yield partial(checked.issue_cycles, checked.load())


@settings(max_examples=200, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(kernels(), machines())
def test_random_kernels_stay_inside(run, trace, arch):
    assert len(run(trace, arch)) == trace.executed_instructions


@pytest.mark.parametrize("name", ["v5_swizzle", "gemm_tile_plain", "reduction_plain", "transpose_v4"])
def test_traces_that_ship_stay_inside_and_issue_when_they_do_unchecked(run, name):
    trace, arch = gpuemu.load_trace(name), machine()
    assert run(trace, arch) == gpuemu.run(trace, arch, engine="simpy").log.issue.tolist()
