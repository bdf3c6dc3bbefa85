"""Results, races and conflicts of a kernel, in a test: python -m pytest examples/test_transpose.py

Runs anywhere, without a GPU. Needs gpuemu and pytest; examples/ci has a whole project, with the
fixture `gpu_kernel`, baselines and a workflow.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpuemu

KERNEL = Path(__file__).parent / "kernels" / "transpose_swizzled.cu"


@pytest.fixture
def arrays():
    matrix = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    return [matrix, np.zeros_like(matrix)]


def test_the_result_is_the_transpose_and_no_access_has_a_conflict(arrays):
    trace = gpuemu.trace_kernel(KERNEL, block=256, args=arrays)
    matrix, out = arrays
    np.testing.assert_array_equal(out, matrix.T)
    assert gpuemu.run(trace).counters["l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"] == 0


def test_no_thread_reads_before_another_has_written(arrays):
    report = gpuemu.check(KERNEL, block=256, args=arrays)
    assert not report.errors, report
